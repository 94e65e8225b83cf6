"""What operations left that were killed: found by their journals, and removed when nothing needs it."""

import contextlib
import pathlib
import stat
import time
from collections.abc import Iterable

from mvcs.config import DAY_SECONDS, WAIT_DAYS
from mvcs.errors import MvcsError
from mvcs.local import (
    RECORDS_FOLDER,
    HeadLog,
    JournalRemains,
    Place,
    journal_remains,
    packs_to_go_on_with,
    read_head,
)
from mvcs.local_files import maker_of, sweep, sweep_scratch
from mvcs.refs import HEADS, REMOTES, TAGS
from mvcs.store import (
    CONDEMNED_PACKS,
    EXACT_FOLDER,
    Backend,
    LocalBackend,
    pack_name,
    pack_path,
    refuse_changes,
)
from mvcs.upkeep.collecting.condemnation import Collector
from mvcs.upkeep.collecting.reachable_packs import Held, has_refs, unneeded, unneeded_now

# A request that a process had sent may still arrive at a distant store.
LATE_SECONDS = 15 * 60


def remove_leftovers(place: Place) -> None:
    """Remove what killed processes of this clone left; what cannot be removed now waits for the next time."""
    place.backend.sweep()
    if place.local is None:
        return
    sweep(place.local)
    sweep_scratch(place.local)
    sweep(place.local / RECORDS_FOLDER)
    for found in journal_remains(place.local):
        with contextlib.suppress(MvcsError, OSError):
            _clear(place, found)


def _clear(place: Place, found: JournalRemains) -> None:
    for path in found.files:
        _remove_file(path)
    if found.packs and not _may_land(place.backend, found):
        # What a compaction verified stays: the next one goes on with it.
        remove_packs(place.backend, found.packs - packs_to_go_on_with(place.local), held(place))
        # Where no ref is, any commit may have been named by one: the first that comes settles it.
        if has_refs(place.backend):
            found.packs.clear()
    if not found.packs and not found.copies.keys() & set(place.config.names("remote")):
        found.path.unlink(missing_ok=True)


def remove_copies(place: Place, remote: str, there: Backend) -> None:
    """Remove what killed pushes left at a remote, after one that worked; packs that a branch needs here stay.

    What cannot be removed now waits for the next push.
    """
    there.sweep()
    for found in () if place.local is None else journal_remains(place.local):
        with contextlib.suppress(MvcsError, OSError):
            if found.copies.get(remote) and not _may_land(there, found):
                found.forget(remote, _settled(place.backend, remote, there, found.copies[remote]))


def _settled(here: Backend, remote: str, there: Backend, copies: set[str]) -> set[str]:
    """Delete copies that nobody needs over there; return them and those that a ref there needs."""
    paths = {pack_name(path): path for path in copies if is_pack(path)}
    # Refs that were seen there need no look across the network.
    unseen = unneeded_now(here, filter(None, paths), REMOTES, f"{remote}/")
    owed = unseen - unneeded_now(here, unneeded_now(here, unseen, HEADS), TAGS)
    # Another clone may have found them there, and be about to name them.
    remove_packs(there, (paths[name] for name in unseen - owed), condemns_for="push")
    return copies - {paths[name] for name in owed}


def _remove_file(path: pathlib.Path) -> None:
    """Remove a temporary file; its journal may have come from anywhere, so its name has to tell as well."""
    maker = maker_of(path.name)
    if maker is None or maker.is_gone() is False:
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISREG(path.lstat().st_mode):
            path.unlink()


def _may_land(backend: Backend, found: JournalRemains) -> bool:
    if isinstance(backend, LocalBackend) or not found.moved:
        return False
    return time.time() - found.path.stat().st_mtime < LATE_SECONDS


def remove_packs(
    backend: Backend, paths: Iterable[str], head: Held | None = None, *, condemns_for: str | None = None
) -> int:
    """Delete packs that no commit needs and return their bytes; of other paths nothing is deleted.

    Args:
        backend: the store.
        paths: where the packs lie.
        head: what HEAD needs.
        condemns_for: who has them condemned instead, where the store has that upgrade; None for packs of
            which nobody else knows.

    Raises:
        MvcsError: nobody can tell whether a commit needs them, or they cannot be deleted.
    """
    own = (path for path in paths if is_pack(path) and backend.inside(path))
    there = {path: size for path in own if (size := backend.size(path)) is not None}
    left = unneeded(backend, {name for path in there if (name := pack_name(path))}, head)
    if condemns_for is not None and CONDEMNED_PACKS in refuse_changes(backend):
        collector = Collector(backend, WAIT_DAYS * DAY_SECONDS, time.time, condemns_for, lambda _: left)
        collector.condemn(left)
        return 0
    gone = [path for path in there if pack_name(path) in left]
    for path in gone:
        backend.delete(path)
    return sum(there[path] for path in gone)


def is_pack(path: str) -> bool:
    """Tell whether a path is that of a pack."""
    name = pack_name(path)
    return name is not None and path == pack_path(name, exact=path.startswith(f"{EXACT_FOLDER}/"))


def held(place: Place, grace: float | None = None) -> Held:
    """Return what HEAD needs: where it stands, and stood within so many seconds, or ever.

    Raises:
        CorruptionError: HEAD is damaged.
    """
    if place.local is None:
        return Held()
    since = 0 if grace is None else int((time.time() - grace) * 1_000_000)
    log = HeadLog(place.local)
    return Held(
        read_head(place.local).commit,
        frozenset(log.left_since(since)),
        log.doubt(since) if grace != 0 else None,
    )
