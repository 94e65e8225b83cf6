"""Objects that were written before are stored anew: as they were where that will do, else encoded."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from mvcs.delta import CodeCoder, Encoding, as_array
from mvcs.errors import CorruptionError
from mvcs.memory import Use
from mvcs.objects import Kind, ObjectId
from mvcs.store.manifests import Placement, WrittenCommit
from mvcs.store.packs.entry import OPAQUE, OPAQUE_ENCODINGS, Entry, EntryBase, read_entry
from mvcs.store.packs.written_commit import LastEntry
from mvcs.store.reading.located import Located
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path, read_part
from mvcs.store.writing.chain_limits import RestoreLimits
from mvcs.store.writing.descriptions import Descriptions
from mvcs.store.writing.entry_groups import Family, Piece
from mvcs.store.writing.group_writer import GroupWriter
from mvcs.store.writing.kept_packs import fits
from mvcs.store.writing.near_bases import readable
from mvcs.store.writing.pack_filler import PackFiller

_OF_CODES = frozenset({Encoding.CODES, Encoding.DELTA, Encoding.RANS_CODES, Encoding.RANS_DELTA})

Candidates = Callable[[Located], Iterable[ObjectId]]
"""What a chunk may be stored near: ids, or halves of them, the best first."""


class Rewriter:
    """Fills packs with objects that other packs of the store hold.

    What it encodes is decoded at once and compared; `prove` reads back what became of it.
    """

    def __init__(
        self,
        source: ObjectStore,
        target: ObjectStore,
        limits: RestoreLimits,
        announce: Callable[[str], None] | None = None,
        coder: CodeCoder = "auto",
        salts: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Move objects from one view of a store to another.

        Args:
            source: knows packs that hold them now, and packs that hold their bases.
            target: knows the packs that they may lean on then, and comes to know those that are written.
            limits: how long chains may grow.
            announce: is told the path of each pack before it is there.
            coder: of codes of one byte.
            salts: gives so many random bytes, which make a pack unlike any other.
        """
        self._source = source
        self._target = target
        self._jumps = limits.near_depth is not None
        self._filler = PackFiller(target, limits, exact=False, worth=None, announce=announce, salts=salts)
        room = target.memory.hold(Use.GATHERED)
        self._groups = GroupWriter(self._filler, None, room, coder, proves=True)
        self._descriptions = Descriptions(target, self._filler)
        self._described: list[tuple[Kind, ObjectId]] = []
        self.encoded = 0

    @property
    def packs(self) -> tuple[str, ...]:
        """Names of the packs that were written so far."""
        return tuple(self._filler.packs)

    @property
    def stored_bytes(self) -> int:
        """Bytes of these packs."""
        return self._filler.stored_bytes

    def holds(self, identifier: ObjectId) -> bool:
        """Tell whether an object is where it may stay."""
        return self._filler.basing.objects.find(identifier) is not None

    def adopt(self, link: Located) -> bool:
        """Take an entry over as it is, unless its bases are not there, or it would lie too deep.

        Raises:
            CorruptionError: it is damaged.
        """
        entry = link.placed.entry
        if not fits(self._filler.basing, entry, link.placed.length):
            return False
        data = read_part(self._source.backend, pack_path(link.pack), link.placed.offset, link.placed.length)
        found, payload, _ = read_entry(data, start=link.placed.offset)
        if found != entry:
            raise CorruptionError(f"pack {link.pack[:12]} does not hold the entry that its footer names")
        self._filler.place(entry, payload, link.placed.ids)
        return True

    def encode(self, links: list[Located], bases: Candidates, steps: Mapping[ObjectId, int | None]) -> None:
        """Encode objects of one entry anew, chunks near what may be and alone else.

        Args:
            links: the objects.
            bases: what each chunk may be stored near.
            steps: by the ids of chunks of codes the step bytes of lattices, None for others.
        """
        entry = links[0].placed.entry
        if entry.encoding is Encoding.ZSTD_DELTA or not _is_of_values(entry, links, steps):
            for link in links:
                self.put(link, self._nearest(link, bases, Encoding.ZSTD_DELTA))
            return
        codes = entry.encoding in _OF_CODES or links[0].id in steps
        pieces = [self._piece(link, bases, steps, codes=codes) for link in links]
        for near in (True, False):
            some = [piece for piece in pieces if (piece.base is not None) is near]
            if some:
                self._groups.store(Family(codes=codes, element=entry.element, near=near), some)
        self.encoded += len(links)

    def put(self, link: Located, near: ObjectId | None) -> None:
        """Store a description, or opaque bytes, near another of its kind or in a bundle."""
        kind = link.placed.entry.members[link.member].kind
        content = bytes(self._source.read(kind, link.id))
        if kind is Kind.CHUNK:
            self._descriptions.put_opaque(kind, link.id, content)
        else:
            self._descriptions.put(kind, link.id, content, near)
        self._described.append((kind, link.id))

    def _piece(
        self, link: Located, bases: Candidates, steps: Mapping[ObjectId, int | None], *, codes: bool
    ) -> Piece:
        content = self._source.read(Kind.CHUNK, link.id)
        encoding = Encoding.RANS_DELTA if codes else Encoding.RANS_RESIDUAL
        levels = int(as_array(content).max(initial=np.uint8(0))) + 1
        name = self._nearest(link, bases, encoding)
        found = None if name is None else self._filler.basing.objects.find(name)
        if found is None:
            return Piece(link.id, content, levels=levels)
        old = readable(partial(self._source.read, Kind.CHUNK, found.id))
        if old is None:
            return Piece(link.id, content, levels=levels)
        before, after = steps.get(found.id), steps.get(link.id)
        known = None if before is None or after is None else (before, after)
        return Piece(link.id, content, EntryBase(found.id), old, levels, known)

    def _nearest(self, link: Located, bases: Candidates, encoding: Encoding) -> ObjectId | None:
        """Return the best that an object may be stored near, or the next whose chain is not too long.

        Where depths are not told for each commit, what is too deep is followed by a snapshot instead: all
        that comes later would be near the last that is not, farther and farther off.
        """
        for name in filter(self.holds, bases(link)):
            if self._filler.usable(EntryBase(name), encoding, link.length):
                return name
            if not self._jumps:
                return None
        return None

    def finish(self, written: WrittenCommit, needs: Iterable[ObjectId], kept: Iterable[str]) -> Placement:
        """Write what is left, the commit itself included where no pack that stays has it.

        Args:
            written: the commit.
            needs: all other objects of its value layer.
            kept: packs of its own that stay.

        Returns:
            Where all of it lies.

        Raises:
            NotFoundError: one of these objects is nowhere.
        """
        self._descriptions.flush()
        last = None
        if not self.holds(written.id):
            self._descriptions.put_opaque(Kind.COMMIT, written.id, written.content)
            self._descriptions.flush()
            last = LastEntry(written.sizes, written.exact_packs)
        self._filler.flush(last)
        self._filler.basing.lean_on([*needs, written.id])
        return self._filler.placement(kept)

    def prove(self) -> None:
        """Read descriptions and opaque bytes back; chunks of values were proven as they were encoded.

        Raises:
            CorruptionError: something does not hash to its id.
        """
        for kind, identifier in self._described:
            self._target.read(kind, identifier)
        self._described.clear()

    def close(self) -> None:
        """Leave nothing behind of a pack that was begun and not ended; packs that were written stay."""
        self._filler.close()


def _is_of_values(entry: Entry, links: list[Located], steps: Mapping[ObjectId, int | None]) -> bool:
    """Tell whether an entry holds chunks of values, and no descriptions or opaque bytes."""
    if any(entry.members[link.member].kind is not Kind.CHUNK for link in links):
        return False
    plain = entry.encoding in OPAQUE_ENCODINGS and entry.element == OPAQUE
    return not plain or links[0].id in steps
