"""A branch that gets another name, and what happens where that is interrupted."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import ConflictError
from tests.repository.states import state
from tests.store.faults import Disk, Stopped, full_disk


@pytest.mark.parametrize("error", [Stopped, full_disk])
def test_an_interrupted_renaming_is_finished_by_the_same_command(tmp_path: Path, error) -> None:
    with Repository.init(tmp_path / "made") as repo:
        commit = repo.commit(state(0, rows=2)).id
    changes = refused = 0
    while changes == refused:
        work = tmp_path / str(changes)
        shutil.copytree(tmp_path / "made", work)
        with Disk(work, changes, error) as disk, Repository.open(work) as repo:
            with suppress(Stopped, OSError):
                repo.rename_branch("main", "other")
            refused += disk.refused > 0
        changes += 1
        with Repository.open(work) as repo:
            if [branch.name for branch in repo.branches()] != ["other"]:
                repo.rename_branch("main", "other")
            assert [(branch.name, branch.current) for branch in repo.branches()] == [("other", True)]
            assert (repo.head().id, repo.fsck(full=False).problems) == (commit, [])
        shutil.rmtree(work)
    assert refused > 2


def test_a_branch_that_somebody_made_is_not_taken_for_a_renaming(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
        repo.create_branch("other")
        with pytest.raises(ConflictError, match="exists"):
            repo.rename_branch("main", "other")
        assert [branch.name for branch in repo.branches()] == ["main", "other"]
