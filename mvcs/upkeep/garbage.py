"""What a store holds that nothing needs: planned, shown, and only then deleted."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.errors import CorruptionError, StorageError, UsageError
from mvcs.local import HeadLog, Place, SeenRefs, journal_remains, packs_at_work
from mvcs.local_files import GRACE_SECONDS as TEMPORARY_SECONDS
from mvcs.local_files import maker_of, temporary_name
from mvcs.refs import RefStore, now_microseconds
from mvcs.reports import Report
from mvcs.store import EXACT_FOLDER, TEMPORARY_FOLDER, VALUE_FOLDER, Backend, pack_name
from mvcs.upkeep.leftovers import held, is_pack
from mvcs.upkeep.reachable_packs import Held, Reach, survey

KILLED = "a command that was killed left it"
UNFINISHED = "a writer left it unfinished"
UNREACHED = "no branch, tag or reflog of one leads to a commit that needs it"


@dataclass(frozen=True)
class Garbage(Report):
    """A file that nothing needs.

    Attributes:
        path: where it lies in the store.
        bytes: its size.
        age: seconds since it was written, by the store's clock.
        reason: why nothing needs it.
    """

    path: str
    bytes: int
    age: float
    reason: str


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
    """

    executed: bool
    garbage: list[Garbage]
    waiting: list[Garbage]
    bytes: int
    grace: float
    notes: list[str] = field(default_factory=list)


def collect_garbage(place: Place, grace: float, *, execute: bool) -> GcReport:
    """Find what nothing needs, and delete what is older than `grace` seconds when told to.

    Raises:
        UsageError: the grace is no length of time.
        StorageError: the store does not tell when its files were written.
        MvcsError: what a branch, a tag or HEAD leads to is damaged, so that nobody can tell what it needs.
    """
    if not grace >= 0:
        raise UsageError("the grace is not a length of time", hint="give days, as in --grace 14")
    _refuse_rolled_back(place)
    head = held(place, grace)
    sizes = _packs(place.backend)
    reach = survey(place.backend, filter(None, map(pack_name, sizes)), head)
    found = sorted(_found(place, sizes, reach), key=lambda item: item.age)
    going = [item for item in found if item.age >= _patience(item, grace)]
    waiting = [item for item in found if item not in going]
    if execute:
        going = _deleted(place.backend, going, head)
        if head.doubt is not None:
            with suppress(StorageError):
                HeadLog(place.local).begin(now_microseconds())
    return GcReport(execute, going, waiting, sum(item.bytes for item in going), grace, _notes(reach))


def _notes(reach: Reach) -> list[str]:
    notes = [f"{doubt}: every commit in the store is kept" for doubt in reach.doubts]
    if reach.unread is not None:
        mend = "'mvcs fetch --verify' brings it back from a remote that has it"
        lost = "a commit that only the past of a branch or of HEAD leads to cannot be read"
        notes.append(f"{lost}, so every pack is kept: {reach.unread.message}; {mend}")
    return notes


def _packs(backend: Backend) -> dict[str, int]:
    """Return the sizes of all packs by path."""
    sizes = backend.sizes(VALUE_FOLDER) | backend.sizes(EXACT_FOLDER)
    return {path: size for path, size in sizes.items() if is_pack(path)}


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


def _found(place: Place, sizes: dict[str, int], reach: Reach) -> Iterator[Garbage]:
    backend = place.backend
    packs = {pack_name(path): path for path in sizes}
    paths = {packs[name] for name in reach.left} - packs_at_work(place.local)
    names = [f"{TEMPORARY_FOLDER}/{name}" for name in backend.children(TEMPORARY_FOLDER) if maker_of(name)]
    files = [path for path in names if backend.inside(path)]
    if not paths and not files:
        return
    now, dead = _clock(backend), _dead(place)
    for path in sorted(paths):
        yield from _aged(backend, path, sizes[path], now, KILLED if path in dead else UNREACHED)
    for path in files:
        yield from _aged(backend, path, backend.size(path) or 0, now, UNFINISHED)


def _dead(place: Place) -> set[str]:
    found = () if place.local is None else journal_remains(place.local)
    return {path for each in found for path in each.packs}


def _patience(item: Garbage, grace: float) -> float:
    if item.reason == UNFINISHED:
        return TEMPORARY_SECONDS
    return 0 if item.reason == KILLED else grace


def _aged(backend: Backend, path: str, size: int, now: float, reason: str) -> Iterator[Garbage]:
    written = backend.modified(path)
    if written is not None:
        yield Garbage(path, size, max(0.0, now - written), reason)


def _clock(backend: Backend) -> float:
    """Return the time as the store sees it: ours may be wrong, and the age of a pack is what protects it."""
    name = f"{TEMPORARY_FOLDER}/{temporary_name()}"
    backend.put(name, b"")
    try:
        now = backend.modified(name)
    finally:
        backend.delete(name)
    if now is None:
        raise StorageError(
            f"'{backend.url}' does not tell when its files were written, so nothing is deleted there",
            hint="copy the history to another store with 'mvcs push', which takes only what is needed",
        )
    return now


def _deleted(backend: Backend, going: list[Garbage], head: Held) -> list[Garbage]:
    """Look a second time before deleting: what was planned may be needed by now."""
    packs = (pack_name(item.path) for item in going if is_pack(item.path))
    left = survey(backend, filter(None, packs), head).left
    gone = [item for item in going if not is_pack(item.path) or pack_name(item.path) in left]
    for item in gone:
        backend.delete(item.path)
    return gone
