"""The way into a store: contents become ids, then entries near a base or alone, then packs."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import RLock

from mvcs.delta.buffers import joined
from mvcs.delta.choose import Chosen, choose_codes, choose_exact, choose_opaque
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding
from mvcs.errors import CorruptionError, NotFoundError, StateError
from mvcs.objects.blobs import Blob
from mvcs.objects.grid import BLOB_CHUNK_BYTES
from mvcs.objects.ids import Kind, ObjectId, file_name, object_id
from mvcs.store.basing import Basing, RestoreLimits
from mvcs.store.catalog import pack_path
from mvcs.store.chains import Located
from mvcs.store.entry import MAX_RAW, Base, Entry, Member, framed_bytes
from mvcs.store.footer import Placed, Tail, Written
from mvcs.store.gathering import Family, Gathering, Piece
from mvcs.store.objects import ObjectStore
from mvcs.store.pack import PackBuilder

BUNDLED = 64
SALT_BYTES = 16
BUNDLE_BYTES = 1 << 20


@dataclass(frozen=True)
class Codes:
    """One chunk of codes.

    Attributes:
        content: little-endian, `width` bytes a code.
        levels: for codes of one byte the number of distinct codes there may be, exception mark included.
        width: bytes of a code: 1, or 2 for the signed codes of a lattice.
    """

    content: bytes
    levels: int = 256
    width: int = 1


@dataclass(frozen=True)
class Near:
    """A base and a way to its bytes, for content that may be encoded near it.

    Attributes:
        base: what a reader will look up.
        content: gives the base's bytes; called only when the base is used.
    """

    base: Base
    content: Callable[[], bytes]


class ObjectWriter:
    """Writes the objects of one layer of one commit into packs. Safe to use from several threads.

    Packs are durable as soon as they are full; nothing refers to them before a ref does, so an
    interrupted writer leaves only packs that nobody needs.
    """

    def __init__(
        self, store: ObjectStore, *, exact: bool = False, limits: RestoreLimits | None = None
    ) -> None:
        """Write into `store`; `exact` selects packs of their own that no other commit reuses."""
        self._store = store
        self._exact = exact
        self._basing = Basing(store.catalog, limits or RestoreLimits())
        self._builder = PackBuilder()
        self._pending: set[ObjectId] = set()
        self._gathering = Gathering()
        self._bundle: list[tuple[Kind, ObjectId, bytes]] = []
        self._bundled_bytes = 0
        self._lock = RLock()
        self.packs: list[str] = []
        self.stored_bytes = 0
        self.write_seconds = 0.0

    @property
    def reach(self) -> set[str]:
        """Names of the packs of other commits that this one needs."""
        return self._basing.reach

    @property
    def depth(self) -> int:
        """The longest chain of deltas behind an object that was put."""
        return self._basing.depth

    def put(self, kind: Kind, content: bytes) -> ObjectId:
        """Store a structured object or a small content; it shares a bundle with others.

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
            if not self._known(identifier):
                self._pending.add(identifier)
                self._put_opaque(kind, identifier, content)
        return identifier

    def put_chunk(
        self, content: bytes | memoryview, element: ElementFormat, near: Near | None = None
    ) -> ObjectId:
        """Store a chunk of exact values, near a base where that is smaller and the restore budget allows.

        A small chunk waits for others and shares an entry with them; its base is read at once.
        """
        identifier = object_id(Kind.CHUNK, content)
        if not self._claim(identifier):
            return identifier
        if len(content) < BUNDLED:
            self._put_opaque(Kind.CHUNK, identifier, bytes(content))
            return identifier
        usable = near is not None and self._usable(near.base, len(content))
        old = _readable(near.content) if near and usable else None
        base = near.base if near and old is not None else None
        family = Family(codes=False, element=element, near=base is not None)
        # A copy waits, since the caller's memory may be a large tensor's.
        kept = bytes(content) if family.gathers(len(content)) else content
        self._gather(family, Piece(identifier, kept, base, old))
        return identifier

    def put_codes(
        self, codes: Codes, base: ObjectId | None, steps: tuple[int, int] | None = None
    ) -> ObjectId:
        """Store a chunk of codes, near the codes `base` where that is smaller and the budget allows.

        Args:
            codes: the chunk.
            base: a chunk with as many codes, of the same width; or None.
            steps: for codes of a lattice, the step bytes of the base and of these codes.
        """
        identifier = object_id(Kind.CHUNK, codes.content)
        claimed = self._claim(identifier)
        if claimed and len(codes.content) < BUNDLED:
            self._put_opaque(Kind.CHUNK, identifier, codes.content)
        elif claimed:
            old = self._old_codes(base, len(codes.content)) if base else None
            near = Base(base) if base and old is not None else None
            piece = Piece(identifier, codes.content, near, old, codes.levels, steps)
            element = ElementFormat(codes.width, floating=False)
            self._gather(Family(codes=True, element=element, near=near is not None), piece)
        self._store.recent.hold(identifier, codes.content, self)
        return identifier

    def put_blob(self, data: memoryview) -> ObjectId:
        """Store opaque bytes on the blob grid."""
        chunks = []
        for start in range(0, len(data), BLOB_CHUNK_BYTES):
            part = bytes(data[start : start + BLOB_CHUNK_BYTES])
            identifier = object_id(Kind.CHUNK, part)
            chunks.append(identifier)
            if self._claim(identifier):
                self._put_opaque(Kind.CHUNK, identifier, part)
        return self.put(Kind.BLOB, Blob(len(data), tuple(chunks)).encode())

    def settle(self) -> None:
        """Store everything that waits for company; sizes and depth are known then."""
        with self._lock:
            for group in self._gathering.drain():
                self._store_group(*group)
            self._flush_bundle()

    def finish(self, commits: tuple[Written, ...] = ()) -> str | None:
        """Write what is left as the last pack and return its name; None when there is nothing to write."""
        with self._lock:
            self.settle()
            self._store.recent.keep(self)
            if not self._builder.entries and not commits:
                return None
            own = tuple(self.packs)
            return self._flush(commits, tuple(sorted(self.reach.difference(own))), own)

    def _claim(self, identifier: ObjectId) -> bool:
        """Tell whether the caller has to store the object; a second caller with the same one has not."""
        with self._lock:
            if self._known(identifier):
                return False
            self._pending.add(identifier)
            return True

    def _known(self, identifier: ObjectId) -> bool:
        if identifier in self._pending:
            return True
        if self._exact or self._store.catalog.find(identifier) is None:
            return False
        try:
            self._basing.lean_on([identifier])
        except (CorruptionError, NotFoundError):
            return False  # a base of it is gone: it is written again
        return True

    def _usable(self, base: Base, length: int) -> bool:
        with self._lock:
            return self._basing.usable(base, Encoding.DELTA, length)

    def _old_codes(self, identifier: ObjectId, length: int) -> bytes | None:
        base = Base(identifier)
        if not self._usable(base, length):
            return None
        held = self._store.recent.take(identifier, self)
        return _readable(lambda: self._store.base_content(base)) if held is None else held

    def _gather(self, family: Family, piece: Piece) -> None:
        with self._lock:
            full = list(self._gathering.add(family, piece))
        for group in full:
            self._store_group(*group)

    def _store_group(self, family: Family, pieces: list[Piece]) -> None:
        encoding, payload = _chosen(family, pieces)
        entry = _entry(family, pieces, encoding)
        if entry.bases:
            with self._lock:
                within = self._basing.affordable(entry.bases, framed_bytes(entry, payload))
            if not within:
                encoding, payload = _chosen(replace(family, near=False), pieces)
                entry = _entry(family, pieces, encoding)
        self._place(entry, payload, tuple(piece.id for piece in pieces))

    def _put_opaque(self, kind: Kind, identifier: ObjectId, content: bytes) -> None:
        if len(content) > BUNDLE_BYTES:
            encoding, payload = choose_opaque(content)
            self._place(Entry((Member(kind, len(content)),), encoding), payload, (identifier,))
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
        self._place(Entry(members, encoding), payload, ids)

    def _place(self, entry: Entry, payload: bytes, ids: tuple[ObjectId, ...]) -> Placed:
        with self._lock:
            if not self._builder.fits(len(payload)):
                self._flush()
            self._basing.lean_on(entry.base_ids, deltas=1)
            placed = self._builder.add(entry, payload, ids)
            own = {
                name: Located("", exact=self._exact, placed=placed, member=member)
                for member, name in enumerate(ids)
            }
            self._basing.own |= own
            return placed

    def _flush(
        self, commits: tuple[Written, ...] = (), reach: tuple[str, ...] = (), own: tuple[str, ...] = ()
    ) -> str:
        if self._exact:
            self._salt()
        data = self._builder.finish(commits, reach, own)
        name = file_name(data)
        started = time.perf_counter()
        self._store.backend.put(pack_path(name, exact=self._exact), data)
        self.write_seconds += time.perf_counter() - started
        tail = Tail.parse(data)
        stored = data[tail.footer_offset : tail.footer_offset + tail.footer_length]
        self._store.catalog.add(name, tail.footer(stored, name), exact=self._exact)
        self._builder = PackBuilder()
        self._basing.own = {}
        self.packs.append(name)
        self.stored_bytes += len(data)
        return name

    def _salt(self) -> None:
        """Make the pack unlike any other, so that dropping one commit's layer leaves an equal commit's."""
        salt = secrets.token_bytes(SALT_BYTES)
        entry = Entry((Member(Kind.CHUNK, SALT_BYTES),), Encoding.RAW)
        self._builder.add(entry, salt, (object_id(Kind.CHUNK, salt),))


def _entry(family: Family, pieces: list[Piece], encoding: Encoding) -> Entry:
    members = tuple(Member(Kind.CHUNK, piece.length) for piece in pieces)
    bases = tuple(piece.base for piece in pieces if piece.base and encoding.has_base)
    return Entry(members, encoding, family.element, bases)


def _chosen(family: Family, pieces: list[Piece]) -> Chosen:
    content = joined(piece.content for piece in pieces)
    near = joined(piece.old for piece in pieces if piece.old is not None) if family.near else None
    if not family.codes:
        return choose_exact(content, family.element, near)
    levels = max(piece.levels for piece in pieces)
    return choose_codes(content, levels, near, width=family.element.width)


def _readable(content: Callable[[], bytes]) -> bytes | None:
    """Return a base's bytes; None when it is damaged or gone, and the new content has to be stored alone."""
    try:
        return content()
    except (CorruptionError, NotFoundError):
        return None
