"""The way into a store: contents become ids, then entries near a base or alone, then packs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress
from threading import RLock

from mvcs.delta import Buffer, CodeCoder, ElementFormat, Encoding, pays_near_base
from mvcs.errors import NotFoundError, StateError
from mvcs.memory import Use
from mvcs.objects import Blob, Kind, ObjectId, half, object_id, short_id
from mvcs.store.manifests import Placement
from mvcs.store.packs.entry import MAX_RAW, EntryBase
from mvcs.store.packs.written_commit import LastEntry
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.writing.chain_limits import RestoreLimits
from mvcs.store.writing.coding_worth import CodingWorth
from mvcs.store.writing.descriptions import Descriptions
from mvcs.store.writing.entry_groups import Family, Piece
from mvcs.store.writing.group_writer import GroupWriter
from mvcs.store.writing.near_bases import Near, narrowing_from, readable
from mvcs.store.writing.pack_filler import PackFiller

BUNDLED = 64


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
        coder: CodeCoder = "auto",
        holds_values: bool = False,
    ) -> None:
        """Write into `store`.

        Args:
            store: where to.
            exact: whether into packs of their own that no other commit reuses.
            limits: how long chains of deltas may grow.
            worth: large exact chunks stay as they are while it says that the disk outruns their coding; None
                codes all of them.
            announce: is told the path of each pack before it is there.
            coder: of codes of one byte.
            holds_values: whether exact values stay in memory for the next commit, once one was made here.
        """
        self._store = store
        self._exact = exact
        self._values = store.recent_values if holds_values and store.wrote else None
        self.coder = coder
        self._filler = PackFiller(
            store, limits or RestoreLimits(), exact=exact, worth=worth, announce=announce
        )
        self._pending: set[ObjectId] = set()
        self._groups = GroupWriter(self._filler, worth, store.memory.hold(Use.GATHERED), coder)
        self._descriptions = Descriptions(store, self._filler)
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
    def placement(self) -> Placement:
        """The packs that were written, and the others that what was put needs."""
        return self._filler.placement()

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
                self._descriptions.put(kind, identifier, content, near)
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
        if self._claim(identifier, leant_on=leant_on):
            self._store_chunk(identifier, content, element, near, narrowed_from, company)
        elif self._values is not None:
            self._values.renew([half(identifier)], self)
        return identifier

    def keeps(self, identifiers: Sequence[ObjectId]) -> list[bool]:
        """Tell of each chunk whether it is stored already, and may be referred to; then it is."""
        known = self._filler.holds_each(identifiers)
        if self._values is not None:
            self._values.renew(map(half, compress(identifiers, known)), self)
        return known

    def _store_chunk(
        self,
        identifier: ObjectId,
        content: bytes | memoryview,
        element: ElementFormat,
        near: Near | None,
        narrowed_from: Near | None,
        company: str,
    ) -> None:
        if len(content) < BUNDLED:
            self._descriptions.put_opaque(Kind.CHUNK, identifier, bytes(content))
            return
        narrow = narrowing_from(content, element, narrowed_from)
        wide = narrowed_from if narrow is not None else None
        family = Family(codes=False, element=element, near=False, narrow=narrow, company=company)
        gathers, worth = family.gathers(len(content)), self._groups.worth_of(family, len(content))
        # Making a base's bytes is work, too.
        usable = None if worth is not None and worth.outruns else near
        base, old = (wide.base, None) if wide else self._old_values(usable, len(content))
        if gathers and old is not None and not pays_near_base(content, element, old):
            # First moments are smaller alone, and second ones, which share their entry, are not.
            base, old = None, None
        family = family._replace(near=base is not None)
        # A copy waits, since the caller's memory may be a large tensor's.
        kept = bytes(content) if gathers else content
        self._groups.add(family, Piece(identifier, kept, base, old))
        if self._values is None:
            return
        if gathers:
            self._values.hold(half(identifier), kept, self)
        elif self._filler.usable(EntryBase(identifier), Encoding.RANS_RESIDUAL, len(content)):
            self._values.hold_copy(half(identifier), content, self, old)

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
            self._descriptions.put_opaque(Kind.CHUNK, identifier, bytes(codes.content))
        elif claimed:
            near, old = self._old_codes(base, len(codes.content)) if base else (None, None)
            piece = Piece(identifier, codes.content, near, old, codes.levels, steps)
            self._groups.add(_of_codes(codes.width, near is not None, company), piece)
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
                self._descriptions.put_opaque(Kind.CHUNK, identifier, part)
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
            self._groups.drain()

    def settle(self) -> None:
        """Store everything that waits; sizes and depth are known then."""
        with self._lock:
            self.gather()
            self._descriptions.flush()

    def finish(self, last: LastEntry | None = None) -> None:
        """Write what is left as the last pack; `last` is what that says of the commit in it."""
        with self._lock:
            self.settle()
            self._filler.flush(last)
            if not self._exact:  # nothing is stored near what lies in an exact layer
                self._store.recent.keep(self)
                self._store.recent_values.keep(self)
                self._store.wrote = True

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

    def _old_values(self, near: Near | None, length: int) -> tuple[EntryBase | None, Buffer | None]:
        base = self._filler.nearest(near.base, Encoding.RANS_RESIDUAL, length) if near else None
        if near is None or base is None:
            return None, None
        held = None if base.chunk is not None else self._store.recent_values.take(base.id, self)
        content = near.content if base == near.base else partial(self._store.read, Kind.CHUNK, base.id)
        old = readable(content) if held is None else held
        return (None if old is None else base), old

    def _old_codes(self, identifier: ObjectId, length: int) -> tuple[EntryBase | None, Buffer | None]:
        parent = EntryBase(identifier)
        base = self._filler.nearest(parent, Encoding.DELTA, length)
        if base is None:
            return None, None
        held = self._store.recent.take(identifier, self) if base == parent else None
        old = readable(partial(self._store.read, Kind.CHUNK, base.id)) if held is None else held
        return (None if old is None else base), old


@cache
def _of_codes(width: int, near: bool, company: str) -> Family:  # noqa: FBT001 - a key of the cache
    """Return the family of chunks of codes; there are few, and one made for each would be compared."""
    return Family(codes=True, element=ElementFormat(width, floating=False), near=near, company=company)
