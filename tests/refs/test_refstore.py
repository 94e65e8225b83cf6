"""Refs move one step at a time, whoever races; the reflog is whole or says that it is not."""

import errno
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from mvcs.errors import ConflictError, CorruptionError, StorageError, UnsupportedFormatError, UsageError
from mvcs.objects import record_name
from mvcs.objects.ids import Kind, object_id
from mvcs.refs import HEADS, NOTES, REMOTES, TAGS, DamagedRecord, RefRecord, RefStore
from mvcs.refs.record import digest_of
from mvcs.refs.refstore import GRACE_MICROSECONDS, KEPT_RECORDS, RefChange
from mvcs.store.backend import open_backend
from mvcs.store.backend.local import LocalBackend
from mvcs.store.upgrades import CHANGING, Upgrade

DAY = 24 * 3600 * 1_000_000
UPGRADE = Upgrade(0, "later", CHANGING, 0, "Ada")


def commit(number):
    return object_id(Kind.COMMIT, str(number).encode())


def change(number, author="Ada"):
    return RefChange(None if number is None else commit(number), author, f"commit: {number}")


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.time = 0

    def __call__(self):
        return self.time


@pytest.fixture(params=["local", "memory"])
def backend(request, tmp_path):
    return open_backend(str(tmp_path) if request.param == "local" else f"memory://{tmp_path.name}")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def refs(backend, clock):
    return RefStore(backend, clock)


def advance(refs, name, count, kind=HEADS):
    for number in range(count):
        refs.update(kind, name, refs.newest(kind, name), change(number))


def test_a_ref_points_at_what_was_written_last(refs):
    assert refs.read(HEADS, "main") is None
    advance(refs, "main", 3)
    assert refs.read(HEADS, "main").target == commit(2)
    assert [record.number for record in refs.history(HEADS, "main")] == [2, 1, 0]
    assert list(refs.survey(HEADS).whole) == ["main"]
    assert set(refs.survey(HEADS).required()) == {"main"}


def test_names_and_kinds_stay_apart(refs):
    names = ["main", "Main", "a/b", "a", "con", "naïve", "x" * 200]
    for kind in (HEADS, TAGS, REMOTES):
        for name in names:
            refs.update(kind, name, None, change(f"{kind} {name}"))
    for kind in (HEADS, TAGS, REMOTES):
        assert list(refs.survey(kind).whole) == sorted(names)
        assert {name: record.target for name, record in refs.survey(kind).required().items()} == {
            name: commit(f"{kind} {name}") for name in names
        }


def test_deleting_keeps_numbers_and_the_reflog(refs):
    advance(refs, "main", 2)
    refs.update(HEADS, "main", refs.newest(HEADS, "main"), change(None))
    assert refs.read(HEADS, "main") is None
    assert (list(refs.survey(HEADS).whole), refs.listed(HEADS)) == ([], ["main"])
    assert refs.newest(HEADS, "main").number == 2
    again = refs.update(HEADS, "main", refs.newest(HEADS, "main"), change(9))
    assert again.number == 3
    assert [record.target for record in refs.history(HEADS, "main")] == [
        commit(9),
        None,
        commit(1),
        commit(0),
    ]


def test_who_saw_an_older_record_is_told(refs):
    first = refs.update(HEADS, "main", None, change(0))
    refs.update(HEADS, "main", first, change(1))
    for stale in (None, first):
        with pytest.raises(ConflictError) as caught:
            refs.update(HEADS, "main", stale, change(2))
        assert caught.value.hint
    assert refs.read(HEADS, "main").target == commit(1)


def test_of_racing_threads_one_wins_each_round(backend):
    writers, rounds = 4, 8
    barrier = Barrier(writers)

    def write(writer):
        refs, won = RefStore(backend), 0
        for number in range(rounds):
            barrier.wait()
            expected = refs.newest(HEADS, "main")
            barrier.wait()
            try:
                refs.update(HEADS, "main", expected, change(number, f"{writer}"))
                won += 1
            except ConflictError:
                pass
        return won

    with ThreadPoolExecutor(writers) as pool:
        assert sum(pool.map(write, range(writers))) == rounds
    records = list(RefStore(backend).history(HEADS, "main"))
    assert [record.number for record in records] == list(reversed(range(rounds)))


def append_many(root, author, count):
    refs = RefStore(open_backend(root))
    for number in range(count):
        refs.append(NOTES, "ab" * 32, change(number, author))


def test_two_processes_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=append_many, args=(str(tmp_path), name, 25)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    records = list(RefStore(open_backend(str(tmp_path))).history(NOTES, "ab" * 32))
    assert [record.number for record in records] == list(reversed(range(50)))
    for author in "ab":
        mine = [record.target for record in reversed(records) if record.author == author]
        assert mine == [commit(number) for number in range(25)]


def test_a_store_that_lets_both_win_is_noticed(refs, backend):
    first = refs.update(HEADS, "main", None, change(0))
    other = RefRecord(2, commit(7), bytes(32), 0, "Eve", "overwrote record 1 and continued")
    backend.create(f"refs/heads/main/{other.key}", other.encode())
    with pytest.raises(ConflictError, match="at the same moment"):
        refs.update(HEADS, "main", first, change(1))


def test_what_is_not_a_record_is_left_alone(refs, backend):
    advance(refs, "main", 2)
    for path in ("refs/heads/main/README", "refs/heads/.DS_Store", "refs/heads/UPPER/99999999"):
        backend.put(path, b"foreign")
    assert list(refs.survey(HEADS).whole) == ["main"]
    assert [record.number for record in refs.history(HEADS, "main")] == [1, 0]


def test_a_damaged_newest_record_is_never_skipped(refs, backend):
    advance(refs, "main", 3)
    path = backend.newest("refs/heads/main")
    data = bytearray(backend.read(path))
    data[40] ^= 1
    backend.delete(path)
    backend.put(path, bytes(data))
    for read in (refs.read, refs.newest, lambda *ref: list(refs.history(*ref))):
        with pytest.raises(CorruptionError) as caught:
            read(HEADS, "main")
        assert path in caught.value.message
        assert "reflog" in caught.value.hint


def damage(backend, path):
    data = bytearray(backend.read(path))
    data[40] ^= 1
    backend.delete(path)
    backend.put(path, bytes(data))
    return bytes(data)


def test_one_damaged_name_hides_no_other_and_is_not_absent(refs, backend):
    for name in ("main", "side"):
        advance(refs, name, 2)
    damage(backend, backend.newest("refs/heads/main"))
    found = refs.survey(HEADS)
    assert (list(found.whole), list(found.damaged)) == (["side"], ["main"])
    told = []
    assert list(found.told(told.append)) == ["side"]
    assert "'main'" in told[0]
    with pytest.raises(CorruptionError):
        found.required()


@pytest.mark.parametrize("number", [2, 1, 0])
def test_older_records_are_read_past_a_damaged_or_missing_one(refs, backend, number):
    advance(refs, "main", 3)
    path = f"refs/heads/main/{record_name(number)}"
    damage(backend, path)
    row = list(refs.row(HEADS, "main"))
    assert [found.number for found in row] == [2, 1, 0]
    [bad] = [found for found in row if isinstance(found, DamagedRecord)]
    assert (bad.number, bad.passed_over) == (number, False)
    assert refs.last_whole(HEADS, "main").target == commit(1 if number == 2 else 2)
    backend.delete(path)
    missing = [found.number for found in refs.row(HEADS, "main") if isinstance(found, DamagedRecord)]
    assert missing == ([1] if number == 1 else [])


def test_a_record_is_written_past_a_damaged_one_by_who_means_to(refs, backend):
    advance(refs, "main", 3)
    data = damage(backend, backend.newest("refs/heads/main"))
    bad = refs.top(HEADS, "main")
    assert isinstance(bad, DamagedRecord)
    assert refs.newest_number(HEADS, "main") == 2
    after = refs.update(HEADS, "main", bad, change(7))
    assert (after.number, after.previous) == (3, digest_of(data))
    assert refs.read(HEADS, "main") == after
    assert [(found.number, getattr(found, "passed_over", None)) for found in refs.row(HEADS, "main")] == [
        (3, None),
        (2, True),
        (1, None),
        (0, None),
    ]
    with pytest.raises(ConflictError):
        refs.update(HEADS, "main", bad, change(8))


class Failing(LocalBackend):
    """A disk that does not give one of its files."""

    path, errno = "", errno.EIO

    def head(self, name, length):
        if name == self.path:
            raise StorageError(f"cannot read '{name}'") from OSError(self.errno, "told so")
        return super().head(name, length)


@pytest.fixture
def failing(tmp_path):
    """Three records of main, of which the disk refuses the newest, and another branch."""
    disk = Failing(tmp_path)
    for name in ("main", "side"):
        advance(RefStore(disk), name, 3)
    disk.path = disk.newest("refs/heads/main")
    return disk


def test_what_a_disk_refuses_to_read_is_damage_of_that_record(failing):
    refs = RefStore(failing)
    found = refs.survey(HEADS)
    assert (list(found.whole), list(found.damaged)) == (["side"], ["main"])
    bad = refs.top(HEADS, "main")
    refs.update(HEADS, "main", bad, change(7))
    numbers = [(found.number, getattr(found, "passed_over", None)) for found in refs.row(HEADS, "main")]
    assert numbers == [(3, None), (2, True), (1, None), (0, None)]
    failing.path = ""  # the disk gives it again, and it is one more record
    assert [found.number for found in refs.history(HEADS, "main")] == [3, 2, 1, 0]


def test_a_disk_or_bucket_that_is_away_is_no_damage_of_a_record(failing):
    failing.near = False
    with pytest.raises(StorageError):
        RefStore(failing).survey(HEADS)
    failing.near, failing.errno = True, errno.EMFILE
    with pytest.raises(StorageError):
        RefStore(failing).survey(HEADS)


def test_a_name_without_a_record_is_missed_by_who_needs_all(refs, backend):
    advance(refs, "main", 1)
    assert refs.survey(HEADS).required()
    if isinstance(backend, LocalBackend):
        (backend.root / "refs/heads/begun").mkdir()
        assert list(refs.survey(HEADS).whole) == ["main"]
        with pytest.raises(CorruptionError, match="'refs/heads/begun' holds no record"):
            refs.survey(HEADS).required()


def test_a_note_is_added_past_a_damaged_one(refs, backend):
    advance(refs, "ab" * 32, 2, NOTES)
    damage(backend, backend.newest(f"refs/notes/{'ab' * 32}"))
    refs.append(NOTES, "ab" * 32, change(5))
    whole = [found.target for found in refs.row(NOTES, "ab" * 32) if isinstance(found, RefRecord)]
    assert whole == [commit(5), commit(0)]


def test_a_record_under_another_number_is_corruption(refs, backend):
    advance(refs, "main", 2)
    backend.put("refs/heads/main/99999990", backend.read("refs/heads/main/99999999"))
    with pytest.raises(CorruptionError, match="number of another"):
        refs.read(HEADS, "main")


def test_an_exchanged_or_missing_record_breaks_the_reflog(refs, backend):
    advance(refs, "main", 4)
    backend.delete("refs/heads/main/99999997")
    with pytest.raises(CorruptionError):
        list(refs.history(HEADS, "main"))
    forged = RefRecord(2, commit(8), bytes(32), 0, "Eve", "forged")
    backend.put("refs/heads/main/99999997", forged.encode())
    with pytest.raises(CorruptionError):
        list(refs.history(HEADS, "main"))


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 300])
def test_impossible_names_are_usage_errors(refs, name):
    with pytest.raises(UsageError):
        refs.read(HEADS, name)


def test_trimming_keeps_the_newest_hundred_and_everything_young(refs, clock):
    advance(refs, "main", KEPT_RECORDS + 50)
    clock.time = GRACE_MICROSECONDS + DAY
    advance(refs, "main", 50)  # up to number 199, which trims nothing
    assert len(list(refs.history(HEADS, "main"))) == 200
    advance(refs, "main", 1)
    kept = [record.number for record in refs.history(HEADS, "main")]
    assert kept == list(range(200, 100, -1))


def test_trimming_leaves_what_is_younger_than_the_grace(refs, clock):
    advance(refs, "main", 80)
    clock.time = GRACE_MICROSECONDS - DAY
    advance(refs, "main", 120)
    clock.time = GRACE_MICROSECONDS + DAY
    advance(refs, "main", 1)
    kept = [record.number for record in refs.history(HEADS, "main")]
    assert kept == list(range(200, 79, -1))


def test_a_damaged_old_record_is_trimmed_with_the_next_one(refs, clock, backend):
    advance(refs, "main", 2 * KEPT_RECORDS)
    first = f"refs/heads/main/{record_name(0)}"
    backend.delete(first)
    backend.create(first, b"damaged")
    clock.time = GRACE_MICROSECONDS + DAY
    advance(refs, "main", 1)
    assert refs.read(HEADS, "main").number == 2 * KEPT_RECORDS
    assert min(found.number for found in refs.row(HEADS, "main")) == KEPT_RECORDS + 1


def test_a_folder_in_the_place_of_an_old_record_keeps_no_other(refs, clock, backend, tmp_path):
    if not backend.near:
        pytest.skip("only a disk has folders")
    advance(refs, "main", 2 * KEPT_RECORDS)
    odd = tmp_path / f"refs/heads/main/{record_name(3)}"
    odd.unlink()
    (odd / "inside").mkdir(parents=True)
    clock.time = GRACE_MICROSECONDS + DAY
    advance(refs, "main", 1)
    left = {path.name for path in odd.parent.iterdir()}
    assert left == {record_name(number) for number in (3, *range(KEPT_RECORDS + 1, 2 * KEPT_RECORDS + 1))}
    assert [found.number for found in refs.row(HEADS, "main")] == list(range(200, 100, -1))
    assert len(list(refs.history(HEADS, "main"))) == KEPT_RECORDS


def test_who_slept_while_the_ref_was_trimmed_changes_nothing(refs, clock):
    advance(refs, "main", 21)
    old = refs.newest(HEADS, "main")
    advance(refs, "main", 130)
    clock.time = GRACE_MICROSECONDS + DAY
    advance(refs, "main", 50)
    before = list(refs.history(HEADS, "main"))
    with pytest.raises(ConflictError):
        refs.update(HEADS, "main", old, change(7))
    assert list(refs.history(HEADS, "main")) == before


def test_notes_are_never_trimmed(refs, clock):
    advance(refs, "cd" * 32, 150, NOTES)
    clock.time = 10 * GRACE_MICROSECONDS
    advance(refs, "cd" * 32, 51, NOTES)
    assert len(list(refs.history(NOTES, "cd" * 32))) == 201


class UpgradingBackend(LocalBackend):
    """A store that somebody upgrades just before each new record of a ref lands."""

    def create(self, name, data):
        if name.startswith("refs/") and not self.list("format"):
            super().create(UPGRADE.path, UPGRADE.encode())
        super().create(name, data)


@pytest.mark.parametrize("kind", [HEADS, TAGS])
@pytest.mark.parametrize("before", [0, 3])
def test_a_change_that_crosses_an_upgrade_is_taken_back(tmp_path, kind, before):
    advance(RefStore(LocalBackend(tmp_path)), "main", before, kind)
    refs = RefStore(UpgradingBackend(tmp_path))
    expected = refs.newest(kind, "main")
    with pytest.raises(UnsupportedFormatError, match="upgraded"):
        refs.update(kind, "main", expected, change(before))
    newest = refs.newest(kind, "main")
    assert newest.number == before + 1
    assert newest.target == (expected.target if before else None)
    assert [found.target for found in refs.history(kind, "main")][1] == commit(before)


def test_a_note_that_crosses_an_upgrade_stays(tmp_path):
    refs = RefStore(UpgradingBackend(tmp_path))
    with pytest.raises(UnsupportedFormatError, match="upgraded"):
        refs.update(NOTES, "cd" * 32, None, change(0))
    assert refs.newest(NOTES, "cd" * 32).target == commit(0)


class Unlisted(LocalBackend):
    """A disk on which the newest record is looked for by a listing only so often."""

    def __init__(self, root):
        super().__init__(root)
        self.listed = 0

    def newest(self, folder):
        self.listed += folder.startswith("refs/heads")
        return super().newest(folder)


def test_a_long_row_of_records_is_listed_once(tmp_path):
    backend = Unlisted(tmp_path)
    refs, other = RefStore(backend), RefStore(LocalBackend(tmp_path))
    other.append(HEADS, "main", change(0))
    for number in range(1, 30):
        (refs if number % 3 else other).append(HEADS, "main", change(number))
    assert refs.newest_number(HEADS, "main") == 29
    assert backend.listed == 1


@pytest.mark.parametrize("gone", [[20], [21], [22], [20, 21, 22], range(10, 23), range(21, 25), range(25)])
def test_a_known_number_hides_no_record(tmp_path, gone):
    """Whichever records are lost, the newest that is left is the one that a listing gives."""
    known, other = RefStore(LocalBackend(tmp_path)), RefStore(LocalBackend(tmp_path))
    for number in range(25):
        other.append(HEADS, "main", change(number))
        if number == 20:
            assert known.newest_number(HEADS, "main") == 20
    for number in gone:
        (tmp_path / f"refs/heads/main/{99_999_999 - number}").unlink()
    assert known.newest_number(HEADS, "main") == RefStore(LocalBackend(tmp_path)).newest_number(
        "heads", "main"
    )
