"""Packs of one layer of one commit as they fill up: entries go in, whole packs go out."""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from threading import RLock

from mvcs.delta import Buffer, Encoding
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import Kind, ObjectId, object_id
from mvcs.store.backend.staged import Staged
from mvcs.store.manifests import Placement
from mvcs.store.packs.entry import Entry, EntryBase, framed_bytes
from mvcs.store.packs.expansion_limit import is_plausible
from mvcs.store.packs.pack import PackWriter
from mvcs.store.packs.written_commit import LastEntry, chunk_entry
from mvcs.store.reading.located import ChunkPlace, Located
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from mvcs.store.writing.chain_limits import RestoreLimits, UsableBases
from mvcs.store.writing.coding_worth import CodingWorth
from mvcs.store.writing.entry_groups import Family, Piece
from mvcs.store.writing.own_objects import OwnObjects

SALT_BYTES = 16
# Contents up to here are looked at wherever they are referred to: naming such a leaf costs more than that.
SMALL = 16 << 10


class PackFiller:
    """Fills packs with entries and writes each when it is full. Safe to use from several threads."""

    def __init__(
        self,
        store: ObjectStore,
        limits: RestoreLimits,
        *,
        exact: bool,
        worth: CodingWorth | None,
        announce: Callable[[str], None] | None = None,
        salts: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Write into `store`; `exact` selects packs of their own, `worth` is told how long writing takes.

        `announce` is told the path of each pack before it is there, and `salts` gives so many random bytes.
        """
        self._announce = announce
        self._salts = salts
        self._store = store
        self._exact = exact
        self._worth = worth
        self._pack: tuple[Staged, PackWriter] | None = None
        self._lock = RLock()
        self._objects = OwnObjects(store.catalog, exact)
        self.basing = UsableBases(self._objects, limits)
        # Entries that were looked at: what lies behind one object of an entry lies behind all of them.
        self._leant_on: set[tuple[ChunkPlace, bool]] = set()
        self.packs: list[str] = []
        self.stored_bytes = 0
        self.write_seconds = 0.0

    def holds(self, identifier: ObjectId, *, leant_on: bool = False) -> bool:
        """Tell whether the store has an object that this layer may refer to; then it does.

        Its packs are looked at; the stored bytes as well where `leant_on` says that new entries need them,
        and where the object is small or describes others.
        """
        with self._lock:
            if self._exact:
                return False
            located = self._store.catalog.find(identifier)
            if located is None:
                return False
            entries = leant_on or _costs_little(located)
            if (located.place, entries) in self._leant_on:
                return True
            if not self._trusts([identifier], entries=entries):
                return False
            self.basing.lean_on([identifier])
            self._leant_on.add((located.place, entries))
            return True

    def holds_each(self, identifiers: Sequence[ObjectId]) -> list[bool]:
        """Tell of each of several objects what `holds` does; neighbours in one entry are looked at once."""
        runs = None if self._exact else self._store.catalog.runs(identifiers)
        if runs is None or list(chain.from_iterable(run.ids for run in runs)) != list(identifiers):
            return [self.holds(identifier) for identifier in identifiers]
        return [held for run in runs for held in repeat(self.holds(run.first.id), run.count)]

    def sound(self, bases: Iterable[ObjectId]) -> bool:
        """Tell whether everything behind some bases is stored as it was written; it is read for that."""
        return self._trusts(list(bases), entries=True)

    def parted(self, family: Family, pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces that may be stored as their family has it, then those whose bases are no good."""
        bases = {piece.base.id for piece in pieces if piece.base and piece.base.chunk is None}
        bad = bases if bases and not self.sound(bases) else set[ObjectId]()
        bad = {base for base in bad if not self.sound([base])}
        near: list[Piece] = []
        alone: list[Piece] = []
        for piece in pieces:
            (near if self._fits(family, piece, bad) else alone).append(piece)
        return near, alone

    def _fits(self, family: Family, piece: Piece, bad: set[ObjectId]) -> bool:
        base = piece.base
        if base is None or base.id in bad:
            return base is None and family.narrow is None
        return family.narrow is None or self.usable(base, Encoding.NARROWED, piece.length)

    def _trusts(self, identifiers: list[ObjectId], *, entries: bool) -> bool:
        """Look at what lies behind objects; again as long as damage is found, which copies may make good."""
        catalog, known = self._store.catalog, -1
        look = self._store.verification.leans if entries else self._store.verification.refers
        while known < len(catalog.damaged):
            known = len(catalog.damaged)
            try:
                with self._lock:
                    chain = self.basing.behind(identifiers)
            except (CorruptionError, NotFoundError):
                return False  # a base is gone
            if not catalog.avoided.isdisjoint(chain.packs):
                return False
            if look(chain):
                return True
        return False

    def usable(self, base: EntryBase, encoding: Encoding, length: int) -> bool:
        """Tell whether a content of that length may be stored near a base."""
        with self._lock:
            return self.basing.usable(base, encoding, length)

    def nearest(self, base: EntryBase, encoding: Encoding, length: int) -> EntryBase | None:
        """Return what a content of that length may be stored near: a base, one behind it, or nothing."""
        with self._lock:
            return self.basing.nearest(base, encoding, length)

    def affordable(self, entry: Entry, payload: Buffer) -> bool:
        """Tell whether reading an entry back with all its bases stays within the limits."""
        with self._lock:
            return self.basing.affordable(entry, framed_bytes(entry, payload))

    def believable(self, entry: Entry, payload: Buffer) -> bool:
        """Tell whether readers take a description that is stored near another."""
        with self._lock:
            stored = self.basing.stored_bytes(entry.bases) + framed_bytes(entry, payload)
            return is_plausible(entry.raw_bytes, stored)

    def place(self, entry: Entry, payload: Buffer, ids: tuple[ObjectId, ...]) -> None:
        """Put an entry into the pack that is being filled."""
        with self._lock:
            if self._pack is not None and not self._pack[1].fits(len(payload)):
                self._end()
            self.basing.lean_on(entry.base_ids, deltas=1)
            with self._timed(len(payload)):
                placed = self._begun()[1].add(entry, payload, ids)
            self._objects.placed(placed, ids)

    def placement(self, kept: Iterable[str] = ()) -> Placement:
        """Return in which packs all lies that was placed or leant on; `kept` are the commit's own as well."""
        own = (*kept, *self.packs)
        return Placement(own, tuple(sorted(self.basing.reach.difference(own))))

    def flush(self, last: LastEntry | None = None) -> None:
        """Write what was placed so far; `last` is what the pack says last of the commit that it holds."""
        with self._lock:
            if self._pack is not None:
                self._end(last)

    def close(self) -> None:
        """Leave nothing behind of a pack that was begun and not ended."""
        with self._lock:
            if self._pack is not None:
                self._pack[0].discard()
                self._pack = None

    def _begun(self) -> tuple[Staged, PackWriter]:
        if self._pack is None:
            file = self._store.backend.stage()
            self._pack = file, PackWriter(file)
        return self._pack

    def _end(self, last: LastEntry | None = None) -> None:
        with self._timed():
            file, pack = self._begun()
            self._salt(pack)
            name, footer = pack.finish(last)
            path = pack_path(name, exact=self._exact)
            if self._announce is not None:
                self._announce(path)
            file.publish(path)
        self._store.catalog.add(name, footer, exact=self._exact)
        self._store.verification.wrote(name, footer, exact=self._exact)
        self._pack = None
        self._objects.written(name)
        self.packs.append(name)
        self.stored_bytes += pack.length

    @contextlib.contextmanager
    def _timed(self, count: int = 0) -> Iterator[None]:
        started = time.perf_counter()
        yield
        taken = time.perf_counter() - started
        self.write_seconds += taken
        if self._worth is not None:
            self._worth.note_written(count, taken)

    def _salt(self, pack: PackWriter) -> None:
        """Make the pack unlike any other: removing one writer's leaves that of another with equal content."""
        salt = self._salts(SALT_BYTES)
        pack.add(chunk_entry(SALT_BYTES), salt, (object_id(Kind.CHUNK, salt),))


def _costs_little(located: Located) -> bool:
    """Tell whether a look at an object is cheap beside what is lost with it: it is small, or names others."""
    return located.length <= SMALL or any(
        member.kind is not Kind.CHUNK for member in located.placed.entry.members
    )
