"""The way into a store: contents become ids, then entries near a base or alone, then packs."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock

from mvcs.delta.choose import choose_codes, choose_exact, choose_opaque
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding
from mvcs.errors import CorruptionError, NotFoundError, StateError
from mvcs.objects.blobs import Blob
from mvcs.objects.grid import BLOB_CHUNK_BYTES
from mvcs.objects.ids import Kind, ObjectId, file_name, object_id
from mvcs.store.catalog import pack_path
from mvcs.store.entry import MAX_RAW, OPAQUE, Base, Entry, Member
from mvcs.store.footer import Placed, Tail, Written
from mvcs.store.objects import ObjectStore
from mvcs.store.pack import PackBuilder

BUNDLED = 1 << 10
SALT_BYTES = 16
BUNDLE_BYTES = 1 << 20


@dataclass(frozen=True)
class RestoreLimits:
    """How long chains of deltas may grow before a chunk is stored on its own again.

    Attributes:
        max_depth: deltas between a chunk and its snapshot.
        max_ratio: bytes read to restore a chunk over the bytes of its snapshot.
    """

    max_depth: int = 32
    max_ratio: float = 3.0


@dataclass(frozen=True)
class Codes:
    """One chunk of codes.

    Attributes:
        content: one byte a code.
        levels: number of distinct codes there may be, exception mark included.
    """

    content: bytes
    levels: int


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
        self._limits = limits or RestoreLimits()
        self._builder = PackBuilder()
        self._pending: set[ObjectId] = set()
        self._bundle: list[tuple[Kind, ObjectId, bytes]] = []
        self._bundled_bytes = 0
        self._lock = RLock()
        self.packs: list[str] = []
        self.stored_bytes = 0
        self.write_seconds = 0.0
        self.reach: set[str] = set()
        self.depth = 0

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

    def put_chunk(self, content: bytes | memoryview, element: ElementFormat, near: Near | None) -> ObjectId:
        """Store a chunk of exact values, near a base where that is smaller and the restore budget allows."""
        identifier = object_id(Kind.CHUNK, content)
        if not self._claim(identifier):
            return identifier
        if len(content) < BUNDLED:
            self._put_opaque(Kind.CHUNK, identifier, bytes(content))
            return identifier
        usable = near if near and self._usable(near.base, len(content)) else None
        old = _readable(usable.content) if usable else None
        usable = None if old is None else usable
        encoding, payload = choose_exact(content, element, old)
        if usable and encoding is Encoding.RESIDUAL and not self._within(usable.base, len(payload)):
            encoding, payload = choose_exact(content, element, None)
        base = usable.base if usable and encoding is Encoding.RESIDUAL else None
        self._place(
            Entry((Member(Kind.CHUNK, len(content)),), encoding, element, base), payload, (identifier,)
        )
        return identifier

    def put_codes(self, codes: Codes, base: ObjectId | None, base_levels: int) -> ObjectId:
        """Store a chunk of codes, near the codes `base` where that is smaller and the budget allows."""
        identifier = object_id(Kind.CHUNK, codes.content)
        if not self._claim(identifier):
            return identifier
        near = Base(base) if base else None
        usable = near is not None and self._usable(near, len(codes.content))
        old = _readable(lambda: self._store.base_content(Base(base))) if base and usable else None
        near = None if old is None else near
        encoding, payload = choose_codes(codes.content, codes.levels, old, base_levels)
        if near and encoding is Encoding.DELTA and not self._within(near, len(payload)):
            encoding, payload = choose_codes(codes.content, codes.levels, None, None)
        used = near if encoding is Encoding.DELTA else None
        self._place(
            Entry((Member(Kind.CHUNK, len(codes.content)),), encoding, OPAQUE, used), payload, (identifier,)
        )
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

    def finish(self, commits: tuple[Written, ...] = ()) -> str | None:
        """Write what is left as the last pack and return its name; None when there is nothing to write."""
        with self._lock:
            self._flush_bundle()
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
            self._lean_on(identifier)
        except (CorruptionError, NotFoundError):
            return False  # a base of it is gone: it is written again
        return True

    def _lean_on(self, identifier: ObjectId, deltas: int = 0) -> None:
        """Count the packs behind an object that this commit needs, and the depth they bring."""
        chain = self._store.catalog.chain(identifier)
        self.reach.update(link.pack for link in chain)
        self.depth = max(self.depth, len(chain) - 1 + deltas)

    def _usable(self, base: Base, length: int) -> bool:
        """Tell whether a base has content of that length and a chain that may still grow."""
        if base.chunk is not None:
            return True
        located = self._store.catalog.find(base.id)
        if located is None or located.placed.entry.members[located.member].length != length:
            return False
        try:
            return len(self._store.catalog.chain(base.id)) <= self._limits.max_depth
        except (CorruptionError, NotFoundError):
            return False

    def _within(self, base: Base, added: int) -> bool:
        """Tell whether reading the chain and `added` bytes more costs at most `max_ratio` snapshots."""
        if base.chunk is not None:
            return True
        chain = self._store.catalog.chain(base.id)
        total = sum(link.placed.length for link in chain) + added
        return total <= self._limits.max_ratio * chain[-1].placed.length

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
            if entry.base is not None and entry.base.chunk is None:
                self._lean_on(entry.base.id, deltas=1)
            return self._builder.add(entry, payload, ids)

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
        self.packs.append(name)
        self.stored_bytes += len(data)
        return name

    def _salt(self) -> None:
        """Make the pack unlike any other, so that dropping one commit's layer leaves an equal commit's."""
        salt = secrets.token_bytes(SALT_BYTES)
        entry = Entry((Member(Kind.CHUNK, SALT_BYTES),), Encoding.RAW)
        self._builder.add(entry, salt, (object_id(Kind.CHUNK, salt),))


def _readable(content: Callable[[], bytes]) -> bytes | None:
    """Return a base's bytes; None when it is damaged or gone, and the new content has to be stored alone."""
    try:
        return content()
    except (CorruptionError, NotFoundError):
        return None
