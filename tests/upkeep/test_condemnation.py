"""Condemned packs: what a collector says before it deletes, and what writers do about it."""

import os
import time
from dataclasses import replace

import pytest

from mvcs import Repository
from mvcs.errors import ConflictError, CorruptionError, NotFoundError, StorageError, UnsupportedFormatError
from mvcs.history import GraphNeeds
from mvcs.history.commit_graph import Graph
from mvcs.refs import HEADS, GoingError, Marked, RefChange, RefStore, now_microseconds
from mvcs.refs.writer_duties import WriterDuties
from mvcs.store import pack_name, pack_path
from mvcs.store.backend.local import LocalBackend
from mvcs.store.condemned.log import CondemnedLog
from mvcs.store.condemned.record import CondemnedRecord, Standing, record_path
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.upgrades import CONDEMNED_PACKS, read_upgrades, upgrade
from mvcs.upkeep.collecting.garbage import named
from tests.store.dying import state
from tests.upkeep.test_garbage import DAY, age, packs

CONDEMNED, RELEASED, GOING, GONE = Standing
PACK, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture
def backend(tmp_path):
    return LocalBackend(tmp_path)


def log_of(backend):
    log = CondemnedLog(backend, now_microseconds)
    log.look()
    return log


# The log.


@pytest.mark.parametrize("standing", Standing)
def test_a_record_is_what_was_written(standing):
    record = CondemnedRecord(7, standing, (PACK, OTHER), 12, "Ada")
    assert CondemnedRecord.decode(record.encode()) == record
    assert record.path == "gc/99999992"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda data: data[:-1], CorruptionError),
        (lambda data: data.replace(b"MVCSCND1", b"MVCSCND2"), UnsupportedFormatError),
        (lambda _: b"", CorruptionError),
    ],
)
def test_a_record_that_is_none_is_refused(change, error):
    data = CondemnedRecord(0, CONDEMNED, (PACK,), 0, "Ada").encode()
    with pytest.raises(error):
        CondemnedRecord.decode(change(data))


def test_another_standing_is_of_a_later_version():
    data = CondemnedRecord(0, 4, (PACK,), 0, "Ada").encode()
    with pytest.raises(UnsupportedFormatError):
        CondemnedRecord.decode(data)


def test_the_newest_record_tells_how_a_pack_stands(backend):
    log = log_of(backend)
    log.say(CONDEMNED, [PACK, OTHER], "Ada")
    log.say(GOING, [PACK], "Ada")
    for seen in (log, log_of(backend)):
        assert (seen.of(CONDEMNED), seen.of(GOING), seen.newest) == ({OTHER}, {PACK}, 1)
        assert seen.said(CONDEMNED) == {PACK, OTHER}
        assert seen.said(CONDEMNED, after=0) == set()


def test_who_has_not_read_to_the_end_cannot_say_anything(backend):
    late = log_of(backend)
    log_of(backend).say(RELEASED, [PACK], "Ada")
    with pytest.raises(ConflictError):
        late.say(GOING, [PACK], "Bob")
    assert late.say_of(GOING, lambda: late.of(CONDEMNED), "Bob") is None
    assert late.of(RELEASED) == {PACK}


class ListedLate(LocalBackend):
    """A store whose listings of the log lack the newest records."""

    lacking = 1

    def children(self, folder):
        found = super().children(folder)
        return found[self.lacking :] if folder == "gc" else found


@pytest.mark.parametrize("lacking", [1, 2, 3])
def test_a_log_that_is_listed_late_is_asked_for_by_name(backend, tmp_path, lacking):
    log = log_of(backend)
    for standing in (CONDEMNED, GOING, GONE):
        log.say(standing, [PACK], "Ada")
    late = ListedLate(tmp_path)
    late.lacking = lacking
    assert log_of(late).of(GONE) == {PACK}


def test_a_listing_that_lacks_old_records_is_filled_up_by_name(backend, monkeypatch):
    log = log_of(backend)
    for pack in (PACK, OTHER, PACK, OTHER):
        log.say(CONDEMNED, [pack], "Ada")
    monkeypatch.setattr(backend, "children", lambda _: ["99999996", "99999999"])
    assert log_of(backend).of(CONDEMNED) == {PACK, OTHER}


def test_records_that_cannot_be_read_are_passed_over_and_told(backend):
    log = log_of(backend)
    for _ in range(5):
        log.say(CONDEMNED, [PACK], "Ada")
    backend.delete(record_path(2))
    backend.replace(record_path(3), b"rotten")
    again = log_of(backend)
    assert (again.newest, sorted(again.unread), again.of(CONDEMNED)) == (4, [2, 3], {PACK})


@pytest.mark.parametrize("number", [99_999_999, 99_999_000, 5_000])
def test_a_file_far_beyond_the_log_is_none_of_it(backend, number):
    for _ in range(3):
        log_of(backend).say(Standing.CONDEMNED, [PACK], "Ada")
    path = f"gc/{99_999_999 - number:08d}"
    backend.put(path, b"")
    log = log_of(backend)
    assert (log.newest, log.unread) == (2, {})
    assert log.say(Standing.RELEASED, [PACK], "Ada").number == 3
    assert log_of(backend).standing(PACK).standing is Standing.RELEASED
    assert backend.read(path) == b""


def test_trimming_takes_the_oldest_records_that_nothing_stands_by(backend):
    log = log_of(backend)
    for standing in (CONDEMNED, GOING, GONE):
        log.say(standing, [PACK], "Ada")
    log.say(CONDEMNED, [OTHER], "Ada")
    log.say(RELEASED, [OTHER], "Ada")
    log.trim(lambda _: False)
    assert len(backend.children("gc")) == 5
    log.trim(lambda _: True)
    assert backend.children("gc") == ["99999995", "99999999"]
    again = log_of(backend)
    assert (again.newest, again.of(CONDEMNED), again.of(RELEASED)) == (4, set(), {OTHER})
    again.say(CONDEMNED, [PACK], "Ada")
    assert log_of(backend).of(CONDEMNED) == {PACK}


def test_trimming_stops_at_what_is_condemned(backend):
    log = log_of(backend)
    log.say(RELEASED, [PACK], "Ada")
    log.say(CONDEMNED, [PACK], "Ada")
    log.say(RELEASED, [OTHER], "Ada")
    log.trim(lambda _: True)
    assert len(backend.children("gc")) == 3


# A collector.


@pytest.fixture
def repo(tmp_path):
    """One commit on main; and the packs of a commit, 30 days old, whose branch and reflog are gone."""
    with Repository.init(tmp_path) as repository:
        repository.commit(state(1), bins=16)
        kept = packs(tmp_path)
        repository.lost_id = repository.commit(state(2), bins=16, branch="side").id
        for record in (tmp_path / ".mvcs/refs/heads/side").iterdir():
            record.unlink()
        (tmp_path / ".mvcs/refs/heads/side").rmdir()
        (tmp_path / ".mvcs/local/seen.json").unlink()
        repository.lost = packs(tmp_path) - kept
        age(tmp_path, repository.lost, 30)
        yield repository


def age_log(folder, days):
    for record in (folder / ".mvcs/gc").iterdir():
        written = time.time() - days * DAY
        os.utime(record, (written, written))


def is_whole(folder):
    with Repository.open(folder) as repo:
        report = repo.fsck()
    return report.ok and report.notes == []


def of(items):
    return {item.path for item in items}


def test_a_first_gc_condemns_and_a_later_one_deletes(repo, tmp_path):
    plan = repo.gc()
    assert (plan.garbage, of(plan.condemned)) == ([], repo.lost)
    assert not (tmp_path / ".mvcs/gc").exists()
    first = repo.gc(execute=True)
    assert (first.garbage, of(first.condemned)) == ([], repo.lost)
    assert all(DAY - 60 < item.left <= DAY for item in first.condemned)
    assert repo.lost <= packs(tmp_path)
    assert [found.name for found in read_upgrades(repo._session.place.backend)] == [CONDEMNED_PACKS]
    age_log(tmp_path, 0.9)
    assert repo.gc(execute=True).garbage == []
    age_log(tmp_path, 1.1)
    assert of(repo.gc().garbage) == repo.lost
    assert repo.lost <= packs(tmp_path)
    last = repo.gc(execute=True)
    assert (of(last.garbage), last.condemned) == (repo.lost, [])
    assert last.bytes == sum(item.bytes for item in first.condemned)
    assert not repo.lost & packs(tmp_path)
    assert log_of(repo._session.place.backend).of(CONDEMNED, GOING) == set()
    assert is_whole(tmp_path)


def test_a_store_without_garbage_is_not_upgraded(tmp_path):
    with Repository.init(tmp_path) as repo:
        repo.commit(state(1), bins=16)
        repo.gc(grace_days=0, execute=True)
        assert read_upgrades(repo._session.place.backend) == []
    assert not (tmp_path / ".mvcs/gc").exists()


def test_what_is_needed_again_is_released(repo, tmp_path):
    repo.gc(execute=True)
    repo.create_branch("back", repo.lost_id)
    assert log_of(repo._session.place.backend).of(RELEASED) == {named(path) for path in repo.lost}
    age_log(tmp_path, 100)
    report = repo.gc(execute=True)
    assert (report.garbage, report.condemned) == ([], [])
    assert repo.checkout("back", numpy=True)["step"] == 2


def test_a_collector_releases_what_a_writer_that_died_has_named(repo, tmp_path):
    """A ref that somebody made who released nothing, such as one that died before it could."""
    repo.gc(execute=True)
    backend = repo._session.place.backend
    revision = repo._session.resolver.resolve(repo.lost_id)
    gc = tmp_path / ".mvcs/gc"
    gc.rename(tmp_path / "hidden")
    RefStore(backend).update(HEADS, "back", None, RefChange(revision.id, "Ada", "branch"))
    (tmp_path / "hidden").rename(gc)
    age_log(tmp_path, 100)
    assert repo.gc(execute=True).garbage == []
    assert log_of(backend).of(CONDEMNED, GOING) == set()
    assert repo.checkout("back", numpy=True)["step"] == 2


def test_a_collector_goes_on_where_another_died(repo, tmp_path):
    repo.gc(execute=True)
    log = log_of(repo._session.place.backend)
    log.say(GOING, log.of(CONDEMNED), "Bob")
    (tmp_path / ".mvcs" / min(repo.lost)).unlink()  # the pack of its exact layer
    with pytest.raises(GoingError, match="being deleted"):
        repo.create_branch("back", repo.lost_id)
    assert repo.gc(execute=True).garbage == []  # Bob may be at work
    age_log(tmp_path, 1.1)
    assert of(repo.gc(execute=True).garbage) == repo.lost - {min(repo.lost)}
    assert log_of(repo._session.place.backend).of(GONE) == {named(path) for path in repo.lost}
    repo.commit(state(3), bins=16)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    "act", [lambda repo: repo.pin(repo.lost_id), lambda repo: repo._session.set_head(repo.lost_id)]
)
def test_what_is_going_is_not_pinned_and_head_does_not_come_to_stand_there(repo, monkeypatch, act, behind):
    repo.gc(execute=True)
    look = WriterDuties.before

    def before(*arguments):
        found = look(*arguments) if behind else None
        log = log_of(repo._session.place.backend)
        log.say(GOING, sorted({named(path) for path in repo.lost}), "a collector")
        return found if behind else look(*arguments)

    monkeypatch.setattr(WriterDuties, "before", before)
    with pytest.raises(GoingError):
        act(repo)
    assert repo.retention().pins == []
    assert repo.status().branch == "main"


@pytest.mark.parametrize("harm", [os.unlink, lambda path: path.write_bytes(b"rotten")])
def test_nothing_goes_by_a_record_that_cannot_be_read(repo, tmp_path, harm):
    repo.gc(execute=True)
    log = log_of(repo._session.place.backend)
    log.say(CONDEMNED, [PACK], "Ada")
    log.say(RELEASED, [PACK], "Ada")
    harm(tmp_path / ".mvcs" / record_path(1))
    age_log(tmp_path, 2)
    report = repo.gc(execute=True)
    assert report.garbage == []
    assert any("waits again" in note for note in report.notes) == (harm is not os.unlink)
    assert repo.commit(state(3), bins=16)
    age_log(tmp_path, 2)
    assert of(repo.gc(execute=True).garbage) == repo.lost


def test_a_clock_that_is_far_off_deletes_nothing(repo, tmp_path, monkeypatch):
    repo.gc(execute=True)
    real = LocalBackend.modified

    def modified(self, name):
        found = real(self, name)
        return found + 400 * DAY if found is not None and name.startswith("tmp/") else found

    monkeypatch.setattr(LocalBackend, "modified", modified)
    with pytest.raises(StorageError, match="days apart"):
        repo.gc(execute=True)
    assert repo.lost <= packs(tmp_path)


def test_files_of_the_future_are_young(repo, tmp_path):
    age(tmp_path, repo.lost, -400)
    report = repo.gc(execute=True)
    assert (report.garbage, report.condemned, of(report.waiting)) == ([], [], repo.lost)
    age(tmp_path, repo.lost, 30)
    repo.gc(execute=True)
    age_log(tmp_path, -400)
    assert repo.gc(execute=True).garbage == []


# A writer.


def refs_of(backend):
    store = ObjectStore(backend)
    return RefStore(backend, needs=GraphNeeds(store, Graph(store)))


def change_to(repo, rev):
    revision = repo._session.resolver.resolve(rev)
    return RefChange(revision.id, "Ada", "branch")


class Meanwhile(LocalBackend):
    """Does something before a ref record is created, or behind it."""

    before = after = None

    def create(self, name, data):
        if name.startswith("refs/") and self.before:
            action, self.before = self.before, None
            action()
        super().create(name, data)
        if name.startswith("refs/") and self.after:
            action, self.after = self.after, None
            action()


@pytest.mark.parametrize("upgraded", [True, False])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_goes_while_a_ref_is_made_takes_it_back(repo, tmp_path, when, upgraded):
    backend = Meanwhile(tmp_path / ".mvcs")
    refs, change = refs_of(backend), change_to(repo, repo.lost_id)
    if upgraded:
        upgrade(backend, CONDEMNED_PACKS, 0, "Ada")
    setattr(backend, when, lambda: repo.gc(wait_days=0, execute=True))
    if when == "after":
        refs.update(HEADS, "back", None, change)
        assert refs.read(HEADS, "back").target == change.target
        assert is_whole(tmp_path)
        return
    with pytest.raises(GoingError):
        refs.update(HEADS, "back", None, change)
    assert refs.read(HEADS, "back") is None
    assert [record.action for record in refs.row(HEADS, "back")] == [
        "taken back: packs of it were deleted meanwhile",
        "branch",
    ]


def test_what_is_condemned_while_a_ref_is_made_is_released_by_the_collector(repo, tmp_path):
    backend = Meanwhile(tmp_path / ".mvcs")
    backend.before = lambda: repo.gc(execute=True)
    refs_of(backend).update(HEADS, "back", None, change_to(repo, repo.lost_id))
    assert repo.gc(execute=True).garbage == []
    assert log_of(backend).of(CONDEMNED, GOING) == set()


def test_what_is_gone_is_not_named_again(repo):
    change = change_to(repo, repo.lost_id)
    refs = refs_of(repo._session.place.backend)
    refs.duties._needs(
        change.target, Marked(), exact=True
    )  # its manifest and packs were read while they were there
    repo.gc(wait_days=0, execute=True)
    with pytest.raises(GoingError):
        refs.update(HEADS, "back", None, change)


def test_what_was_gone_and_came_back_may_be_named(repo, tmp_path):
    change = change_to(repo, repo.lost_id)
    data = {path: (tmp_path / ".mvcs" / path).read_bytes() for path in repo.lost}
    repo.gc(wait_days=0, execute=True)
    for path, content in data.items():
        (tmp_path / ".mvcs" / path).parent.mkdir(exist_ok=True)
        (tmp_path / ".mvcs" / path).write_bytes(content)
    refs_of(repo._session.place.backend).update(HEADS, "back", None, change)


def test_an_exact_layer_that_is_gone_holds_back_only_who_counts_on_it(repo, tmp_path):
    change = change_to(repo, repo.lost_id)
    exact = [pack_name(path) for path in repo.lost if "exact" in path]
    values = {path: (tmp_path / ".mvcs" / path).read_bytes() for path in repo.lost if "exact" not in path}
    assert (len(exact), len(values)) == (1, 2)
    repo.gc(wait_days=0, execute=True)
    backend = repo._session.place.backend
    for path, content in values.items():
        backend.put(path, content)
    refs = refs_of(backend)
    with pytest.raises(GoingError):
        refs.update(HEADS, "back", None, replace(change, exact=frozenset(exact)))
    assert refs.update(HEADS, "back", None, change).target == change.target


@pytest.mark.parametrize("there", [False, True])
def test_an_exact_layer_that_is_going_holds_others_back_while_it_is_there(repo, tmp_path, there):
    change, backend = change_to(repo, repo.lost_id), repo._session.place.backend
    (exact,) = (path for path in repo.lost if "exact" in path)
    upgrade(backend, CONDEMNED_PACKS, 0, "Ada")
    log_of(backend).say(GOING, [pack_name(exact)], "Bob")
    if not there:
        (tmp_path / ".mvcs" / exact).unlink()
        refs_of(backend).update(HEADS, "back", None, change)
        return
    with pytest.raises(GoingError):
        refs_of(backend).update(HEADS, "back", None, change)


def test_a_commit_counts_on_its_exact_layer(long_lived, tmp_path, monkeypatch):
    """A collector deletes it, as it may that of any commit without a name, before its branch moves."""
    real, lost = RefStore.update, []

    def late(self, kind, name, expected, change):
        if change.exact and not lost:
            lost.extend(change.exact)
            backend = long_lived._session.place.backend
            upgrade(backend, CONDEMNED_PACKS, 0, "Ada")
            log = log_of(backend)
            log.say(GOING, lost, "Bob")
            (tmp_path / ".mvcs" / pack_path(lost[0], exact=True)).unlink()
            log.say(GONE, lost, "Bob")
        return real(self, kind, name, expected, change)

    monkeypatch.setattr(RefStore, "update", late)
    long_lived.commit(state(7), bins=16)
    assert len(lost) == 1
    long_lived.checkout("HEAD", exact=True)


def test_a_commit_does_not_look_behind_its_branch(repo):
    repo.gc(execute=True)
    reads = []
    refs = repo._session.refs
    needs = refs.duties._needs

    def counted(target, marked, **which):
        found = needs(target, marked, **which)
        reads.append(found)
        return found

    refs.duties._needs = counted
    repo.commit(state(3), bins=16)
    assert [len(found) <= 4 for found in reads] == [True]


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_commit_asks_for_the_log_where_there_is_one(repo, monkeypatch, upgraded):
    """Without the upgrade it does not; with it and nothing condemned it lists a folder, and asks by name."""
    if upgraded:
        upgrade(repo._session.place.backend, CONDEMNED_PACKS, 0, "Ada")
    asked = []
    for verb in ("children", "size", "head"):
        real = getattr(LocalBackend, verb)

        def counted(self, name, *arguments, real=real):
            asked.extend([name] if name.startswith("gc") else [])
            return real(self, name, *arguments)

        monkeypatch.setattr(LocalBackend, verb, counted)
    repo.commit(state(3), bins=16)
    assert asked == (["gc", "gc/99999999"] * 3 if upgraded else [])


def test_a_ref_without_known_needs_releases_all(repo):
    repo.gc(execute=True)
    backend = repo._session.place.backend
    RefStore(backend).update(HEADS, "other", None, change_to(repo, "main"))
    assert log_of(backend).of(CONDEMNED) == set()


# A commit.


@pytest.fixture
def long_lived(repo, tmp_path):  # noqa: ARG001 - it makes the folder
    """A repository, opened before, that made the lost commit and so knows its packs."""
    with Repository.open(tmp_path) as session:
        session.commit(state(5), bins=16, branch="other")
        for record in (tmp_path / ".mvcs/refs/heads/other").iterdir():
            record.unlink()
        (tmp_path / ".mvcs/refs/heads/other").rmdir()
        (tmp_path / ".mvcs/local/seen.json").unlink()
        age(tmp_path, packs(tmp_path), 30)
        session._session.seen._seen = {}
        yield session


def needed_by(repo, rev):
    revision = repo._session.resolver.resolve(rev)
    return GraphNeeds(repo._session.store, repo._session.graph)(revision.id, Marked())


def lives(folder, rev, step):
    with Repository.open(folder) as repo:
        value = repo.checkout(rev, numpy=True)
        assert repo.fsck().ok
    return value["step"] == step


def test_a_commit_leans_on_old_packs_where_nobody_collects(long_lived, tmp_path):
    """What the tests below are about."""
    before = packs(tmp_path)
    long_lived.commit(state(5), bins=16)
    assert {named(path) for path in before - packs(tmp_path)} == set()
    assert needed_by(long_lived, "HEAD") & {named(path) for path in before}


def test_a_commit_does_not_lean_on_what_is_condemned(long_lived, repo, tmp_path):
    condemned = {item.path for item in repo.gc(execute=True).condemned}
    assert len(condemned) == 6
    long_lived.commit(state(5), bins=16)
    age_log(tmp_path, 2)
    assert of(repo.gc(execute=True).garbage) == condemned
    assert lives(tmp_path, "HEAD", 5)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_is_made_again_where_packs_go_meanwhile(long_lived, repo, tmp_path, when):
    """The whole collection happens between its packs and its ref, or between its ref and its last look."""
    backend = Meanwhile(tmp_path / ".mvcs")
    session = long_lived._session
    session.refs._backend = session.refs.duties._backend = backend
    setattr(backend, when, lambda: repo.gc(wait_days=0, execute=True))
    long_lived.commit(state(5), bins=16)
    assert long_lived.status().branch == "main"
    assert lives(tmp_path, "main", 5)
    age(tmp_path, packs(tmp_path), 400)
    again = repo.gc(wait_days=0, execute=True)
    assert again.notes == []
    assert lives(tmp_path, "main", 5)


def test_a_commit_needs_no_pack_that_goes_before_its_ref(long_lived, repo, tmp_path, monkeypatch):
    """It leans on what its parent needs, and not on packs of a lost branch that the process knows."""
    made = []
    real = type(long_lived)._note_made

    def note_made(self, *arguments):
        if not made:
            repo.gc(wait_days=0, execute=True)
        made.append(arguments)
        return real(self, *arguments)

    monkeypatch.setattr(type(long_lived), "_note_made", note_made)
    long_lived.commit(state(5), bins=16)
    assert len(made) == 1
    assert lives(tmp_path, "HEAD", 5)
    age(tmp_path, packs(tmp_path), 400)
    assert repo.gc(wait_days=0, execute=True).garbage == []


# A reader.


def test_a_reader_whose_pack_is_deleted_finishes_from_another_copy(long_lived, repo, tmp_path):
    """It attached the packs of the lost commit; what is read is stored anew, and they go under its hands."""
    repo.gc(execute=True)
    committed = long_lived.commit(state(5), bins=16)
    backend = repo._session.place.backend
    store = ObjectStore(backend)
    revision = Graph(store).load(bytes.fromhex(committed.id))
    store.catalog.attach_everything()
    for path in packs(tmp_path):
        if path.startswith("packs/"):
            store.catalog.attach(path[-69:-5])
    age_log(tmp_path, 2)
    assert len(repo.gc(execute=True).garbage) == 6
    tree = store.tree(revision.commit.tree)
    assert [b"".join(map(bytes, store.chunks(leaf))) for leaf in tree.leaves]


def test_a_reader_of_what_nothing_leads_to_says_that_it_is_gone(repo, tmp_path):
    with Repository.open(tmp_path) as reader:
        reader.show(repo.lost_id)
        repo.gc(wait_days=0, execute=True)
        with pytest.raises(NotFoundError):
            reader.checkout(repo.lost_id, numpy=True)


# A push.


def test_a_push_beside_a_collector_over_there(repo, tmp_path_factory):
    """What a killed push left there is condemned: the next push of the same releases it."""
    far = tmp_path_factory.mktemp("far") / "store"
    repo.create_branch("back", repo.lost_id)
    repo.add_remote("origin", str(far))
    repo.push("origin", ["main", "back"])
    there = LocalBackend(far)
    for record in (far / "refs/heads/back").iterdir():
        record.unlink()
    (far / "refs/heads/back").rmdir()
    for path in far.rglob("*.pack"):
        os.utime(path, (1, 1))
    with Repository.open(far) as bare:
        assert len(bare.gc(execute=True).condemned) == 1
    before = {path.name for path in far.rglob("*.pack")}
    repo.push("origin", ["back"])
    assert {path.name for path in far.rglob("*.pack")} == before
    assert log_of(there).of(CONDEMNED, GOING) == set()
    for record in (far / "gc").iterdir():
        os.utime(record, (1, 1))
    assert repo.gc(remote="origin", execute=True).garbage == []
    with Repository.open(far) as bare:
        assert bare.fsck().ok
