"""Leaving files out of a commit: the folder follows, and nothing that is stored nowhere goes."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mvcs import Repository
from mvcs.errors import ConflictError, MvcsError, NotFoundError, UsageError
from mvcs.progress import Silent
from tests.repository.states import write_model


@pytest.fixture
def repo(tmp_path: Path) -> Any:
    """Three files, two of them in a folder."""
    with Repository.init(tmp_path) as repository:
        for number, name in enumerate(("a", "run/b", "run/c")):
            write_model(tmp_path / f"{name}.safetensors", number)
        repository.commit_files([tmp_path / "a.safetensors", tmp_path / "run"], message="all")
        yield repository


def test_a_file_leaves_the_commit_and_the_folder_and_comes_back(repo: Repository, tmp_path: Path) -> None:
    data = (tmp_path / "a.safetensors").read_bytes()
    info = repo.remove_files([tmp_path / "a.safetensors"], message="superseded")
    assert (info.left, info.kept) == (["a.safetensors"], ["run/b.safetensors", "run/c.safetensors"])
    assert not (tmp_path / "a.safetensors").exists()
    assert {entry.state for entry in repo.status().entries} == {"unmodified"}
    repo.checkout_files("HEAD~1")
    assert (tmp_path / "a.safetensors").read_bytes() == data
    assert repo.fsck().ok


def test_a_folder_goes_with_its_files_and_nothing_else(repo: Repository, tmp_path: Path) -> None:
    (tmp_path / "run" / "notes.txt").write_text("mine")
    repo.remove_files([tmp_path / "run"], message="the run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
    repo.checkout_files("HEAD~1")
    (tmp_path / "run" / "notes.txt").unlink()
    repo.remove_files([tmp_path / "run"], message="again")
    assert not (tmp_path / "run").exists()
    repo.remove_files([tmp_path / "a.safetensors"], message="the last one")
    assert (repo.show().files, repo.status().entries) == ([], [])
    repo.checkout_files("HEAD~1")
    assert (tmp_path / "a.safetensors").exists()


def test_what_is_stored_nowhere_is_refused(repo: Repository, tmp_path: Path) -> None:
    head = repo.head().id
    mine = write_model(tmp_path / "a.safetensors", 9)
    with pytest.raises(ConflictError) as caught:
        repo.remove_files([tmp_path / "a.safetensors", tmp_path / "run"], message="no")
    assert "--force" in caught.value.hint
    assert (repo.head().id, (tmp_path / "a.safetensors").read_bytes()) == (head, mine)
    assert (tmp_path / "run" / "b.safetensors").exists()
    repo.remove_files([tmp_path / "a.safetensors"], message="cached", cached=True)
    assert (tmp_path / "a.safetensors").read_bytes() == mine
    write_model(tmp_path / "run" / "b.safetensors", 9)
    repo.remove_files([tmp_path / "run" / "b.safetensors"], message="forced", force=True)
    assert not (tmp_path / "run" / "b.safetensors").exists()


def test_a_file_that_is_gone_already_leaves(repo: Repository, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").unlink()
    assert repo.remove_files([tmp_path / "a.safetensors"], message="gone").left == ["a.safetensors"]


def test_what_head_does_not_have_is_not_found(repo: Repository, tmp_path: Path) -> None:
    write_model(tmp_path / "new.safetensors", 5)
    for name in ("new.safetensors", "nothing", "run/b"):
        with pytest.raises(NotFoundError):
            repo.remove_files([tmp_path / name], message="x")
    with pytest.raises(UsageError):
        repo.remove_files([tmp_path.parent / "outside"], message="x")
    assert (tmp_path / "new.safetensors").exists()


def test_a_file_from_elsewhere_stays_where_it_lies(
    repo: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "big.safetensors"
    data = write_model(outside, 4)
    repo.commit_files([outside], message="from there", names={outside: "big.safetensors"})
    assert repo.remove_files([outside], message="no more").left == ["big.safetensors"]
    assert outside.read_bytes() == data


class Meddler(Silent):
    """Writes a file while the commit is being made."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(self, stage: str, total: int | None, unit: str) -> None:  # noqa: ARG002 - as it is called
        if stage == "storing":
            write_model(self.path, 77)


@pytest.mark.usefixtures("repo")
def test_a_file_that_changes_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with Repository.open(tmp_path, progress=Meddler(path)) as again:
        info = again.remove_files([path], message="x")
    assert any("changed meanwhile" in note for note in info.notes)
    assert path.read_bytes() == write_model(tmp_path / "twin.safetensors", 77)


def test_a_bounded_file_that_stays_keeps_its_exact_layer(repo: Repository, tmp_path: Path) -> None:
    repo.commit_files(message="bounded", bins=16)
    exact = (tmp_path / "a.safetensors").read_bytes()
    info = repo.remove_files([tmp_path / "run"], message="less")
    assert (info.exactness, info.exact_layer) == ("bounded", "kept")
    repo.checkout_files("HEAD", exact=True, force=True)
    assert (tmp_path / "a.safetensors").read_bytes() == exact


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [Path.unlink, flip])
@pytest.mark.parametrize("verb", ["rm", "checkout"])
def test_the_last_good_copy_of_a_file_stays(tmp_path: Path, damage: Any, verb: str) -> None:
    paths = [tmp_path / f"{name}.safetensors" for name in "ab"]
    with Repository.init(tmp_path) as repo:
        for number, path in enumerate(paths):
            before = set((tmp_path / ".mvcs/packs").rglob("*.pack"))
            data = write_model(path, number)
            repo.commit_files([path], message="m")
    (pack,) = set((tmp_path / ".mvcs/packs").rglob("*.pack")) - before
    pack.chmod(0o644)
    with Repository.open(tmp_path) as repo:
        repo.head()
        damage(pack)
        leave = {
            "rm": partial(repo.remove_files, message="x"),
            "checkout": lambda _: repo.checkout_files("HEAD~1"),
        }
        with pytest.raises(MvcsError):
            leave[verb]([paths[1]])
    assert paths[1].read_bytes() == data
