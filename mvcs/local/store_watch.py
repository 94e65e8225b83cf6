"""What a clone remembers of looking at its store: how far it came in turn, since when, what was damaged.

Commits ask it, entry by entry: what was found damaged they don't lean on. Packs that fsck, fetch, push or a
commit found damaged are what the next fetch hashes, and brings again. What one commit finds anew,
`describe` in the room of commits tells.
"""

import datetime as dt
import pathlib
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict

from mvcs.errors import MvcsError
from mvcs.local.records import LocalRecords
from mvcs.refs import now_microseconds
from mvcs.reports import FsckReport, LookReport
from mvcs.store import (
    EXACT_FOLDER,
    VALUE_FOLDER,
    Backend,
    ChunkPlace,
    ObjectStore,
    Patrol,
    PatrolPosition,
    pack_name,
    pack_path,
)

SUBJECT = "looked"
SHARE = 100  # of the bytes that commits hash, one in so many is read in turn
_MOST_PLACES, _MOST_NUMBER = 1 << 16, 1 << 40
DAMAGED = "damaged"


class StoreWatch:
    """The looks of one clone at its store. No promise leans on the record: without it looks begin anew."""

    def __init__(self, store: ObjectStore, local: pathlib.Path | None) -> None:
        """Look at `store` and remember below `local`, which is `.mvcs`; nothing is read yet."""
        self._store = store
        self._local = local
        self._records = LocalRecords(local)
        self._position: PatrolPosition | None = None

    def learn(self) -> None:
        """Learn what other processes of this clone found damaged, and how far they came."""
        record = self._records.read(SUBJECT)
        damaged = known_damaged(self._local)  # a fetch takes from these what it has brought again
        places = _places(record.get("damaged"))
        self._store.catalog.distrust(*(place for place in places if place[1] or place[0] in damaged))
        self._position = self._position or _position(record.get("position"))

    def look(self, hashed_bytes: int) -> None:
        """Begin a commit that hashes so many bytes: look at more in turn; then all it leans on is due."""
        position = self._position or PatrolPosition()
        self._position = Patrol(self._store).go_on(position, hashed_bytes // SHARE, int(time.time()))
        self._store.verification.begin()

    def end(self) -> None:
        """Remember how far that came, and what is damaged.

        Raises:
            StorageError: the record cannot be written.
        """
        with self._records.change(SUBJECT) as record:
            damaged = known_damaged(self._local)
            known = {place for place in _places(record.get("damaged")) if place[1] or place[0] in damaged}
            known |= self._store.catalog.damaged
            record["position"] = asdict(self._position or PatrolPosition())
            record["damaged"] = _by_path(known)
        found = {name for name, exact, _ in self._store.catalog.damaged if not exact}
        if found - known_damaged(self._local):
            note_damaged(self._local, found)

    def checked(self, damaged: Iterable[ChunkPlace]) -> None:
        """Remember that all of the store was looked at, and what of it is damaged.

        Raises:
            StorageError: the record cannot be written.
        """
        now, places = int(time.time()), set(damaged)
        position = self._position = PatrolPosition(begun=now, before=now)
        with self._records.change(SUBJECT) as record:
            record |= {"position": asdict(position), "damaged": _by_path(places)}
            record["checked"] = now
        catalog = self._store.catalog
        catalog.damaged.clear()
        catalog.distrust(*places)

    def mended(self, packs: Iterable[tuple[str, bool]]) -> None:
        """Forget what was damaged in packs that are whole again, by name, and whether of an exact layer.

        Raises:
            StorageError: the record cannot be written.
        """
        whole = set(packs)
        with self._records.change(SUBJECT) as record:
            if "damaged" in record:
                places = (place for place in _places(record["damaged"]) if place[:2] not in whole)
                record["damaged"] = _by_path(places)
        for name, exact in whole:
            self._store.catalog.trust_pack(name, exact=exact)

    def looks(self, backend: Backend) -> list[LookReport]:
        """Tell since when what of a store was not looked at."""
        record = self._records.read(SUBJECT)
        position = self._position or _position(record.get("position"))
        sizes = {path: size for path, size in backend.sizes(VALUE_FOLDER).items() if pack_name(path)}
        done = pack_path(position.pack) if position.pack else ""
        parts = [
            ([size for path, size in sizes.items() if path >= done], position.before),
            ([size for path, size in sizes.items() if path < done], position.begun),
        ]
        checked = record.get("checked")
        exact = [size for path, size in backend.sizes(EXACT_FOLDER).items() if pack_name(path)]
        parts.append((exact, checked if isinstance(checked, int) else None))
        folders = (VALUE_FOLDER, VALUE_FOLDER, EXACT_FOLDER)
        return [
            LookReport(
                folder,
                len(found),
                sum(found),
                None if since is None else dt.datetime.fromtimestamp(since, dt.UTC),
            )
            for folder, (found, since) in zip(folders, parts, strict=True)
            if found
        ]


def _position(value: object) -> PatrolPosition:
    """Return a position from a record, which anything may have happened to."""
    found = value if isinstance(value, dict) else {}
    pack, begun, before = found.get("pack"), found.get("begun"), found.get("before")
    offset, credit, wants = (_number(found.get(name)) or 0 for name in ("offset", "credit", "wants"))
    name = pack if isinstance(pack, str) and pack_name(f"{pack}.pack") == pack else ""
    return PatrolPosition(name, offset, credit, wants, _number(begun), _number(before))


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < _MOST_NUMBER else None


def _places(value: object) -> Iterable[ChunkPlace]:
    for path, offsets in value.items() if isinstance(value, dict) else ():
        name = pack_name(path)
        if name is not None and isinstance(offsets, list):
            exact = path == pack_path(name, exact=True)
            yield from ((name, exact, offset) for offset in offsets if isinstance(offset, int))


def _by_path(places: Iterable[ChunkPlace]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for name, exact, offset in sorted(places)[:_MOST_PLACES]:
        found[pack_path(name, exact=exact)].append(offset)
    return found


def known_damaged(local: pathlib.Path | None) -> set[str]:
    """Return the names of packs that were found damaged and not mended since."""
    return set(LocalRecords(local).read(DAMAGED))


def note_damaged(local: pathlib.Path | None, found: Iterable[str], mended: Iterable[str] = ()) -> None:
    """Remember when packs were found damaged, and forget those that are whole; it may fail."""
    with suppress(MvcsError), LocalRecords(local).change(DAMAGED) as record:
        for name in mended:
            record.pop(name, None)
        for name in found:
            record.setdefault(name, now_microseconds())


def note_checked(local: pathlib.Path | None, report: FsckReport) -> None:
    """Remember what a check of all packs found."""
    subjects = (problem.subject for problem in report.problems)
    paths = (path for path in subjects if path.startswith(f"{VALUE_FOLDER}/"))
    found = {name for path in paths if (name := pack_name(path))}
    note_damaged(local, found, known_damaged(local) - found)
