"""What a collector asks of the store follows what is new, and what it deletes leans on no local record."""

import json

import pytest

from mvcs import Repository
from mvcs.local.records import LocalRecords
from mvcs.upkeep import reachable_packs
from tests.store.dying import state
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
