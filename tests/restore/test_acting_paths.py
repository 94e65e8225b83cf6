"""Files that act on whoever restores them: left out of commits, and never written."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.checkpoint.files import capture_files
from mvcs.commits.request import CommitRequest
from mvcs.errors import CorruptionError, UsageError
from mvcs.objects.trees.leaves import FileEntry
from tests.repository.states import write_model

OBEYED = "#!/bin/sh\ntouch obeyed\n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository in a clone of git, as the Hugging Face hub's are."""
    folder = tmp_path / "work"
    write_model(folder / "model.safetensors", 0)
    write_model(folder / "sub/model.safetensors", 1)
    for name in (
        ".git/config",
        "sub/.git",
        ".hg/hgrc",
        "sub/.svn/entries",
        "buried/objects/x",
        "buried/refs/x",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(OBEYED)
    (folder / "buried/HEAD").write_text("ref: refs/heads/main\n")
    Repository.init(folder).close()
    return folder


def paths(repo: Repository, rev: str = "HEAD") -> list[str]:
    return [entry.path for entry in repo._reading(rev).tree.files]


def test_a_folder_is_committed_without_what_version_control_keeps_in_it(work: Path) -> None:
    with Repository.open(work) as repo:
        info = repo.commit_files([work], message="0")
        assert paths(repo) == ["model.safetensors", "sub/model.safetensors"]
    (note,) = info.notes
    assert note == (
        "'.git', '.hg', 'buried', 'sub/.git', 'sub/.svn' left out: version control tools would act on it"
    )


@pytest.mark.parametrize("name", [".git", ".git/config", "sub/.svn"])
def test_what_version_control_keeps_cannot_be_named(work: Path, name: str) -> None:
    write_model(work / ".git/config.safetensors", 0)
    with Repository.open(work) as repo:
        with pytest.raises(UsageError):
            repo.commit_files([work / name], message="0")
        for wanted in (".git/x.safetensors", ".GIT /x.safetensors", "git~1"):
            with pytest.raises(UsageError, match="version control tools"):
                repo.commit_files(
                    [work / "model.safetensors"], message="0", names={work / "model.safetensors": wanted}
                )


def committed_under(repo: Repository, found: Path, names: dict[str, str]) -> str:
    """Commit a folder's files under other names, as a hand-made history may have them."""
    captured = capture_files([found], found)
    entries = [replace(entry, path=names.get(entry.path, entry.path)) for entry in captured.files]
    files: tuple[FileEntry, ...] = tuple(sorted(entries, key=lambda entry: entry.path))
    made = repo._commit(replace(captured, files=files), CommitRequest("", "mallory"), repo._position())
    return made.revision.id.hex()


def pushed_under(top: Path, source: Path, names: dict[str, str]) -> Path:
    """Push a good commit to `far`, which `near` clones, and then one of files under other names."""
    with Repository.init(top / "here") as repo:
        write_model(repo.top / "model.safetensors", 0)
        repo.commit_files([repo.top / "model.safetensors"], message="good")
        repo.add_remote("origin", str(top / "far"))
        repo.push()
        Repository.clone(str(top / "far"), top / "near").close()
        committed_under(repo, source, names)
        repo.push()
    return top / "far"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A project whose newest commit would make git run something."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "commondir").write_text("x")
    (source / "readme").write_text("x")
    return pushed_under(tmp_path, source, {"commondir": ".git/commondir"})


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if ".mvcs" not in path.parts)


def test_a_history_that_would_act_is_seen_and_not_restored(hostile: Path, tmp_path: Path) -> None:
    with Repository.open(tmp_path / "near") as near:
        before = near.head()
        with pytest.raises(CorruptionError, match=r"'\.git/commondir' is not restored") as caught:
            near.pull()
        assert caught.value.exit_code == 5
        assert near.head().id == before.id
        tip = near.resolve("origin/main")
        assert near.show(tip.id).commit.id == tip.id
        assert [info.id for info in near.log(tip.id)] == [tip.id, before.id]
        assert near.fsck().problems == []
        for action in (
            lambda: near.checkout_files(tip.id),
            lambda: near.checkout_files(tip.id, force=True),
            lambda: near.switch("side", create_from=tip.id),
            lambda: near.export(tip.id, tmp_path / "out"),
        ):
            with pytest.raises(CorruptionError, match="commondir"):
                action()
        assert listed(near.top) == ["model.safetensors"]
    with pytest.raises(CorruptionError, match="commondir"):
        Repository.clone(str(hostile), tmp_path / "clone")
    assert listed(tmp_path / "clone") == []
    assert not (tmp_path / "out").exists()


def test_leaving_a_commit_that_holds_a_tools_folder_leaves_the_folder_alone(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "config").write_text("mine")
    with Repository.init(tmp_path / "work") as repo:
        write_model(repo.top / "model.safetensors", 0)
        first = repo.commit_files([repo.top / "model.safetensors"], message="good")
        committed_under(repo, source, {"config": ".git/config"})
        shutil.copytree(source, repo.top / ".git")
        repo.checkout_files(first.id, force=True)
        assert (repo.top / ".git/config").read_text() == "mine"


def test_a_clone_that_would_itself_be_a_repository_of_git_is_not_made(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    names = {"one": "HEAD", "two": "config", "three": "objects/x", "four": "refs/heads/x"}
    for name in names:
        (source / name).write_text("x")
    with Repository.init(tmp_path / "mallory") as repo:
        committed_under(repo, source, names)
        repo.add_remote("origin", str(tmp_path / "far"))
        repo.push()
    with pytest.raises(CorruptionError, match=r"'\./HEAD' is not restored"):
        Repository.clone(str(tmp_path / "far"), tmp_path / "clone")
    assert listed(tmp_path / "clone") == []


def commit_texts(repo: Repository, texts: dict[str, str]) -> str:
    """Commit files of text as a folder holds them, in place of all that HEAD has."""
    for name, text in texts.items():
        (repo.top / name).parent.mkdir(parents=True, exist_ok=True)
        (repo.top / name).write_text(text)
    return repo.commit_files([repo.top], message="x").id


def test_two_harmless_commits_do_not_leave_a_repository_of_git(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "mallory") as repo:
        first = commit_texts(repo, {"x/objects/readme": "x", "x/refs/readme": "x", "model.txt": "0"})
        repo.add_remote("origin", str(tmp_path / "far"))
        repo.push()
        Repository.clone(str(tmp_path / "far"), tmp_path / "near").close()
        shutil.rmtree(repo.top / "x")
        second = commit_texts(repo, {"x/HEAD": "ref: refs/heads/main", "x/config": OBEYED})
        repo.push()
    with Repository.open(tmp_path / "near") as near:
        with pytest.raises(CorruptionError, match="git would take it") as caught:
            near.pull()
        assert caught.value.exit_code == 5
        before = listed(near.top)
        with pytest.raises(CorruptionError, match="git would take it"):
            near.export(second, near.top)
        assert listed(near.top) == before
        assert near.head().id == first


def test_folders_that_a_checkout_empties_go_and_others_stay(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "work") as repo:
        first = commit_texts(repo, {"model.txt": "0"})
        second = commit_texts(repo, {"a/b/c.txt": "1", "mine/c.txt": "1"})
        (repo.top / "mine/.tmp.keep").mkdir()
        (repo.top / "link").symlink_to("a")
        repo.checkout_files(first)
        assert listed(repo.top) == ["link", "mine", "mine/.tmp.keep", "model.txt"]
        repo.checkout_files(second)
        assert (repo.top / "a/b/c.txt").read_text() == "1"
