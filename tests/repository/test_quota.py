"""A quota: what may go goes first, then commits are refused, and what is there stays whole."""

import os
import time
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import StorageError, UsageError
from tests.repository.states import content, state

ROWS = 200


def packs(folder: Path) -> dict[str, int]:
    return {str(pack): pack.stat().st_size for pack in (folder / ".mvcs").rglob("*.pack")}


def commit(repo: Repository, number: int) -> str:
    return repo.commit(state(number, ROWS), step=number).id


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository.init(tmp_path)
    for number in range(4):
        commit(made, number)
    return made


def limited(repo: Repository, size: int) -> Repository:
    repo.config_set("store.max_bytes", str(size))
    return Repository.open(repo.top or "")


def test_a_commit_that_would_pass_it_is_refused_and_leaves_nothing(repo: Repository, tmp_path: Path) -> None:
    before = packs(tmp_path)
    repo = limited(repo, sum(before.values()) + 1000)
    with pytest.raises(StorageError, match=r"the store takes .* more, and store\.max_bytes") as caught:
        commit(repo, 10)
    assert "retention set" in str(caught.value.hint)
    assert packs(tmp_path) == before
    assert repo.resolve("HEAD").step == 3
    assert repo.fsck().ok
    assert not list((tmp_path / ".mvcs/local").glob("*.journal"))
    repo.config_set("store.max_bytes", "1GB")
    with Repository.open(tmp_path) as again:
        commit(again, 10)


def test_old_commits_go_first(repo: Repository, tmp_path: Path) -> None:
    repo.set_retention(last=2)
    one = max(packs(tmp_path).values())
    repo = limited(repo, sum(packs(tmp_path).values()) + 2 * one)
    written = time.time() - 30 * 86400
    for number in range(10, 20):
        for pack in packs(tmp_path):
            os.utime(pack, (written, written))
        commit(repo, number)
        assert sum(packs(tmp_path).values()) <= int(str(repo.config_get("store.max_bytes")))
        assert content(repo, "HEAD") == content(repo, f"step:{number}")
    assert sum(info.data_dropped for info in repo.log()) >= 8
    assert repo.fsck().ok


def test_a_quota_below_the_tip_says_so(repo: Repository, tmp_path: Path) -> None:
    before = packs(tmp_path)
    repo = limited(repo, 1000)
    with pytest.raises(StorageError, match=r"what the tips of branches need takes .* alone") as caught:
        commit(repo, 10)
    assert "store.max_bytes SIZE" in str(caught.value.hint)
    assert packs(tmp_path) == before
    content(repo, "HEAD")


def test_others_who_fill_the_store_are_noticed(repo: Repository, tmp_path: Path) -> None:
    room = 3 * max(packs(tmp_path).values())
    repo = limited(repo, sum(packs(tmp_path).values()) + 2 * room)
    commit(repo, 10)
    with Repository.open(tmp_path) as other:
        other.config_set("store.max_bytes", "1GB")
    with Repository.open(tmp_path) as other:
        for number in range(20, 30):
            commit(other, number)
    for number in range(30, 40):
        try:
            commit(repo, number)
        except StorageError:
            break
    else:
        pytest.fail("the quota was never met")


def test_what_is_no_size_is_refused(repo: Repository) -> None:
    with pytest.raises(UsageError, match="a size such as 500GB"):
        repo.config_set("store.max_bytes", "much")


def test_a_store_elsewhere_is_opened_with_a_quota(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "work", store=str(tmp_path / "store")) as repo:
        repo.config_set("store.max_bytes", "50kB")
    with (
        Repository.open(tmp_path / "work") as repo,
        pytest.raises(StorageError, match="nothing was committed"),
    ):
        commit(repo, 0)
