"""A restore that is gone through without reading a chunk: what it would read, and in which order.

Footers and descriptions are read. Of a chunk's entry the footer tells how long it is, as it lies and decoded.
What stays in memory of decoded entries, and what leaves it, follows from lengths alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

from mvcs.delta import Content, Encoding
from mvcs.memory import Budget, Use
from mvcs.objects import Kind, Leaf, ObjectId, QuantizedTensor
from mvcs.store.backend import Backend
from mvcs.store.backend.counted import Counted
from mvcs.store.packs.entry import Entry
from mvcs.store.reading.decoded_entries import DecodedEntries
from mvcs.store.reading.located import ChunkPlace, Located, Run
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.restore_cost import RestoreCost

if TYPE_CHECKING:
    from mvcs.quantize import Rehearsal


@dataclass
class _Tally:
    """What was decoded, or would have been; and whether chunks are skipped from here on."""

    skips: bool = True
    entries: int = 0
    members: int = 0
    objects: int = 0
    decoded: Counter[Encoding] = field(default_factory=Counter)


class UnreadStore(ObjectStore):
    """A view of a store in which every chunk has its length and no content; what is read is counted.

    Whoever plans a restore asks this view for what that will ask for, in the same order.
    """

    def __init__(self, backend: Backend, memory: Budget | None = None) -> None:
        """Look at `backend`; one that counts already goes on counting."""
        self.counted = backend if isinstance(backend, Counted) else Counted(backend)
        super().__init__(self.counted, memory)
        self._tally = _Tally()
        self._entries = _UnreadEntries(
            self.counted, self.catalog, self.verification, self.base_values, self.memory, self._tally
        )

    @contextmanager
    def in_full(self) -> Iterator[None]:
        """Read chunks as other views do meanwhile; what stays in memory of them is not read again later."""
        self._tally.skips = False
        try:
            yield
        finally:
            self._tally.skips = True

    @property
    def cost(self) -> RestoreCost:
        """What was read so far, and what reading would have taken; without a depth."""
        tally, counted = self._tally, self.counted
        numbers = counted.requests, counted.bytes, tally.entries, tally.members, tally.objects
        return RestoreCost(*numbers, dict(tally.decoded))

    @cached_property
    def _rehearsal(self) -> "Rehearsal":
        from mvcs.quantize import Rehearsal

        return Rehearsal(self._unproven_chunk, self.memory.hold(Use.CACHES).resize)

    def _unproven_chunk(self, identifier: ObjectId) -> Content:
        self._tally.objects += 1
        return super()._unproven_chunk(identifier)

    def restored_chunk(self, tensor: QuantizedTensor, index: int, into: memoryview | None = None) -> Content:
        """Go through what one chunk of a quantized tensor is restored from."""
        if not self._tally.skips:
            return super().restored_chunk(tensor, index, into)
        return self._rehearsal.restore(tensor, index)

    def read_copy(self, kind: Kind, identifier: ObjectId, located: Located) -> Content:
        """Return a description as it is, verified; of a chunk only its length."""
        if kind is Kind.CHUNK and self._tally.skips:
            self._tally.objects += 1
            return self._entries.member(located)
        return super().read_copy(kind, identifier, located)

    def depth(self, leaf: Leaf, *, exact: bool = False) -> int:
        """Return the longest chain of deltas behind a leaf."""
        tensor = leaf.handed_over if exact else leaf.tensor
        located = (self.catalog.locate(chunk, exact=exact) for chunk in tensor.chunk_ids())
        return max(map(self.catalog.depth_of, located), default=0)


@dataclass(frozen=True)
class _UnreadEntries(DecodedEntries):
    """Entries of chunks that are counted instead of read."""

    tally: _Tally

    def _decoded(
        self,
        located: Located,
        runs: Sequence[Run],
        held: Mapping[ChunkPlace, Content],
        payload: Callable[[], memoryview],
        *,
        overwrite: bool,
    ) -> Content:
        entry = located.placed.entry
        self.tally.entries += 1
        self.tally.members += len(entry.members)
        self.tally.decoded[entry.encoding] += entry.raw_bytes
        if not self.tally.skips or not _of_chunks(entry):
            return super()._decoded(located, runs, held, payload, overwrite=overwrite)
        cast("Counted", self.backend).count(located.placed.length)
        for base in entry.bases:
            if base.chunk is not None:
                self.restored(base.id, base.chunk, located.pack)
        return cast("bytes", range(entry.raw_bytes))


def _of_chunks(entry: Entry) -> bool:
    return all(member.kind is Kind.CHUNK for member in set(entry.members))
