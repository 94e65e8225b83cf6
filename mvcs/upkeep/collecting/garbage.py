"""What a store holds that nothing needs: planned, shown, condemned, and only later deleted."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

from mvcs.config import GRACE_DAYS, WAIT_DAYS
from mvcs.errors import CorruptionError, StorageError, UsageError
from mvcs.local import HeadLog, Place, SeenRefs, packs_at_work
from mvcs.refs import RefStore, now_microseconds
from mvcs.reports import as_size
from mvcs.store import EXACT_FOLDER, VALUE_FOLDER, Backend, pack_name
from mvcs.upkeep.collecting.condemnation import Collector
from mvcs.upkeep.collecting.conflict_branches import GivenUp, contained, delete_contained
from mvcs.upkeep.collecting.garbage_found import UNREACHED, Found, find, patience, store_clock
from mvcs.upkeep.collecting.garbage_report import Garbage, GcReport
from mvcs.upkeep.collecting.known_history import KnownHistory
from mvcs.upkeep.collecting.leftovers import held, is_pack
from mvcs.upkeep.collecting.reachable_packs import Reach, survey

_FOR_EVER = 1e11  # seconds, some 3000 years: no clock tells later times


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
        grace: seconds that a pack has to be old.
        execute: do it; otherwise nothing is changed.
        wait: seconds from condemning to deleting.
        author: who collects.
        known: what this clone remembers of history; what is read is added. Before something is deleted it is
            compared with the store.

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
        sizes = _packs(self._backend)
        live = self._collector.live
        head = held(self._place, self._grace)
        names = set(filter(None, map(pack_name, sizes)))
        reach = survey(self._backend, names | live, head, self._given_up, self._known, deletes=False)
        reach.left.difference_update(self._kept_after_all(reach.left))
        found = sorted(find(self._place, sizes, reach.left, self._clock), key=lambda item: item.age)
        report = self._planned(found, reach, branches)
        report.notes.extend(_of_past(reach, sizes, is_here=self._place.local is not None))
        if self._execute:
            report = self._executed(report, live, reach)
            if head.doubt is not None and self._place.local is not None:
                with suppress(StorageError):
                    HeadLog(self._place.local).begin(now_microseconds())
        return report

    def _kept_after_all(self, left: Collection[str]) -> set[str]:
        """Return what was condemned and released before, and is needed still.

        Rules may keep data that are on record as dropped, and only a marking before a deletion asks them. So
        such a pack is looked at before it is condemned again.
        """
        released = self._collector.released.intersection(left)
        return released - self._unneeded(released)

    def _planned(self, found: list[Found], reach: Reach, branches: list[str]) -> GcReport:
        going, condemned, waiting = list[Garbage](), list[Garbage](), list[Garbage]()
        for item in found:
            garbage = Garbage(item.path, item.bytes, item.age, item.reason)
            left = self._left(item)
            if left is None:
                waiting.append(garbage)
            elif left:
                condemned.append(replace(garbage, left=left, is_condemned=self._said(item) is not None))
            else:
                going.append(garbage)
        size = sum(item.bytes for item in going)
        notes, wait = self._notes(reach), self._collector.wait
        return GcReport(self._execute, going, waiting, size, self._grace, notes, condemned, wait, branches)

    def _left(self, item: Found) -> float | None:
        """Return how long a file still waits once it is condemned; None where it is too young for that."""
        if item.reason == UNREACHED and self._backend.exclusive:
            left = self._said(item)
            if left is not None:
                return left
            return self._collector.wait if item.age >= self._grace else None
        return 0.0 if item.age >= patience(item, self._grace) else None

    def _said(self, item: Found) -> float | None:
        """Return how long a file still waits by what the log says; None where that condemns it not."""
        if item.reason != UNREACHED or not self._backend.exclusive:
            return None
        return self._collector.left(pack_name(item.path) or "")

    def _executed(self, plan: GcReport, live: set[str], reach: Reach) -> GcReport:
        """Do what was planned, as far as it is still so when it is done."""
        collector = self._collector
        gone = self._deleted([item for item in plan.garbage if not self._is_logged(item)])
        logged = {
            name: item.path
            for item in (*plan.garbage, *plan.condemned)
            if self._is_logged(item) and (name := pack_name(item.path))
        }
        collector.release(live - reach.left)
        # Also what was going, and is said to be condemned anew, since a later record cannot be read.
        condemned = collector.condemn(logged.keys() | (live & reach.left))
        taken = collector.delete({name: logged.get(name) for name in condemned})
        collector.trim()
        every = [*plan.garbage, *plan.condemned]
        done = [item for item in every if item in gone or pack_name(item.path) in taken]
        left = [
            item for item in plan.condemned if pack_name(item.path) in collector.live and item not in done
        ]
        return replace(plan, garbage=done, condemned=left, bytes=sum(item.bytes for item in done))

    def _is_logged(self, item: Garbage) -> bool:
        return item.reason == UNREACHED and self._backend.exclusive

    def _deleted(self, going: list[Garbage]) -> list[Garbage]:
        """Delete what only this clone knows of, after a second look: it may be needed by now."""
        left = self._unneeded(name for item in going if (name := _name(item.path)))
        gone = [item for item in going if (name := _name(item.path)) is None or name in left]
        for item in gone:
            self._backend.delete(item.path)
        return gone

    def _unneeded(self, packs: Iterable[str]) -> set[str]:
        names = set(packs)
        if not names:
            return names
        self._known.prove(self._backend)
        left = survey(self._backend, names, held(self._place, self._grace), self._given_up, self._known).left
        return left - set(filter(None, map(pack_name, packs_at_work(self._place.local))))

    def _notes(self, reach: Reach) -> list[str]:
        notes = [f"{doubt}: every commit in the store is kept" for doubt in reach.doubts]
        if reach.unread is not None:
            mend = "'mvcs repair' brings it back from a remote that has it"
            lost = "a commit that only the past of a branch or of HEAD leads to cannot be read"
            notes.append(f"{lost}, so every pack is kept: {reach.unread.message}; {mend}")
        notes += (
            f"record {number} of marked packs cannot be read: what was marked before it waits again "
            f"({error.message})"
            for number, error in self._collector.log.unread.items()
        )
        return notes


def _packs(backend: Backend) -> dict[str, int]:
    """Return the sizes of all packs by path."""
    sizes = backend.sizes(VALUE_FOLDER) | backend.sizes(EXACT_FOLDER)
    return {path: size for path, size in sizes.items() if is_pack(path)}


def _name(path: str) -> str | None:
    return pack_name(path) if is_pack(path) else None


def _of_past(reach: Reach, sizes: Mapping[str, int], *, is_here: bool) -> Iterator[str]:
    """Say what stays though no branch, tag or HEAD of now needs it."""
    stay = [size for path, size in sizes.items() if pack_name(path) in reach.past]
    if stay and not reach.doubts:
        packs = "1 pack stays" if len(stay) == 1 else f"{len(stay)} packs stay"
        look = ": 'mvcs reflog' lists the past, 'mvcs why PACK' says which" if is_here else ""
        yield (
            f"{packs} ({as_size(sum(stay))}) for where a branch, a tag or HEAD stood before, or for dropped "
            f"data that are kept after all{look}"
        )
