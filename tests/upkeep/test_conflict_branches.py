"""Conflict branches go when the user deleted them, or another branch contains them, and never by age."""

import os
import time

import pytest

from mvcs import Repository
from mvcs.errors import ConflictError
from tests.store.dying import state
from tests.upkeep.test_garbage import DAY, age, packs


@pytest.fixture
def repo(tmp_path):
    """Two commits that raced: the one that lost is on a conflict branch."""
    with Repository.init(tmp_path) as first, Repository.open(tmp_path) as second:
        first.commit(state(0), bins=16)
        first.kept = packs(tmp_path)
        position = second._position()
        first.commit(state(1), bins=16)
        second._position = lambda *_: position
        with pytest.raises(ConflictError):
            second.commit(state(2), bins=16)
        [first.conflict] = [branch.name for branch in first.branches() if ".conflict-" in branch.name]
        yield first


def test_it_stays_at_any_age(repo, tmp_path):
    age(tmp_path, packs(tmp_path), 4000)
    report = repo.gc(grace_days=0, execute=True)
    assert (report.garbage, report.branches) == ([], [])
    assert repo.checkout(repo.conflict, numpy=True)["step"] == 2


def test_one_that_was_deleted_goes_a_grace_later(repo, tmp_path):
    age(tmp_path, packs(tmp_path), 400)
    before = packs(tmp_path)
    repo.delete_branch(repo.conflict, force=True)
    assert repo.gc(wait_days=0, execute=True).garbage == []
    assert repo.checkout(f"{repo.conflict}@{{1}}", numpy=True)["step"] == 2
    written = time.time() - 15 * DAY
    for record in (tmp_path / f".mvcs/refs/heads/{repo.conflict}").iterdir():
        os.utime(record, (written, written))
    gone = [item.path for item in repo.gc(wait_days=0, execute=True).garbage]
    assert {path.partition("/")[0] for path in gone} == {"packs", "exact", "manifests"}
    assert len(before - packs(tmp_path)) == 3
    with Repository.open(tmp_path) as again:
        assert again.fsck().ok
        assert again.checkout("main", exact=True, numpy=True)["step"] == 1


def test_the_past_of_other_branches_counts_at_any_age(repo, tmp_path):
    repo.create_branch("mine", repo.conflict)
    repo.delete_branch(repo.conflict, force=True)
    repo.delete_branch("mine", force=True)
    age(tmp_path, packs(tmp_path), 400)
    assert repo.gc(grace_days=0, execute=True).garbage == []


def test_one_that_another_branch_contains_goes_and_its_commit_stays(repo):
    repo.create_branch("mine", repo.conflict)
    repo.switch("mine")
    repo.commit(state(3), bins=16)
    assert repo.gc().branches == [repo.conflict]
    assert repo.conflict in [branch.name for branch in repo.branches()]
    report = repo.gc(grace_days=0, execute=True)
    assert (report.branches, report.garbage) == ([repo.conflict], [])
    assert [branch.name for branch in repo.branches()] == ["main", "mine"]
    assert repo.checkout("mine~1", numpy=True)["step"] == 2
    assert repo.fsck().ok


def test_one_that_head_stands_on_stays(repo):
    repo.create_branch("mine", repo.conflict)
    repo.switch(repo.conflict)
    assert repo.gc(grace_days=0, execute=True).branches == []


def test_two_that_contain_each_other_stay(repo):
    other = f"other.conflict-{repo.conflict[-8:]}"
    repo.create_branch(other, repo.conflict)
    assert repo.gc(grace_days=0, execute=True).branches == []
