"""What a collector asks of the store follows what is new, and what it deletes leans on no local record."""

from collections import Counter
from dataclasses import replace

import pytest

from mvcs import Repository
from mvcs.local.records import LocalRecords
from mvcs.objects.ids import ObjectId
from mvcs.store.condemned.record import Standing
from mvcs.store.manifests import Manifests, manifest_path
from mvcs.upkeep.collecting.garbage import collect_garbage
from mvcs.upkeep.collecting.marking import KnownHistory
from tests.store.dying import state
from tests.store.in_memory import MemoryBackend
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
def manifests(monkeypatch):
    """The commits whose manifests a marking reads."""
    read = []
    real = Manifests.first

    def counted(self, commit):
        read.append(commit)
        return real(self, commit)

    monkeypatch.setattr(Manifests, "first", counted)
    return read


def test_a_second_marking_reads_the_manifests_that_are_new(repo, manifests, tmp_path):
    age(tmp_path, packs(tmp_path), 400)
    repo.gc(grace_days=0)
    assert len(manifests) == COMMITS
    manifests.clear()
    repo.commit(state(COMMITS), bins=16)
    manifests.clear()
    with Repository.open(tmp_path) as again:
        again.gc(grace_days=0)
    assert len(manifests) == 1


def test_a_manifest_that_was_collected_and_written_again_is_read_again(repo, tmp_path):
    """What is remembered of it names packs that are gone."""
    lost = repo.commit(state(99), bins=16, branch="side")
    repo.gc(grace_days=0)
    path = tmp_path / ".mvcs" / manifest_path(ObjectId(bytes.fromhex(lost.id)), 0)
    with Repository.open(tmp_path) as again:
        again.compact(max_depth=1)
        placement = again._session.store.manifests.placement(ObjectId(bytes.fromhex(lost.id)))
    for record in path.parent.glob(f"{lost.id}.*"):
        record.unlink()
    first = repo._session.store.manifests.first(ObjectId(bytes.fromhex(lost.id)))
    path.write_bytes(replace(first, placement=replace(placement, number=0)).encode())
    age(tmp_path, packs(tmp_path), 400)
    with Repository.open(tmp_path) as again:
        again.gc(grace_days=0, wait_days=0, execute=True)
        assert again.checkout("side", numpy=True)["step"] == 99


@pytest.mark.parametrize(
    "value", [{}, {"hashes": "AA==", "lines": 3}, {"lines": "x", "hashes": [], "records": ""}]
)
def test_a_record_that_does_not_fit_is_read_from_the_store_again(repo, manifests, tmp_path, value):
    repo.gc(grace_days=0)
    [subject] = [path.stem for path in (tmp_path / ".mvcs/local").glob("history-*.json")]
    with LocalRecords(tmp_path / ".mvcs").change(subject) as record:
        record.clear()
        record.update(value)
    manifests.clear()
    repo.gc(grace_days=0)
    assert len(manifests) == COMMITS
    manifests.clear()
    repo.gc(grace_days=0)
    assert manifests == []


@pytest.mark.parametrize(
    ("short", "long"), [(6, 24), pytest.param(100, 400, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_requests_follow_what_was_written_since(short, long):
    """Condemning and deleting, beside one new commit: they do not grow with history, nor do their bytes."""
    few, many = _requests(short), _requests(long)
    assert many.keys() == few.keys()
    # A manifest of a tip tells of 1 to 20 ancestors; nothing else differs.
    assert {key: many[key] for key in many if key != "bytes"} == {
        key: few[key] for key in few if key != "bytes"
    }
    assert many["bytes"] < few["bytes"] + (1 << 16)


def _requests(commits):
    """Count what a collection asks for that condemns a pack, and deletes another."""
    world, known = World(), KnownHistory()
    with Repository(place(world.store)) as repo:
        for number in range(commits):
            repo.commit(held(10 + number))
        for number in range(2):
            repo.commit(held(number), branch=f"gone{number}")
            for name in world.store.list(f"refs/heads/gone{number}"):
                world.store.delete(name)
            world.store.grow_old(30)
            collect_garbage(place(world.store), DAY, wait=DAY, execute=True, known=known)
            world.store.grow_old(2)
        repo.commit(held(9))
    # Only in this test do files that are there grow older.
    lines, modified = known.manifests.lines, world.store.modified
    lines |= {path: replace(line, stamp=modified(path)) for path, line in lines.items() if modified(path)}
    counting = Counting(world.store.files)
    report = collect_garbage(place(counting), 0, wait=DAY, execute=True, known=known)
    assert report.garbage
    return counting.asked


class Counting(MemoryBackend):
    """Counts requests by their kind, and the bytes that they give."""

    def __init__(self, files=None):
        super().__init__(files)
        self.asked = Counter()

    def _counted(self, name, answer):
        self.asked[name] += 1
        self.asked["bytes"] += len(answer) if isinstance(answer, bytes) else 0
        return answer

    def read(self, name, offset=0, length=None):
        return self._counted("read", super().read(name, offset, length))

    def head(self, name, length):
        return self._counted("head", super().head(name, length))

    def size(self, name):
        return self._counted("size", super().size(name))

    def list(self, folder):
        return self._counted("list", super().list(folder))

    def sizes(self, folder):
        found = self._counted("list", super().list(folder))
        return {name: len(self.files[name][0]) for name in found}

    def newest(self, folder):
        return self._counted("newest", super().newest(folder))


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
    assert counts == [(4, 0), (2, 4), (2, 2), (2, 2), (2, 2), (2, 2)]
    assert max(sizes) <= 5
    log = log_of(world.store)
    assert len(log.of(Standing.CONDEMNED)) == 2
    assert log.unread == {}
