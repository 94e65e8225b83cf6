"""What a collector asks of the store follows what is new, and what it deletes leans on no local record."""

import json

import pytest

from mvcs import Repository
from mvcs.local.records import LocalRecords
from mvcs.store.condemned.record import Standing
from mvcs.upkeep.collecting import reachable_packs
from mvcs.upkeep.collecting.garbage import collect_garbage
from tests.store.dying import state
from tests.upkeep.test_collector_beside_writers import DAY, World, place
from tests.upkeep.test_collector_beside_writers import state as held
from tests.upkeep.test_condemnation import log_of
from tests.upkeep.test_garbage import age, packs

COMMITS = 20


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path) as repository:
        for number in range(COMMITS):
            repository.commit(state(number), bins=16)
        yield repository


@pytest.fixture
def footers(monkeypatch):
    """Names of packs whose footers a marking reads."""
    read = []
    real = reachable_packs.read_footer

    def counted(backend, name):
        read.append(name)
        return real(backend, name)

    monkeypatch.setattr(reachable_packs, "read_footer", counted)
    return read


def test_a_second_marking_reads_the_footers_that_are_new(repo, footers, tmp_path):
    age(tmp_path, packs(tmp_path), 400)
    repo.gc(grace_days=0)
    assert len(footers) == COMMITS
    footers.clear()
    repo.commit(state(COMMITS), bins=16)
    with Repository.open(tmp_path) as again:
        again.gc(grace_days=0)
    assert len(footers) == 1


def test_what_a_forged_record_says_deletes_nothing(repo, tmp_path):
    """A line that lacks a pack of the tip: it may be condemned, and a look at the store releases it."""
    repo.gc(grace_days=0)
    path = tmp_path / ".mvcs/local/needs.json"
    before = packs(tmp_path)
    age(tmp_path, before, 400)
    with LocalRecords(tmp_path / ".mvcs").change("needs") as record:
        assert len(record) == COMMITS
        for line in record.values():
            del line[1:]
    assert json.loads(path.read_bytes().splitlines()[0])
    for wait in (None, 0):
        with Repository.open(tmp_path) as again:
            assert again.gc(execute=True, wait_days=wait).garbage == []
    assert packs(tmp_path) == before
    with Repository.open(tmp_path) as again:
        assert again.fsck().ok


def test_the_log_does_not_grow_with_collections():
    """A month apart, each of which condemns, and deletes what the one before condemned."""
    world = World()
    sizes, counts = [], []
    for number in range(6):
        with Repository(place(world.store)) as repo:
            repo.commit(held(10 + number), branch=f"gone{number}")
        for name in world.store.list(f"refs/heads/gone{number}"):
            world.store.delete(name)
        world.store.grow_old(30)
        report = collect_garbage(place(world.store), 14 * DAY, wait=DAY, execute=True)
        counts.append((len(report.condemned), len(report.garbage)))
        sizes.append(len(world.store.children("gc")))
    assert counts == [(2, 0), (1, 2), (1, 1), (1, 1), (1, 1), (1, 1)]
    assert max(sizes) <= 5
    log = log_of(world.store)
    assert len(log.of(Standing.CONDEMNED)) == 1
    assert log.unread == {}
