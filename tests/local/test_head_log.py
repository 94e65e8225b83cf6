"""Where HEAD has been is remembered: what was committed on no branch is found again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, NotFoundError


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    """Two commits on main, and one on no branch, where HEAD stands."""
    with Repository.init(tmp_path / "work") as repository:
        write(repository, 0)
        write(repository, 1)
        repository.checkout_files("main~1")
        write(repository, 2)
        yield repository


def write(repo: Repository, number: int) -> str:
    (repo.top / "run").mkdir(exist_ok=True)
    (repo.top / "run/notes.txt").write_text(str(number))
    return repo.commit_files([repo.top / "run"], message=f"state {number}").id


def said(repo: Repository, name: str = "HEAD") -> list[str]:
    return [entry.action for entry in repo.reflog(name)]


def test_head_has_a_reflog_of_branches_and_of_commits_without_one(repo: Repository) -> None:
    detached, first = repo.head().id, repo.resolve("main~1").id
    repo.switch("side", create_from="main")
    write(repo, 3)
    repo.reset("main", hard=True)
    assert said(repo) == [
        "reset: moving to main",
        "commit: state 3",
        f"checkout: moving from {detached[:12]} to side",
        "commit: state 2",
        f"checkout: moving from main to {first[:12]}",
        "commit: state 1",
        "commit: state 0",
    ]
    for entry in repo.reflog("HEAD"):
        assert repo.resolve(f"HEAD@{{{entry.number}}}").id == entry.commit
    assert said(repo, "main") == ["commit: state 1", "commit: state 0"]
    repo.checkout_files(detached)
    assert repo.reflog() == repo.reflog("HEAD")
    assert repo.resolve("@{1}").id == repo.resolve("main").id


def test_a_damaged_head_says_where_the_folder_was_and_nothing_is_lost(repo: Repository) -> None:
    head, path = repo.head().id, repo.top / ".mvcs/HEAD"
    path.write_bytes(b"")
    with pytest.raises(CorruptionError, match="damaged") as caught:
        repo.status()
    assert f"echo '{head}' > '{path}'" in caught.value.hint
    assert "reflog HEAD" in caught.value.hint
    assert said(repo)[0] == "commit: state 2"
    repo.create_branch("found", "HEAD@{0}")
    assert repo.resolve("found").id == head
    path.write_text(f"{head}\n")
    assert (repo.head().id, repo.branch) == (head, None)


def test_gc_says_that_only_the_grace_keeps_what_head_left(repo: Repository) -> None:
    from mvcs.cli.commands.gc import command

    repo.checkout_files("main")
    assert "for the grace only" in " ".join((command.help or "").split())
    going = repo.gc(grace_days=0).garbage
    assert {item.reason for item in going} == {
        "no branch, tag or reflog of one leads to a commit that needs it"
    }
    assert "commit: state 2" in said(repo)


def test_what_head_left_is_kept_for_the_grace(repo: Repository) -> None:
    detached = repo.head().id
    assert not any("no commit" in note for note in repo.fsck().notes)
    (repo.top / ".mvcs/HEAD").write_text("ref: main\n")
    assert (repo.gc(grace_days=1).garbage, repo.gc(grace_days=1).waiting) == ([], [])
    notes = [note for note in repo.fsck().notes if "no commit" in note]
    assert notes
    assert all(f"mvcs branch NAME {detached[:12]}" in note for note in notes)
    repo.checkout_files("main", force=True)
    repo.create_branch("found", detached[:12])
    assert repo.fsck().notes == []


def test_without_a_record_of_moves_fsck_names_what_no_branch_leads_to(repo: Repository) -> None:
    detached = repo.head().id
    (repo.top / ".mvcs/local/head.json").write_text("damaged")
    (repo.top / ".mvcs/HEAD").write_text("")
    with pytest.raises(CorruptionError) as caught:
        repo.head()
    assert "fsck" in caught.value.hint
    with pytest.raises(NotFoundError, match="not known"):
        repo.reflog("HEAD")
    assert any(f"'state 2': 'mvcs branch NAME {detached[:12]}'" in note for note in repo.fsck().notes)
    (repo.top / ".mvcs/HEAD").write_text("ref: main\n")
    assert said(repo) == ["commit: state 1", "commit: state 0"]
    assert repo.gc(grace_days=0).garbage
