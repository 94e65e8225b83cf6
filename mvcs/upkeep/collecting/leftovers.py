"""What operations left that were killed: found by their journals, and removed."""

import contextlib
import pathlib
import stat
import time
from collections.abc import Iterable

from mvcs.errors import MvcsError
from mvcs.local import RECORDS_FOLDER, HeadLog, JournalRemains, Place, journal_remains, read_head
from mvcs.local_files import maker_of, sweep, sweep_scratch
from mvcs.refs import HEADS, RefStore
from mvcs.store import EXACT_FOLDER, Backend, ListedManifests, pack_name, pack_path, parse_path
from mvcs.upkeep.collecting.marking import Held


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
    if not _are_named(place, found.manifests):  # where a manifest is lost, it can be made again from them
        delete_packs(place.backend, found.packs)
    found.path.unlink(missing_ok=True)


def _are_named(place: Place, manifests: Iterable[str]) -> bool:
    """Tell whether a branch or HEAD names a commit of these manifests."""
    commits = {at[0] for path in manifests if (at := parse_path(path)) is not None}
    heads = RefStore(place.backend).survey(HEADS).required().values() if commits else ()
    named = {record.target for record in heads}
    return not commits.isdisjoint({*named, read_head(place.local).commit if place.local else None})


def delete_packs(backend: Backend, paths: Iterable[str]) -> None:
    """Delete packs that their maker wrote, but for those that a manifest names, be it of any commit.

    They have random bytes, so that nobody else wrote them; what manifests name is left to a collector.

    Raises:
        MvcsError: a manifest cannot be read, so that nobody can tell; or one of them cannot be deleted.
    """
    there = (path for path in paths if is_pack(path) and backend.inside(path))
    own = [path for path in there if backend.size(path) is not None]
    if not own:
        return
    manifests = ListedManifests(backend)
    records = ((commit, number) for commit, numbers in manifests.stamps.items() for number in numbers)
    names = {pack_name(path): path for path in own}
    for line in manifests.lines(records):
        for name in (*line.packs, *line.exact):
            names.pop(name, None)
    for path in names.values():
        backend.delete(path)


def _remove_file(path: pathlib.Path) -> None:
    """Remove a temporary file; its journal may have come from anywhere, so its name has to tell as well."""
    maker = maker_of(path.name)
    if maker is None or maker.is_gone() is False:
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISREG(path.lstat().st_mode):
            path.unlink()


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
