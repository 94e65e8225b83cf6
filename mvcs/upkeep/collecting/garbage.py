"""What a store holds that nothing needs: planned, shown, condemned, and only later deleted."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice

from mvcs.config import DAY_SECONDS, GRACE_DAYS, WAIT_DAYS
from mvcs.errors import ConflictError, CorruptionError, MvcsError, StorageError, UsageError
from mvcs.history import Graph
from mvcs.local import HeadLog, Place, SeenRefs, packs_at_work, read_head
from mvcs.local_files import GRACE_SECONDS as TEMPORARY_SECONDS
from mvcs.local_files import maker_of
from mvcs.memory import NOTHING
from mvcs.objects import ObjectId
from mvcs.refs import CONFLICT, HEADS, RefChange, RefRecord, RefStore, now_microseconds, ref_folder
from mvcs.reports import Report, as_size
from mvcs.store import (
    EXACT_FOLDER,
    TEMPORARY_FOLDER,
    VALUE_FOLDER,
    Backend,
    ObjectStore,
    pack_name,
    parse_path,
    store_time,
)
from mvcs.upkeep.collecting.condemnation import Collector
from mvcs.upkeep.collecting.leftovers import held, is_pack
from mvcs.upkeep.collecting.marking import Held, KnownHistory, Reach, survey

_FOR_EVER = 1e11  # seconds, some 3000 years: no clock tells later times
SUPERSEDED = "manifests of which a newer one says where the data of the commit are"
UNFINISHED = "a writer left it unfinished"
Clock = Callable[[], float]
"""Gives seconds."""
UNREACHED = "no branch, tag or reflog of one leads to a commit that needs it"
_NAME = re.compile(rf".+{re.escape(CONFLICT)}[0-9a-f]{{8}}")


@dataclass(frozen=True)
class Garbage(Report):
    """A file that nothing needs.

    Attributes:
        path: where it lies in the store.
        bytes: its size.
        age: seconds since it was written, by the store's clock.
        reason: why nothing needs it.
        left: seconds that it still waits, where it is condemned.
        is_condemned: whether that was said by an earlier run.
    """

    path: str
    bytes: int
    age: float
    reason: str
    left: float = 0.0
    is_condemned: bool = False


@dataclass(frozen=True)
class GcReport(Report):
    """What a collection would delete, or has deleted.

    Attributes:
        executed: whether it was deleted.
        garbage: what goes, newest first.
        waiting: what nothing needs, and is younger than the grace.
        bytes: bytes of the garbage.
        grace: seconds that a pack has to be old.
        notes: why more is kept than refs need.
        condemned: what goes when its wait is over, unless something needs it until then.
        wait: seconds that it waits.
        branches: conflict branches that another branch contains, and that go.
        remote: the remote whose store it is about; None for this one.
    """

    executed: bool
    garbage: list[Garbage]
    waiting: list[Garbage]
    bytes: int
    grace: float
    notes: list[str] = field(default_factory=list)
    condemned: list[Garbage] = field(default_factory=list)
    wait: float = 0.0
    branches: list[str] = field(default_factory=list)
    remote: str | None = None


def collect_garbage(
    place: Place,
    grace: float,
    *,
    execute: bool,
    wait: float,
    author: str = "",
    known: KnownHistory | None = None,
) -> GcReport:
    """Find what nothing needs; when told to, condemn what is old enough, and delete what has waited.

    Args:
        place: the store, and the clone that collects.
        grace: seconds that a pack, or a manifest, has to be old.
        execute: do it; otherwise nothing is changed.
        wait: seconds from condemning to deleting.
        author: who collects.
        known: what this clone remembers of history; what is read is added.

    Raises:
        UsageError: the grace or the wait is no length of time.
        StorageError: the store does not tell when its files were written.
        MvcsError: what a branch, a tag or HEAD leads to is damaged, so that nobody can tell what it needs.
    """
    for name, seconds, usual in (("grace", grace, GRACE_DAYS), ("wait", wait, WAIT_DAYS)):
        if not 0 <= seconds < _FOR_EVER:
            raise UsageError(
                f"the {name} is not a length of time", hint=f"give days, as in --{name} {usual:g}d"
            )
    _refuse_rolled_back(place)
    known = KnownHistory() if known is None else known
    return _Collection(place, grace, wait, execute=execute, author=author, known=known).run()


def _refuse_rolled_back(place: Place) -> None:
    """Where a record of a ref is lost, its commit is unreachable, and yet everything to bring it back."""
    refs = RefStore(place.backend)
    seen = (
        {} if place.local is None else SeenRefs(place.local, place.description.store_id, lambda _: None).all()
    )
    for ref, (number, _) in seen.items():
        kind, _, name = ref.partition("/")
        newest = refs.newest_number(kind, name)
        if newest is None or newest < number:
            raise CorruptionError(
                f"'{name}' has lost records that this clone has seen, so nothing is deleted",
                hint="'mvcs fsck' says more",
            )


class _Collection:
    """One run of a collector."""

    def __init__(
        self,
        place: Place,
        grace: float,
        wait: float,
        *,
        execute: bool,
        author: str,
        known: KnownHistory,
    ) -> None:
        self._known = known
        self._place = place
        self._backend = place.backend
        self._grace = grace
        self._execute = execute
        clock = cache(partial(store_clock, place.backend))  # a file is written for it
        self._clock = clock
        self._given_up = GivenUp(place.backend, clock, grace)
        self._collector = Collector(place.backend, wait, clock, author, self._unneeded)

    def run(self) -> GcReport:
        served = contained(self._place)
        branches = list(served)
        if self._execute:
            branches = delete_contained(self._place, served, self._collector.author)
        sizes = [self._backend.sizes(folder) for folder in (VALUE_FOLDER, EXACT_FOLDER)]
        there, exact = ({name for path in some if (name := named(path))} for some in sizes)
        live = self._collector.live
        head = held(self._place, self._grace)
        reach = self._survey(there | exact | live, head, there)
        files = {path: size for some in (*sizes, reach.records) for path, size in some.items() if named(path)}
        found = sorted(find(self._place, files, reach, self._clock), key=lambda item: item.age)
        report = self._planned(found, reach, branches)
        report.notes.extend(_of_past(reach, files, is_here=self._place.local is not None))
        report.notes.extend(_of_moved(reach, files, self._collector.wait))
        if self._execute:
            report = self._executed(report, live, reach)
            if head.doubt is not None and self._place.local is not None:
                with suppress(StorageError):
                    HeadLog(self._place.local).begin(now_microseconds())
        return report

    def _survey(self, names: Collection[str], head: Held, there: Collection[str] | None = None) -> Reach:
        def since() -> float:
            return self._clock() - self._collector.wait

        return survey(self._backend, names, head, self._given_up, self._known, since, there)

    def _planned(self, found: list[Garbage], reach: Reach, branches: list[str]) -> GcReport:
        going, condemned, waiting = list[Garbage](), list[Garbage](), list[Garbage]()
        for item in found:
            left = self._left(item)
            if left is None:
                waiting.append(item)
            elif left:
                condemned.append(replace(item, left=left, is_condemned=self._said(item) is not None))
            else:
                going.append(item)
        size = sum(item.bytes for item in going)
        notes, wait = self._notes(reach), self._collector.wait
        return GcReport(self._execute, going, waiting, size, self._grace, notes, condemned, wait, branches)

    def _left(self, item: Garbage) -> float | None:
        """Return how long a file still waits once it is condemned; None where it is too young for that."""
        if self._is_logged(item):
            left = self._said(item)
            if left is not None:
                return left
            return self._collector.wait if item.age >= self._grace else None
        return 0.0 if item.age >= patience(item, self._grace) else None

    def _said(self, item: Garbage) -> float | None:
        """Return how long a file still waits by what the log says; None where that condemns it not."""
        if not self._is_logged(item):
            return None
        return self._collector.left(named(item.path) or "")

    def _executed(self, plan: GcReport, live: set[str], reach: Reach) -> GcReport:
        """Do what was planned, as far as it is still so when it is done."""
        collector = self._collector
        gone = set(self._deleted([item for item in plan.garbage if not self._is_logged(item)]))
        logged = defaultdict[str, list[str]](list)
        for item in (*plan.garbage, *plan.condemned):
            if self._is_logged(item) and (name := named(item.path)):
                logged[name].append(item.path)
        collector.release(live - reach.left)
        # Also what was going, and is said to be condemned anew, since a later record cannot be read.
        condemned = collector.condemn(logged.keys() | (live & reach.left))
        # What another collector died over is taken over, be it needed by now: then it is released.
        taken = collector.delete({name: logged.get(name) for name in condemned | collector.going})
        collector.trim()
        every = (*plan.garbage, *plan.condemned)
        done = [item for item in every if item in gone or named(item.path) in taken]
        still = collector.live - {named(item.path) for item in done}
        left = [item for item in plan.condemned if named(item.path) in still]
        return replace(plan, garbage=done, condemned=left, bytes=sum(item.bytes for item in done))

    def _is_logged(self, item: Garbage) -> bool:
        return item.reason == UNREACHED and self._backend.exclusive

    def _deleted(self, going: list[Garbage]) -> list[Garbage]:
        """Delete files that need no record in the log, after marking again: a commit may need them by now."""
        names = {name for item in going if item.reason == UNREACHED and (name := named(item.path))}
        left = self._unneeded(names)
        gone = [item for item in going if item.reason != UNREACHED or named(item.path) in left]
        for item in gone:
            self._backend.delete(item.path)
        return gone

    def _unneeded(self, names: Iterable[str]) -> set[str]:
        wanted = set(names)
        if not wanted:
            return wanted
        left = self._survey(wanted, held(self._place, self._grace)).left
        return left - set(filter(None, map(named, packs_at_work(self._place.local))))

    def _notes(self, reach: Reach) -> list[str]:
        notes = [f"{doubt}: every commit in the store is kept" for doubt in reach.doubts]
        if reach.unread is not None:
            mend = "'mvcs repair --give-up' brings it back where a remote has it, or gives it up"
            lost = "a commit that only the past of a branch or of HEAD leads to cannot be read"
            notes.append(f"{lost}, so every pack is kept: {reach.unread.message}; {mend}")
        notes += (
            f"record {number} of marked packs cannot be read: what was marked before it waits again "
            f"({error.message})"
            for number, error in self._collector.log.unread.items()
        )
        return notes


def named(path: str) -> str | None:
    """Return what a file is called in the log: the name of a pack, or the id of the commit of a manifest."""
    if is_pack(path):
        return pack_name(path)
    at = parse_path(path)
    return None if at is None else at[0].hex()


def _of_moved(reach: Reach, sizes: Mapping[str, int], wait: float) -> Iterator[str]:
    """Say what stays for those who read a manifest before data were moved."""
    if stay := _stay(sizes, reach.moved):
        yield f"{stay} for {wait / 3600:g} hours after data were moved or dropped"


def _of_past(reach: Reach, sizes: Mapping[str, int], *, is_here: bool) -> Iterator[str]:
    """Say what stays though no branch, tag or HEAD of now needs it."""
    stay = _stay(sizes, reach.past)
    if stay and not reach.doubts:
        look = ": 'mvcs reflog' lists the past, 'mvcs why PACK' says which" if is_here else ""
        yield (
            f"{stay} for where a branch, a tag or HEAD stood before, or for dropped data that are kept after "
            f"all{look}"
        )


def _stay(sizes: Mapping[str, int], names: Collection[str]) -> str:
    """Say how many packs of these names stay, and what they take; "" where none is there."""
    found = [size for path, size in sizes.items() if is_pack(path) and pack_name(path) in names]
    packs = "1 pack stays" if len(found) == 1 else f"{len(found)} packs stay"
    return f"{packs} ({as_size(sum(found))})" if found else ""


def find(place: Place, files: Mapping[str, int], reach: Reach, clock: Clock) -> Iterator[Garbage]:
    """Yield the packs and manifests that nothing needs, and the files that writers left unfinished.

    Args:
        place: the store, and the clone that looks.
        files: sizes of its packs and manifests, by path.
        reach: what commits need of them.
        clock: gives the time as the store sees it.
    """
    backend, working = place.backend, packs_at_work(place.local)
    unneeded = [path for path in sorted(files) if named(path) in reach.left and path not in working]
    names = [f"{TEMPORARY_FOLDER}/{name}" for name in backend.children(TEMPORARY_FOLDER) if maker_of(name)]
    if not unneeded and not names and not reach.superseded:
        return
    now = clock()
    found = [one for path in unneeded for one in _aged(backend, path, files[path], now, UNREACHED)]
    ages: dict[str | None, float] = {}
    for one in found:
        ages[named(one.path)] = min(one.age, ages.get(named(one.path), one.age))
    # The records of a commit go together: its last one alone would count once the commit comes again.
    yield from (replace(one, age=ages[named(one.path)]) for one in found)
    for path in sorted(reach.superseded):
        yield from _aged(backend, path, files.get(path, 0), now, SUPERSEDED)
    for path in names:
        if backend.inside(path) and _is_file(backend, path):
            yield from _aged(backend, path, backend.size(path) or 0, now, UNFINISHED)


def _is_file(backend: Backend, path: str) -> bool:
    """Tell whether a file lies there that can be read: nothing else is a writer's."""
    try:
        backend.head(path, 1)
    except MvcsError:
        return False
    return True


def patience(item: Garbage, grace: float) -> float:
    """Return how old a file has to be; of superseded records only those were found that have waited."""
    if item.reason == UNFINISHED:
        return TEMPORARY_SECONDS
    return 0 if item.reason == SUPERSEDED else grace


def _aged(backend: Backend, path: str, size: int, now: float, reason: str) -> Iterator[Garbage]:
    written = backend.modified(path)
    if written is not None:
        yield Garbage(path, size, max(0.0, now - written), reason)


def store_clock(backend: Backend) -> float:
    """Return the time as the store sees it: ours may be wrong, and the age of a pack is what protects it.

    Raises:
        StorageError: the store does not tell, or tells another day than this machine.
    """
    now = store_time(backend)
    if now is None:
        raise StorageError(
            f"'{backend.url}' does not tell when its files were written, so nothing is deleted there",
            hint="copy the history to another store with 'mvcs push', which takes only what is needed",
        )
    off = now - time.time()
    if abs(off) > DAY_SECONDS:
        raise StorageError(
            f"the clocks of '{backend.url}' and of this machine are {abs(off) / DAY_SECONDS:.1f} days apart, "
            "so nothing is deleted",
            hint="set the clock that is wrong",
        )
    return now


def is_conflict(name: str) -> bool:
    """Tell whether a branch has the name of one that keeps a commit which lost a race."""
    return _NAME.fullmatch(name) is not None


class GivenUp:
    """Tells which rows of records count no more: those of conflict branches that were deleted long ago."""

    def __init__(self, backend: Backend, clock: Clock, grace: float) -> None:
        """Count deletions that are older than `grace` seconds, by the clock of the store."""
        self._backend = backend
        self._clock = clock
        self._grace = grace

    def __call__(self, kind: str, name: str, newest: RefRecord) -> bool:
        """Tell whether the past of a name counts no more."""
        if kind != HEADS or newest.target is not None or not is_conflict(name):
            return False
        written = self._backend.modified(f"{ref_folder(kind, name)}/{newest.key}")
        return written is not None and written <= self._clock() - self._grace


def contained(place: Place) -> dict[str, RefRecord]:
    """Return the conflict branches that another branch contains, as far as branches can be read.

    The one that HEAD stands on is none of them.
    """
    heads = RefStore(place.backend).survey(HEADS).whole
    left = {name: record for name, record in heads.items() if is_conflict(name)}
    if place.local is not None:
        left.pop(read_head(place.local).branch or "", None)
    if not left:
        return {}
    wanted = {record.target for record in left.values()}
    others = [record for name, record in heads.items() if not is_conflict(name)]
    met = set(islice((found for found in _behind(place.backend, others) if found in wanted), len(wanted)))
    return {name: record for name, record in left.items() if record.target in met}


def _behind(backend: Backend, records: list[RefRecord]) -> Iterator[ObjectId]:
    graph = Graph(ObjectStore(backend, NOTHING))
    with suppress(MvcsError):  # what cannot be read contains nothing
        yield from (revision.id for revision in graph.walk(graph.tips(records)))


def delete_contained(place: Place, branches: dict[str, RefRecord], author: str) -> list[str]:
    """Delete conflict branches and return which; one that somebody moved meanwhile stays.

    Raises:
        StorageError: one cannot be deleted.
    """
    refs, gone = RefStore(place.backend), list[str]()
    change = RefChange(None, author, "gc: another branch contains it")
    for name, record in branches.items():
        with suppress(ConflictError):
            refs.update(HEADS, name, record, change)
            gone.append(name)
    return gone
