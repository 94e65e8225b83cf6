"""The way into a store: contents become ids, then entries near a base or alone, then packs."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import RLock

from mvcs.delta import Buffer, ElementFormat, Encoding, choose_opaque, encode, pays_near_base
from mvcs.errors import NotFoundError, StateError
from mvcs.objects import Blob, Kind, ObjectId, object_id, short_id
from mvcs.store.packs.entry import MAX_RAW, OPAQUE, Entry, EntryBase, Member, framed_bytes
from mvcs.store.packs.expansion_limit import FREE_BYTES, choose_described
from mvcs.store.packs.footer import WrittenCommit
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.writing.chain_limits import RestoreLimits
from mvcs.store.writing.coding_worth import CodingWorth
from mvcs.store.writing.entry_groups import EntryGroups, Family, Piece
from mvcs.store.writing.entry_writer import coded, uncoded
from mvcs.store.writing.near import Near, narrowing_from, readable
from mvcs.store.writing.pack_filler import PackFiller

BUNDLED = 64
# Structured objects from this size on are stored near others; a base costs about these bytes in the footer.
OWN_ENTRY, NEAR_BYTES = 1 << 10, 40
BUNDLE_BYTES = 1 << 20


@dataclass(frozen=True)
class StoredCodes:
    """One chunk of codes.

    Attributes:
        content: little-endian, `width` bytes a code.
        levels: for codes of one byte the number of distinct codes there may be, exception mark included.
        width: bytes of a code: 1, or 2 for the signed codes of a lattice.
        bases: whether the next commit may store codes near these, which then stay in memory until it does.
    """

    content: bytes | memoryview
    levels: int = 256
    width: int = 1
    bases: bool = True


class ObjectWriter:
    """Writes the objects of one layer of one commit into packs. Safe to use from several threads.

    Packs are durable as soon as they are full; nothing refers to them before a ref does, so an
    interrupted writer leaves only packs that nobody needs.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        exact: bool = False,
        limits: RestoreLimits | None = None,
        worth: CodingWorth | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        """Write into `store`.

        Args:
            store: where to.
            exact: whether into packs of their own that no other commit reuses.
            limits: how long chains of deltas may grow.
            worth: large exact chunks stay as they are while it says that the disk outruns their coding; None
                codes all of them.
            announce: is told the path of each pack before it is there.
        """
        self._store = store
        self._worth = worth
        self._filler = PackFiller(
            store, limits or RestoreLimits(), exact=exact, worth=worth, announce=announce
        )
        self._pending: set[ObjectId] = set()
        self._groups = EntryGroups()
        self._bundle: list[tuple[Kind, ObjectId, bytes]] = []
        self._bundled_bytes = 0
        self._lock = RLock()

    @property
    def packs(self) -> list[str]:
        """Names of the packs that were written so far."""
        return self._filler.packs

    @property
    def stored_bytes(self) -> int:
        """Bytes of these packs."""
        return self._filler.stored_bytes

    @property
    def write_seconds(self) -> float:
        """How long writing them took."""
        return self._filler.write_seconds

    @property
    def reach(self) -> set[str]:
        """Names of the packs of other commits that this one needs."""
        return self._filler.basing.reach

    @property
    def depth(self) -> int:
        """The longest chain of deltas behind an object that was put."""
        return self._filler.basing.depth

    def put(self, kind: Kind, content: bytes, near: ObjectId | None = None) -> ObjectId:
        """Store a structured object or a small content.

        Args:
            kind: what it is.
            content: its bytes.
            near: an object of the same kind that it may be stored near, where that is smaller; it shares
                a bundle with others otherwise.

        Raises:
            StateError: it is larger than an entry of a pack may be.
        """
        if len(content) > MAX_RAW:
            raise StateError(
                f"the description of this state takes {len(content)} bytes; an object has at most {MAX_RAW}",
                hint="join small tensors into larger ones",
            )
        identifier = object_id(kind, content)
        with self._lock:
            if self._claim(identifier):
                self._put_structured(kind, identifier, content, near)
        return identifier

    def put_chunk(
        self,
        content: bytes | memoryview,
        element: ElementFormat,
        near: Near | None = None,
        narrowed_from: Near | None = None,
        company: str = "",
        *,
        leant_on: bool = False,
    ) -> ObjectId:
        """Store a chunk of exact values, near a base where that is smaller and the restore budget allows.

        A small chunk waits for others and shares an entry with them; its base is read at once.

        Args:
            content: the chunk, in memory that nobody writes: what is hashed is what is encoded.
            element: the format of its elements.
            near: a chunk of the same element format and length, or restored values.
            narrowed_from: a chunk of as many 32-bit floats that was put before, if this one may be that chunk
                rounded to 16 bits.
            company: chunks of another company never share an entry with this one.
            leant_on: whether an exact layer is stored near what this chunk helps to restore; a copy in the
                store is read and checksummed then.
        """
        identifier = object_id(Kind.CHUNK, content)
        if not self._claim(identifier, leant_on=leant_on):
            return identifier
        if len(content) < BUNDLED:
            self._put_opaque(Kind.CHUNK, identifier, bytes(content))
            return identifier
        narrow = narrowing_from(content, element, narrowed_from)
        wide = narrowed_from if narrow is not None else None
        family = Family(codes=False, element=element, near=False, narrow=narrow, company=company)
        gathers, worth = family.gathers(len(content)), self._worth_of(family, len(content))
        # Making a base's bytes is work, too.
        usable = None if worth is not None and worth.outruns else near
        found, old = (wide, None) if wide else self._old_values(usable, len(content))
        base = found.base if found else None
        if gathers and old is not None and not pays_near_base(content, element, old):
            # First moments are smaller alone, and second ones, which share their entry, are not.
            base, old = None, None
        family = replace(family, near=base is not None)
        # A copy waits, since the caller's memory may be a large tensor's.
        kept = bytes(content) if gathers else content
        self._gather(family, Piece(identifier, kept, base, old))
        return identifier

    def put_codes(
        self,
        codes: StoredCodes,
        base: ObjectId | None,
        steps: tuple[int, int] | None = None,
        company: str = "",
        *,
        leant_on: bool = False,
    ) -> ObjectId:
        """Store a chunk of codes, near the codes `base` where that is smaller and the budget allows.

        Args:
            codes: the chunk.
            base: a chunk with as many codes, of the same width; or None.
            steps: for codes of a lattice, the step bytes of the base and of these codes.
            company: chunks of another company never share an entry with this one.
            leant_on: as for `put_chunk`.
        """
        identifier = object_id(Kind.CHUNK, codes.content)
        claimed = self._claim(identifier, leant_on=leant_on)
        if claimed and len(codes.content) < BUNDLED:
            self._put_opaque(Kind.CHUNK, identifier, bytes(codes.content))
        elif claimed:
            old = self._old_codes(base, len(codes.content)) if base else None
            near = EntryBase(base) if base and old is not None else None
            piece = Piece(identifier, codes.content, near, old, codes.levels, steps)
            element = ElementFormat(codes.width, floating=False)
            family = Family(codes=True, element=element, near=near is not None, company=company)
            self._gather(family, piece)
        if codes.bases:
            self._store.recent.hold(identifier, codes.content, self)
        return identifier

    def put_blob(self, parts: Iterable[bytes | memoryview]) -> ObjectId:
        """Store opaque bytes, handed over on the blob grid."""
        chunks, length = [], 0
        for part in map(bytes, parts):
            identifier = object_id(Kind.CHUNK, part)
            chunks.append(identifier)
            length += len(part)
            if self._claim(identifier):
                self._put_opaque(Kind.CHUNK, identifier, part)
        return self.put(Kind.BLOB, Blob(length, tuple(chunks)).encode())

    def hold(self, identifiers: Iterable[ObjectId]) -> None:
        """Lean on objects of earlier commits as they are stored.

        Raises:
            NotFoundError: the store lacks one, or one that it is stored near.
        """
        for identifier in identifiers:
            self._store.catalog.locate(identifier)
            if not self._known(identifier, leant_on=False):
                raise NotFoundError(
                    f"object {short_id(identifier)}, or what it is stored near, is gone or damaged"
                )

    def gather(self) -> None:
        """Store every chunk that waits for company."""
        with self._lock:
            for group in self._groups.drain():
                self._store_group(*group)

    def settle(self) -> None:
        """Store everything that waits; sizes and depth are known then."""
        with self._lock:
            self.gather()
            self._flush_bundle()

    def finish(self, commits: tuple[WrittenCommit, ...] = ()) -> str | None:
        """Write what is left as the last pack and return its name; None when there is nothing to write."""
        with self._lock:
            self.settle()
            self._store.recent.keep(self)
            return self._filler.finish(commits)

    def close(self) -> None:
        """Leave nothing behind of a pack that was begun and not ended; packs that were written stay."""
        self._filler.close()

    def _claim(self, identifier: ObjectId, *, leant_on: bool = False) -> bool:
        """Tell whether the caller has to store the object; a second caller with the same one has not."""
        with self._lock:
            if self._known(identifier, leant_on=leant_on):
                return False
            self._pending.add(identifier)
            return True

    def _known(self, identifier: ObjectId, *, leant_on: bool) -> bool:
        return identifier in self._pending or self._filler.holds(identifier, leant_on=leant_on)

    def _old_values(self, near: Near | None, length: int) -> tuple[Near | None, Buffer | None]:
        usable = near is not None and self._filler.usable(near.base, Encoding.RANS_RESIDUAL, length)
        old = readable(near.content) if near and usable else None
        return (None if old is None else near), old

    def _old_codes(self, identifier: ObjectId, length: int) -> Buffer | None:
        base = EntryBase(identifier)
        if not self._filler.usable(base, Encoding.DELTA, length):
            return None
        held = self._store.recent.take(identifier, self)
        return readable(lambda: self._store.base_content(base)) if held is None else held

    def _gather(self, family: Family, piece: Piece) -> None:
        with self._lock:
            full = list(self._groups.add(family, piece))
        for group in full:
            self._store_group(*group)

    def _store_group(self, family: Family, pieces: list[Piece]) -> None:
        if family.narrow is not None:
            self._store_wide()
        near, alone = self._filler.parted(family, pieces)
        if near and not self._try_group(family, near):
            alone = pieces
        if alone:
            plain = replace(family, near=False, narrow=None)
            self._try_group(plain, [replace(piece, base=None) for piece in alone])

    def _store_wide(self) -> None:
        """Store what waits and others may be narrowed from."""
        with self._lock:
            for group in self._groups.drain(narrowed=False):
                self._store_group(*group)

    def _try_group(self, family: Family, pieces: list[Piece]) -> bool:
        """Store a group, unless reading it back with its bases would cost too much."""
        entry, payload = self._coded(family, pieces)
        if not self._filler.affordable(entry, payload):
            return False
        self._filler.place(entry, payload, tuple(piece.id for piece in pieces))
        return True

    def _worth_of(self, family: Family, length: int) -> CodingWorth | None:
        """Return what decides whether chunks of so many bytes are coded; None where they always are."""
        return None if family.codes or family.gathers(length) else self._worth

    def _coded(self, family: Family, pieces: list[Piece]) -> tuple[Entry, Buffer]:
        length = sum(piece.length for piece in pieces)
        worth = self._worth_of(family, length)
        if worth is None:
            return coded(family, pieces)
        if worth.outruns:
            return uncoded(family, pieces)
        started = time.perf_counter()
        entry, payload = coded(family, pieces)
        worth.note_coded(length, len(payload), time.perf_counter() - started)
        return entry, payload

    def _put_structured(
        self, kind: Kind, identifier: ObjectId, content: bytes, near: ObjectId | None
    ) -> None:
        if len(content) < OWN_ENTRY or (near is None and kind is not Kind.TREE):
            self._put_opaque(kind, identifier, content)
            return
        # An entry of its own, so that what comes to be stored near it reads no bundle.
        encoding, payload = choose_described(content)
        entry = Entry((Member(kind, len(content)),), encoding)
        closer = self._described_near(kind, entry, content, near) if near is not None else None
        if closer is not None and framed_bytes(*closer) + NEAR_BYTES < framed_bytes(entry, payload):
            entry, payload = closer
        self._filler.place(entry, payload, (identifier,))

    def _described_near(
        self, kind: Kind, entry: Entry, content: bytes, near: ObjectId
    ) -> tuple[Entry, Buffer] | None:
        """Return a description near another; None where that cannot be read or readers would refuse it."""
        usable = self._filler.usable(EntryBase(near), Encoding.ZSTD_DELTA, len(content))
        if not usable or not self._filler.sound([near]):
            return None
        old = readable(lambda: self._store.read(kind, near))
        if old is None:
            return None
        closer = replace(entry, encoding=Encoding.ZSTD_DELTA, bases=(EntryBase(near),))
        delta = encode(closer.encoding, content, element=OPAQUE, base=old)
        fits = self._filler.affordable(closer, delta) and self._filler.believable(closer, delta)
        return (closer, delta) if fits else None

    def _put_opaque(self, kind: Kind, identifier: ObjectId, content: bytes) -> None:
        described = kind is not Kind.CHUNK
        if len(content) > (FREE_BYTES if described else BUNDLE_BYTES):
            encoding, payload = choose_described(content) if described else choose_opaque(content)
            self._filler.place(Entry((Member(kind, len(content)),), encoding), payload, (identifier,))
            return
        with self._lock:
            self._bundle.append((kind, identifier, content))
            self._bundled_bytes += len(content)
            if self._bundled_bytes > BUNDLE_BYTES:
                self._flush_bundle()

    def _flush_bundle(self) -> None:
        if not self._bundle:
            return
        members = tuple(Member(kind, len(content)) for kind, _, content in self._bundle)
        encoding, payload = choose_opaque(b"".join(content for _, _, content in self._bundle))
        ids = tuple(identifier for _, identifier, _ in self._bundle)
        self._bundle, self._bundled_bytes = [], 0
        self._filler.place(Entry(members, encoding), payload, ids)
