"""A branch set back: the reflog knows where it was, and nothing that is stored nowhere goes."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from mvcs import Repository
from mvcs.errors import ConflictError, NotFoundError
from mvcs.repository.branch_moves import BranchMove
from mvcs.repository.worktree.whereabouts import RESET, InterruptedMove
from tests.repository.states import write_model
from tests.store.faults import Disk, Stopped


@pytest.fixture
def repo(tmp_path: Path) -> Any:
    """Three commits of one file; the last has another one beside it."""
    with Repository.init(tmp_path / "run") as repository:
        top = repository.top
        for number in range(2):
            write_model(top / "a.safetensors", number)
            repository.commit_files([top / "a.safetensors"], message=f"step {number}", step=number)
        write_model(top / "b.safetensors", 5)
        repository.commit_files([top / "b.safetensors"], message="step 2", step=2)
        yield repository


def states(repo: Repository) -> dict[str, str]:
    return {entry.path: entry.state for entry in repo.status().entries}


def test_the_branch_moves_and_the_files_stay(repo: Repository) -> None:
    tip, data = repo.head().id, (repo.top / "a.safetensors").read_bytes()
    report = repo.reset("HEAD~2")
    assert (report.branch, report.left, report.files, report.commit.step) == ("main", tip, None, 0)
    assert (repo.top / "a.safetensors").read_bytes() == data
    assert states(repo) == {"a.safetensors": "modified", "b.safetensors": "untracked"}
    assert (repo.reflog()[0].action, repo.reflog()[1].commit) == ("reset: moving to HEAD~2", tip)
    with pytest.raises(ConflictError):
        repo.checkout_files("HEAD")
    info = repo.commit_files([repo.top / "a.safetensors"], message="both at once")
    assert (info.parents, repo.reset("main@{2}").commit.id) == ([report.commit.id], tip)
    assert repo.fsck().ok


def test_by_hard_the_files_follow_and_the_reflog_leads_back(repo: Repository) -> None:
    tip, data = repo.head().id, (repo.top / "a.safetensors").read_bytes()
    report = repo.reset("step:0", hard=True)
    assert (report.files.written, report.files.removed) == (["a.safetensors"], ["b.safetensors"])
    assert (states(repo), repo.branch) == ({"a.safetensors": "unmodified"}, "main")
    mine = write_model(repo.top / "a.safetensors", 99)
    for rev in ("HEAD", "main@{1}"):
        with pytest.raises(ConflictError) as caught:
            repo.reset(rev, hard=True)
        assert "--force" in caught.value.hint
    assert ((repo.top / "a.safetensors").read_bytes(), repo.head().step) == (mine, 0)
    count = len(repo.reflog())
    assert repo.reset(hard=True, force=True).left is None
    assert (states(repo), len(repo.reflog())) == ({"a.safetensors": "unmodified"}, count)
    assert repo.reset(tip, hard=True).commit.id == tip
    assert (repo.top / "a.safetensors").read_bytes() == data


def test_without_a_branch_head_alone_moves(repo: Repository) -> None:
    tip = repo.head().id
    repo.checkout_files("HEAD~1")
    assert repo.reset("step:0").branch is None
    assert (repo.head().step, repo.resolve("main").id) == (0, tip)
    assert repo.reset("main", hard=True).left is not None
    assert (repo.branch, repo.head().id) == (None, tip)
    with pytest.raises(NotFoundError):
        repo.reset("nonesuch")


def test_who_is_late_moves_nothing(repo: Repository) -> None:
    session = repo._session
    record, before, after = session.head_record("main"), session.head(), session.resolver.resolve("HEAD~1")
    repo.reset("HEAD~2")
    with pytest.raises(ConflictError):
        BranchMove(session, "main", record, before, after, "reset").alone()
    assert repo.head().step == 0


def test_a_reset_that_was_stopped_is_said_and_goes_on(repo: Repository, tmp_path: Path) -> None:
    repo.close()
    shutil.copytree(tmp_path / "run", tmp_path / "count")
    with Disk(tmp_path / "count") as disk, Repository.open(tmp_path / "count") as counted:
        counted.reset("HEAD~1", hard=True)
    said = 0
    for allowed in range(disk.changes):
        folder = tmp_path / f"stopped-{allowed}"
        shutil.copytree(tmp_path / "run", folder)
        with Disk(folder, allowed), pytest.raises(Stopped), Repository.open(folder) as stopped:
            stopped.reset("HEAD~1", hard=True)
        with Repository.open(folder) as again:
            if "modified" in {*states(again).values()} or again.status().problems:
                said += 1
                assert "a reset was stopped" in again.status().problems[0]
            again.reset("step:1", hard=True)
            assert (states(again), again.status().problems) == ({"a.safetensors": "unmodified"}, [])
    assert said


def test_a_reset_that_was_stopped_is_not_forgotten_on_another_branch(repo: Repository) -> None:
    session = repo._session
    before, after = session.head(), session.resolver.resolve("HEAD~1")
    InterruptedMove("main", before.id, after.id, RESET).begin(session)
    BranchMove(session, "main", session.head_record("main"), before, after, "reset").alone()
    repo.create_branch("twin")
    for leave in (
        lambda: repo.switch("new", create_from="HEAD"),
        lambda: repo.rename_branch("new", "newer"),
        lambda: repo.switch("twin"),
    ):
        leave()
        assert "a reset was stopped after 'main' moved" in repo.status().problems[0]
        with pytest.raises(ConflictError, match="a reset was stopped") as caught:
            repo.commit_files([], message="would bring the old files back")
        assert "'mvcs checkout HEAD'" in caught.value.hint
    repo.checkout_files("HEAD")
    assert (states(repo), repo.status().problems) == ({"a.safetensors": "unmodified"}, [])
    assert (repo.branch, repo.head().id) == ("twin", after.id.hex())
