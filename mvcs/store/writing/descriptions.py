"""Structured objects and small contents on their way into a pack: near others, alone, or bundled."""

from dataclasses import replace
from threading import RLock

from mvcs.delta import Buffer, Encoding, choose_opaque, encode
from mvcs.objects import Kind, ObjectId
from mvcs.store.packs.entry import MAX_BUNDLED, OPAQUE, Entry, EntryBase, Member, framed_bytes
from mvcs.store.packs.expansion_limit import FREE_BYTES, choose_described
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.writing.near_bases import readable
from mvcs.store.writing.pack_filler import PackFiller

# Structured objects from this size on are stored near others; a base costs about these bytes in the footer.
OWN_ENTRY, NEAR_BYTES = 1 << 10, 40
BUNDLE_BYTES = 1 << 20


class Descriptions:
    """Places what is no chunk of values. Safe to use from several threads."""

    def __init__(self, store: ObjectStore, filler: PackFiller) -> None:
        """Read bases from `store`; hand entries to `filler`."""
        self._store = store
        self._filler = filler
        self._bundle: list[tuple[Kind, ObjectId, bytes]] = []
        self._bundled_bytes = 0
        self._lock = RLock()

    def put(self, kind: Kind, identifier: ObjectId, content: bytes, near: ObjectId | None) -> None:
        """Place a structured object, near another where that is smaller; small ones share a bundle."""
        if len(content) < OWN_ENTRY or (near is None and kind is not Kind.TREE):
            self.put_opaque(kind, identifier, content)
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

    def put_opaque(self, kind: Kind, identifier: ObjectId, content: bytes) -> None:
        """Place opaque bytes; small ones share a bundle."""
        described = kind is not Kind.CHUNK
        if len(content) > (FREE_BYTES if described else BUNDLE_BYTES):
            encoding, payload = choose_described(content) if described else choose_opaque(content)
            self._filler.place(Entry((Member(kind, len(content)),), encoding), payload, (identifier,))
            return
        with self._lock:
            self._bundle.append((kind, identifier, content))
            self._bundled_bytes += len(content)
            if self._bundled_bytes > BUNDLE_BYTES or len(self._bundle) == MAX_BUNDLED:
                self.flush()

    def flush(self) -> None:
        """Place the bundle that waits."""
        with self._lock:
            bundle, self._bundle, self._bundled_bytes = self._bundle, [], 0
            if not bundle:
                return
            members = tuple(Member(kind, len(content)) for kind, _, content in bundle)
            encoding, payload = choose_opaque(b"".join(content for _, _, content in bundle))
            ids = tuple(identifier for _, identifier, _ in bundle)
            self._filler.place(Entry(members, encoding), payload, ids)
