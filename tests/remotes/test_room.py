"""A quota of the store that receives: nothing comes that has no room, and old commits go first."""

import os
import time
from pathlib import Path

import pytest

from mvcs import Repository, StorageError
from mvcs.repository.quota import Quota
from tests.repository.states import content, state

ROWS = 200


@pytest.fixture
def theirs(tmp_path: Path) -> Repository:
    made = Repository.init(tmp_path / "theirs")
    made.commit(state(0, ROWS), step=0)
    return made


@pytest.fixture
def ours(theirs: Repository, tmp_path: Path) -> Repository:
    Repository.clone(f"file://{theirs.top}/.mvcs", tmp_path / "ours").close()
    return Repository.open(tmp_path / "ours")


def packs(repo: Repository) -> dict[str, int]:
    return Quota.of(repo._session.place.backend, repo._session.place.config).sizes()


def limited(repo: Repository, more: int) -> Repository:
    repo.config_set("store.max_bytes", str(sum(packs(repo).values()) + more))
    return Repository.open(repo.top or "")


@pytest.mark.parametrize("verb", ["fetch", "pull"])
def test_what_has_no_room_does_not_come(theirs: Repository, ours: Repository, verb: str) -> None:
    for number in range(1, 4):
        theirs.commit(state(number, ROWS), step=number)
    before, limit = packs(ours), limited(ours, 20_000)
    with pytest.raises(StorageError, match=r"nothing was fetched: .* what is missing here .* more") as caught:
        getattr(limit, verb)()
    assert "store.max_bytes SIZE" in str(caught.value.hint)
    assert packs(limit) == before
    assert limit.resolve("HEAD").step == 0
    assert limit.resolve("origin/main").step == 0
    assert not list((limit.top / ".mvcs/incoming").rglob("*.pack"))
    limit.config_unset("store.max_bytes")
    with Repository.open(ours.top or "") as again:
        again.pull()
        assert content(again, "HEAD") == content(theirs, "HEAD")


def test_what_fits_comes_and_counts(theirs: Repository, ours: Repository) -> None:
    theirs.commit(state(1, ROWS), step=1)
    theirs.commit(state(2, ROWS), branch="other", step=2)
    ours = limited(ours, 10_000_000)
    before = sum(packs(ours).values())
    assert not ours._session.quota.is_near(0)
    report = ours.fetch()
    assert sum(packs(ours).values()) == before + report.bytes_received
    assert ours._session.quota._taken == before + report.bytes_received


def test_a_full_store_fetches_what_takes_nothing(theirs: Repository, ours: Repository) -> None:
    theirs.create_branch("second")
    theirs.commit(state(5, ROWS), branch="second")  # nothing needs its packs soon, but they are there
    theirs.delete_branch("second", force=True)
    theirs.create_branch("third")
    ours = limited(ours, -1000)
    assert [ref.name for ref in ours.fetch().updated] == ["origin/third"]


def test_what_may_go_at_once_makes_room(theirs: Repository, ours: Repository) -> None:
    for number in range(1, 4):
        ours.commit(state(number, ROWS), step=number, branch="mine", step_size=0.5)
    theirs.commit(state(9, ROWS), step=9)
    ours.config_set("retention.exact_layers", "0")
    ours = limited(ours, 60_000)
    assert any("exact" in path for path in packs(ours))
    ours.pull()
    assert content(ours, "HEAD") == content(theirs, "HEAD")
    assert sum(packs(ours).values()) <= int(str(ours.config_get("store.max_bytes")))
    assert not any("exact" in path for path in packs(ours))
    assert ours.fsck().ok


def test_commits_that_lean_on_what_went_here_bring_it_again(theirs: Repository, ours: Repository) -> None:
    """Rules here let old commits go, which makes room; what comes needs them as it is stored over there."""
    for number in range(1, 4):
        theirs.commit(state(number, ROWS), step=number)
    ours.pull()
    ours.set_retention(last=2)
    theirs.commit(state(4, ROWS), step=4)
    ours, dropped = limited(ours, 1000), 0
    for _ in range(3):
        age(ours)
        with pytest.raises(StorageError, match="nothing was fetched"):
            ours.pull()
        dropped = sum(info.data_dropped for info in ours.log())
    assert dropped == 2
    assert ours.fsck().ok
    ours.config_unset("store.max_bytes")
    with Repository.open(ours.top or "") as again:
        again.pull()
        assert content(again, "HEAD") == content(theirs, "HEAD")
        assert again.fsck().ok


def age(repo: Repository) -> None:
    """Let a month pass by the clock of a store."""
    local, written = (repo.top or Path()) / ".mvcs", time.time() - 30 * 86400
    for path in (*local.rglob("*.pack"), *local.glob("gc/*")):
        os.utime(path, (written, written))
