"""The files of a store that nothing needs, with their age by the clock of the store, and why."""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from mvcs.config import DAY_SECONDS
from mvcs.errors import MvcsError, StorageError
from mvcs.local import Place, journal_remains, packs_at_work
from mvcs.local_files import GRACE_SECONDS as TEMPORARY_SECONDS
from mvcs.local_files import maker_of
from mvcs.store import TEMPORARY_FOLDER, Backend, pack_name, store_time

KILLED = "a command that was killed left it"
UNFINISHED = "a writer left it unfinished"
Clock = Callable[[], float]
"""Gives seconds."""
UNREACHED = "no branch, tag or reflog of one leads to a commit that needs it"


@dataclass(frozen=True)
class Found:
    """A file that nothing needs: where it lies, its size and age, and why nothing does."""

    path: str
    bytes: int
    age: float
    reason: str


def find(place: Place, sizes: dict[str, int], unneeded: Collection[str], clock: Clock) -> Iterator[Found]:
    """Yield the packs of these that nothing needs, and the files that writers left unfinished.

    Args:
        place: the store, and the clone that looks.
        sizes: its packs, by path.
        unneeded: names of packs that nothing needs.
        clock: gives the time as the store sees it.
    """
    backend = place.backend
    packs = {pack_name(path): path for path in sizes}
    paths = {packs[name] for name in unneeded if name in packs} - packs_at_work(place.local)
    names = [f"{TEMPORARY_FOLDER}/{name}" for name in backend.children(TEMPORARY_FOLDER) if maker_of(name)]
    if not paths and not names:
        return
    now, dead = clock(), _dead(place)
    for path in sorted(paths):
        yield from _aged(backend, path, sizes[path], now, KILLED if path in dead else UNREACHED)
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


def _dead(place: Place) -> set[str]:
    found = () if place.local is None else journal_remains(place.local)
    return {path for each in found for path in each.packs}


def patience(item: Found, grace: float) -> float:
    """Return how old a file has to be."""
    if item.reason == UNFINISHED:
        return TEMPORARY_SECONDS
    return 0 if item.reason == KILLED else grace


def _aged(backend: Backend, path: str, size: int, now: float, reason: str) -> Iterator[Found]:
    written = backend.modified(path)
    if written is not None:
        yield Found(path, size, max(0.0, now - written), reason)


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
