"""Chunks of values on their way into a pack: small ones wait for company, then a group shares an entry."""

import time
from threading import RLock

from mvcs.delta import Buffer, CodeCoder
from mvcs.memory import Hold
from mvcs.store.packs.entry import Entry
from mvcs.store.writing.coding_worth import CodingWorth
from mvcs.store.writing.entry_groups import EntryGroups, Family, Piece
from mvcs.store.writing.entry_writer import coded, prove, uncoded
from mvcs.store.writing.pack_filler import PackFiller


class GroupWriter:
    """Codes groups of chunks and places them. Safe to use from several threads."""

    def __init__(
        self,
        filler: PackFiller,
        worth: CodingWorth | None,
        room: Hold,
        coder: CodeCoder,
        *,
        proves: bool = False,
    ) -> None:
        """Hand entries to `filler`.

        Args:
            filler: takes them.
            worth: decides whether large exact chunks are coded; None codes all.
            room: for chunks that wait for others.
            coder: of codes of one byte.
            proves: whether each payload is decoded before it is placed, and compared.
        """
        self._filler = filler
        self._proves = proves
        self._worth = worth
        self._coder = coder
        self._groups = EntryGroups(room)
        self._lock = RLock()

    def add(self, family: Family, piece: Piece) -> None:
        """Take a chunk; groups that are full by it are stored."""
        with self._lock:
            full = self._groups.add(family, piece)
        for group in full:
            self.store(*group)

    def drain(self) -> None:
        """Store every chunk that waits for company."""
        with self._lock:
            for group in self._groups.drain():
                self.store(*group)

    def store(self, family: Family, pieces: list[Piece]) -> None:
        """Store a group at once, near its bases as far as they are sound and that is within the limits."""
        if family.narrow is not None:
            self._store_wide()
        near, alone = self._filler.parted(family, pieces)
        if near and not self._try_group(family, near):
            alone = pieces
        if alone:
            plain = family._replace(near=False, narrow=None)
            self._try_group(plain, [piece._replace(base=None) for piece in alone])

    def _store_wide(self) -> None:
        """Store what waits and others may be narrowed from."""
        with self._lock:
            for group in self._groups.drain(narrowed=False):
                self.store(*group)

    def _try_group(self, family: Family, pieces: list[Piece]) -> bool:
        """Store a group, unless reading it back with its bases would cost too much."""
        entry, payload = self._coded(family, pieces)
        if self._proves:
            prove(entry, payload, pieces)
        if not self._filler.affordable(entry, payload):
            return False
        self._filler.place(entry, payload, tuple(piece.id for piece in pieces))
        return True

    def worth_of(self, family: Family, length: int) -> CodingWorth | None:
        """Return what decides whether chunks of so many bytes are coded; None where they always are."""
        return None if family.codes or family.gathers(length) else self._worth

    def _coded(self, family: Family, pieces: list[Piece]) -> tuple[Entry, Buffer]:
        length = sum(piece.length for piece in pieces)
        worth = self.worth_of(family, length)
        if worth is None:
            return coded(family, pieces, self._coder)
        if worth.outruns:
            return uncoded(family, pieces)
        started = time.perf_counter()
        entry, payload = coded(family, pieces, self._coder)
        worth.note_coded(length, len(payload), time.perf_counter() - started)
        return entry, payload
