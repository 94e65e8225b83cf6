"""Packs of one layer of one commit as they fill up: entries go in, whole packs go out."""

import secrets
import time
from threading import RLock

from mvcs.delta.encoding import Encoding
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects.ids import Kind, ObjectId, file_name, object_id
from mvcs.store.basing import Basing, RestoreLimits
from mvcs.store.catalog import pack_path
from mvcs.store.entry import Base, Entry, Member, framed_bytes
from mvcs.store.footer import Tail, Written
from mvcs.store.objects import ObjectStore
from mvcs.store.pack import PackBuilder

SALT_BYTES = 16


class Filling:
    """Fills packs with entries and writes each when it is full. Safe to use from several threads."""

    def __init__(self, store: ObjectStore, limits: RestoreLimits, *, exact: bool) -> None:
        """Write into `store`; `exact` selects packs of their own."""
        self._store = store
        self._exact = exact
        self._builder = PackBuilder()
        self._lock = RLock()
        self.basing = Basing(store.catalog, limits, exact)
        self.packs: list[str] = []
        self.stored_bytes = 0
        self.write_seconds = 0.0

    def holds(self, identifier: ObjectId) -> bool:
        """Tell whether the store has an object that this layer may lean on; then it does."""
        with self._lock:
            if self._exact or self._store.catalog.find(identifier) is None:
                return False
            try:
                self.basing.lean_on([identifier])
            except (CorruptionError, NotFoundError):
                return False  # a base of it is gone: it is written again
            return True

    def usable(self, base: Base, encoding: Encoding, length: int) -> bool:
        """Tell whether a content of that length may be stored near a base."""
        with self._lock:
            return self.basing.usable(base, encoding, length)

    def affordable(self, entry: Entry, payload: bytes) -> bool:
        """Tell whether reading an entry back with all its bases stays within the limits."""
        with self._lock:
            return self.basing.affordable(entry.bases, framed_bytes(entry, payload))

    def place(self, entry: Entry, payload: bytes, ids: tuple[ObjectId, ...]) -> None:
        """Put an entry into the pack that is being filled."""
        with self._lock:
            if not self._builder.fits(len(payload)):
                self._write()
            self.basing.lean_on(entry.base_ids, deltas=1)
            self.basing.placed(self._builder.add(entry, payload, ids), ids)

    def finish(self, commits: tuple[Written, ...]) -> str | None:
        """Write the last pack and return its name; None when there is nothing to write."""
        with self._lock:
            if not self._builder.entries and not commits:
                return None
            own = tuple(self.packs)
            return self._write(commits, tuple(sorted(self.basing.reach.difference(own))), own)

    def _write(
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
        self.basing.written(name)
        self.packs.append(name)
        self.stored_bytes += len(data)
        return name

    def _salt(self) -> None:
        """Make the pack unlike any other, so that dropping one commit's layer leaves an equal commit's."""
        salt = secrets.token_bytes(SALT_BYTES)
        entry = Entry((Member(Kind.CHUNK, SALT_BYTES),), Encoding.RAW)
        self._builder.add(entry, salt, (object_id(Kind.CHUNK, salt),))
