"""What both ends of an edge hold of every sample, in memory and a scratch file (docs/format/channels.md)."""

import logging
import os
import shutil
import weakref
import zlib
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mvcs.channels.quantizer import Quantizer
from mvcs.errors import CorruptionError, NotFoundError, StorageError, UsageError, some_of, whole
from mvcs.local_files import sweep, temporary_name

_logger = logging.getLogger("mvcs.channels")

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_MAGIC: Final = b"MVCSMSG1"
_RUN_BYTES: Final = 16
_CHECKSUM_BYTES: Final = 4
_CODES: Final = {2: "u1", 4: "u1", 8: "i1", 16: "<i2", 32: "<i4"}  # of `state_dict`, by bits
_BITS: Final = "use 2, 4, 8, 16 or 32"
_BEHIND: Final = 2  # calls of `write` whose bytes may wait for the disk
_LOADED: Final = 64  # samples that `load_state_dict` writes at a time
_NAMED: Final = 6


@dataclass
class _Edge:
    """The messages of one edge."""

    groups: int
    width: int
    slot: int  # bytes of a message, but for its checksum in the file
    places: dict[int, int] = field(default_factory=dict)  # in the file; ~place in memory
    # What the last two calls of `prefetch` have read.
    ahead: deque[dict[int, Bytes]] = field(default_factory=lambda: deque(maxlen=2))


class MessageStore:
    """The last message of every sample and edge, rounded to a few bits a value.

    The first messages are kept in memory, and what does not fit there in a scratch file. One thread reads
    ahead and writes behind. The file is removed by `close`, when the store is gone, or by the next store in
    the folder after a process was killed. One thread at a time may use a store.

    Args:
        folder: where the scratch file lies; it is made if it is missing.
        memory: bytes of messages that are kept in memory.
        bits: 2, 4, 8 or 16 bits a value, as `Quantizer` codes them; 32 keeps float32 as it is.
        samples: how many there will be of each edge. What they take on disk is then logged with the first
            message of an edge, and refused where the disk has less.

    Raises:
        UsageError: a setting is out of range.
        StorageError: the scratch file cannot be made.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        memory: int = 64 << 20,
        bits: int = 16,
        samples: int | None = None,
    ) -> None:
        if samples is not None:
            whole("samples", samples, "give how many there will be", least=0)
        memory = whole("memory", memory, "give a number of bytes", least=0)
        self.bits = bits = whole("bits", bits, _BITS)
        if bits not in _CODES:
            raise UsageError(f"messages cannot have {bits} bits", hint=_BITS)
        self._quantizer = None if bits == 32 else Quantizer(bits)
        try:
            self._memory = np.empty(memory, np.uint8)  # pages are taken when they are first written
        except (MemoryError, ValueError) as error:
            raise UsageError(f"memory cannot be {memory} bytes: this machine has less") from error
        self._used, self._samples = 0, samples
        # Bytes in memory and on disk that were reserved, by edge and bytes of a message.
        self._promised: dict[tuple[int, int], tuple[int, int]] = {}
        self._free: dict[int, list[int]] = {}  # places that were forgotten, by bytes of a message
        self._edges: dict[int, _Edge] = {}
        self._lock = Lock()
        self._pending: dict[int, Bytes] = {}
        self._behind: deque[Future[None]] = deque()
        self._is_full = False
        self._run = os.urandom(_RUN_BYTES)
        self._end = len(_MAGIC) + _RUN_BYTES
        self._path = Path(folder) / temporary_name()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            sweep(self._path.parent)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._remove = weakref.finalize(self, _remove, self._file, self._path)
            _write_at(self._file, _MAGIC + self._run, 0)
        except OSError as error:
            raise StorageError(f"cannot write '{self._path}': {error.strerror}") from error
        self._thread = ThreadPoolExecutor(1, "mvcs-messages")

    def seen(self, edge: int, ids: ArrayLike) -> NDArray[np.bool_]:
        """Tell of each sample id, int64 [n], whether there is a message of it.

        Raises:
            UsageError: an id is there twice, or they are no whole numbers.
        """
        places = self._edges[edge].places if edge in self._edges else {}
        return np.array([sample in places for sample in _checked(ids)], np.bool_)

    def read(self, edge: int, ids: ArrayLike) -> Floats:
        """Return the messages of some samples, float32 [n, groups, width].

        Raises:
            NotFoundError: there is none of a sample.
            CorruptionError: the scratch file was changed by somebody else, or has another run's messages.
            StorageError: it cannot be read.
            UsageError: an id is there twice, or they are no whole numbers.
        """
        kept = self._edges.get(edge) or _Edge(0, 0, 0)
        places = {sample: kept.places.get(sample) for sample in _checked(ids)}
        slots, unseen = np.empty((len(places), kept.slot), np.uint8), []
        for index, (sample, place) in enumerate(places.items()):
            if place is None:
                unseen.append(str(sample))
            else:
                slots[index] = self._slot(kept, place)
        if unseen:
            raise NotFoundError(f"edge {edge} has no message of {_named(unseen)}")
        return self._restored(slots, kept)

    def write(self, edge: int, ids: ArrayLike, values: Floats) -> None:
        """Keep messages in the place of those that were there.

        Where the disk is full, a sample that is new counts as unseen; one warning says so.

        Args:
            edge: a number of the caller's.
            ids: int64 [n], of samples.
            values: float32 [n, groups, width]; the first call settles the shape of an edge.

        Raises:
            UsageError: an id is there twice, the shape is another, or a value is not finite.
            StorageError: with `samples`, the disk has less than the messages of the edge will take.
        """
        samples = _checked(ids)
        if values.dtype != np.float32 or values.ndim != 3 or len(values) != len(samples):
            raise UsageError(f"messages cannot be {values.dtype} {list(values.shape)}", hint="see `write`")
        if not samples:
            return
        kept = self._edge(edge, *values.shape[1:])
        self._put(kept, samples, self._coded(values))

    def prefetch(self, edge: int, ids: ArrayLike) -> None:
        """Begin to read the messages of some samples; those that are in memory or unseen are passed over.

        What the last two calls for an edge have read is held until it is asked for.
        """
        samples = _checked(ids)
        if edge in self._edges:
            kept = self._edges[edge]
            places = [place for sample in samples if (place := kept.places.get(sample, -1)) >= 0]
            if places:
                self._thread.submit(self._read_ahead, kept, places)

    def reserve(self, edge: int, samples: int, groups: int, width: int) -> int:
        """Settle the shape of an edge, and return the bytes on disk that its messages will take.

        Raises:
            StorageError: the disk has less, with what was reserved for other edges.
            UsageError: the shape of the edge is another.
        """
        return self._promise(edge, samples, self._edge(edge, groups, width).slot)

    @property
    def reserved(self) -> tuple[int, int]:
        """The bytes in memory and on disk that messages will take, of all that was reserved."""
        taken = [*self._promised.values()]
        return sum(memory for memory, _ in taken), sum(disk for _, disk in taken)

    def state_dict(self) -> dict[str, Any]:
        """Return {"bits", "edges"}: of each edge three arrays of all its messages, in the order they came.

        "ids" is int64 [n], "scales" uint16 [n, groups], and "codes" [n, groups, width]: int8, int16, or the
        int32 patterns of float32. Codes of 2 and 4 bits stay packed. All are held in memory at once.

        Raises:
            CorruptionError: see `read`.
            StorageError: the scratch file cannot be read.
        """
        edges = {}
        for edge, kept in self._edges.items():
            places, head = dict(kept.places), self._scale_bytes(kept)
            scales = np.empty((len(places), head), np.uint8)
            codes = np.empty((len(places), kept.slot - head), np.uint8)
            for index, place in enumerate(places.values()):
                scales[index], codes[index] = np.split(self._slot(kept, place), [head])
            if places:
                edges[str(edge)] = {
                    "shape": [kept.groups, kept.width],
                    "ids": np.array(list(places), np.int64),
                    "scales": scales.view("<u2"),
                    "codes": codes.view(_CODES[self.bits]).reshape(
                        len(places), kept.groups, -1 if codes.size else 0
                    ),
                }
        return {"bits": self.bits, "edges": edges}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over what `state_dict` returned, in the place of all messages.

        Raises:
            UsageError: it is of another number of bits, or no such state; nothing is changed.
            CorruptionError: it has messages that no store writes; nothing is changed.
        """
        if state.get("bits") != self.bits:
            raise UsageError(f"messages of {state.get('bits')} bits do not fit a store of {self.bits} bits")
        try:
            loaded = {int(edge): self._loaded(saved) for edge, saved in state["edges"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError("this is no state of a message store", hint="see `state_dict`") from error
        self.flush()
        self._edges, self._used, self._end = {}, 0, len(_MAGIC) + _RUN_BYTES
        self._free, self._promised = {}, {}
        for edge, (shape, samples, slots) in loaded.items():
            kept = self._edge(edge, *shape)
            for at in range(0, len(samples), _LOADED):
                self._put(kept, samples[at : at + _LOADED], slots[at : at + _LOADED])

    def forget(self, edge: int, ids: ArrayLike | None = None) -> None:
        """Drop messages of an edge; after all of them, the next may have another shape.

        Messages of as many bytes take their places.

        Args:
            edge: the number of the edge.
            ids: int64 [n], of samples, seen or not; by default all.
        """
        self.flush()
        kept = self._edges.get(edge)
        if kept is None:
            return
        for sample in list(kept.places) if ids is None else _checked(ids):
            if sample in kept.places:
                self._free.setdefault(kept.slot, []).append(kept.places.pop(sample))
        if ids is None:
            del self._edges[edge]

    def flush(self) -> None:
        """Wait until all messages are in the file, or count as unseen since the disk is full."""
        self._thread.submit(lambda: None).result()
        self._behind.clear()

    def close(self) -> None:
        """End the thread and remove the scratch file."""
        self._thread.shutdown()
        self._remove()

    def _loaded(self, saved: Mapping[str, Any]) -> tuple[tuple[int, int], list[int], Bytes]:
        groups, width = (whole("a shape", size, "see `state_dict`", least=0) for size in saved["shape"])
        samples = _checked(np.asarray(saved["ids"]))
        parts = [np.ascontiguousarray(saved[name]) for name in ("scales", "codes")]
        slots = np.concatenate([part.reshape(len(samples), -1).view(np.uint8) for part in parts], axis=1)
        if slots.shape[1] != self._slot_bytes(groups, width):
            raise UsageError(f"{slots.shape[1]} bytes are no message of {groups} groups of {width} values")
        for at in range(0, len(samples), _LOADED):
            _finite(self._restored(slots[at : at + _LOADED], _Edge(groups, width, slots.shape[1])))
        return (groups, width), samples, slots

    def _edge(self, edge: int, groups: int, width: int) -> _Edge:
        kept = self._edges.get(edge)
        if kept is None:
            kept = _Edge(groups, width, self._slot_bytes(groups, width))
            if self._samples is not None:
                self._promise(edge, self._samples, kept.slot)
            self._edges[edge] = kept
        if (kept.groups, kept.width) != (groups, width):
            raise UsageError(
                f"messages of edge {edge} have {kept.groups} groups of {kept.width} values, not {groups} of"
                f" {width}"
            )
        return kept

    def _promise(self, edge: int, samples: int, slot: int) -> int:
        """Return the bytes on disk that messages of an edge will take, with those of other edges."""
        others = [promise for of, promise in self._promised.items() if of != (edge, slot)]
        left = self._memory.size - sum(taken for taken, _ in others)
        in_memory = min(samples, left // max(slot, 1))
        needed = (samples - in_memory) * (slot + _CHECKSUM_BYTES)
        total, free = needed + sum(disk for _, disk in others), shutil.disk_usage(self._path.parent).free
        if free + self._end < total:
            raise StorageError(
                f"messages need {total} bytes in '{self._path.parent}', which has {free + self._end}",
                hint="give another folder, more memory, or fewer bits",
            )
        self._promised[edge, slot] = in_memory * slot, needed
        _logger.info("messages of edge %d will take %d bytes on disk", edge, needed)
        return needed

    def _slot_bytes(self, groups: int, width: int) -> int:
        return 4 * groups * width if self._quantizer is None else self._quantizer.size(groups, width)

    def _scale_bytes(self, kept: _Edge) -> int:
        return 0 if self._quantizer is None else 2 * kept.groups

    def _coded(self, values: Floats) -> Bytes:
        """Return a slot [n, bytes] of each message [n, groups, width]: its scales, then its codes."""
        count, groups, width = values.shape
        if self._quantizer is None:
            # A copy: what waits to be written must not change with the caller's values.
            return np.array(_finite(values), order="C").reshape(count, -1).view(np.uint8)
        payload, _ = self._quantizer.encode(np.ascontiguousarray(values).reshape(count * groups, width))
        scales, codes = np.split(np.frombuffer(payload, np.uint8), [2 * count * groups])
        return np.concatenate([scales.reshape(count, -1), codes.reshape(count, -1)], axis=1)

    def _restored(self, slots: Bytes, kept: _Edge) -> Floats:
        shape = len(slots), kept.groups, kept.width
        if self._quantizer is None:
            return slots.view(np.float32).reshape(shape)
        scales, codes = np.hsplit(slots, [self._scale_bytes(kept)])
        payload = np.concatenate([scales, codes], axis=None)
        return self._quantizer.decode(payload.data, shape[0] * shape[1], shape[2]).reshape(shape)

    def _put(self, kept: _Edge, samples: Sequence[int], slots: Bytes) -> None:
        """Keep slots. A new one in the file is written at once: then a later one finds its room."""
        behind = {}
        for sample, slot in zip(samples, slots, strict=True):
            place = kept.places.get(sample)
            if place is None and (free := self._free.get(kept.slot)):
                place = kept.places[sample] = free.pop()
            if place is None and self._used + kept.slot <= self._memory.size:
                place = kept.places[sample] = ~self._used
                self._used += kept.slot
            if place is None:
                self._append(kept, sample, slot)
            elif place < 0:
                self._memory[~place : ~place + kept.slot] = slot
            else:
                behind[place] = sample, slot
        if behind:
            with self._lock:
                self._pending |= {place: slot for place, (_, slot) in behind.items()}
                for ahead in kept.ahead:
                    for place in behind:
                        ahead.pop(place, None)
            self._behind.append(self._thread.submit(self._write_behind, kept, behind))
            if len(self._behind) > _BEHIND:
                self._behind.popleft().result()

    def _append(self, kept: _Edge, sample: int, slot: Bytes) -> None:
        try:
            self._write_slot(slot, self._end)
        except OSError as error:
            self._tell_full(error)
            return
        kept.places[sample] = self._end
        self._end += kept.slot + _CHECKSUM_BYTES

    def _write_behind(self, kept: _Edge, behind: Mapping[int, tuple[int, Bytes]]) -> None:
        for place, (sample, slot) in behind.items():
            if self._pending.get(place) is not slot:
                continue  # a later one has taken its place
            try:
                self._write_slot(slot, place)
            except OSError as error:
                kept.places.pop(sample, None)
                self._tell_full(error)
            with self._lock:
                if self._pending.get(place) is slot:
                    del self._pending[place]

    def _read_ahead(self, kept: _Edge, places: Sequence[int]) -> None:
        ahead: dict[int, Bytes] = {}
        with self._lock:
            kept.ahead.append(ahead)
        for place in places:
            with suppress(CorruptionError, StorageError):  # `read` says so
                slot = self._read_slot(place, kept.slot)
                with self._lock:
                    if place not in self._pending:
                        ahead[place] = slot

    def _slot(self, kept: _Edge, place: int) -> Bytes:
        if place < 0:
            return self._memory[~place : ~place + kept.slot]
        with self._lock:
            found = self._pending.get(place)
            if found is None:
                found = next((ahead.pop(place) for ahead in kept.ahead if place in ahead), None)
        return self._read_slot(place, kept.slot) if found is None else found

    def _read_slot(self, place: int, size: int) -> Bytes:
        try:
            data = os.pread(self._file, size + _CHECKSUM_BYTES, place)
        except OSError as error:
            raise StorageError(f"cannot read '{self._path}': {error.strerror}") from error
        slot = np.frombuffer(data, np.uint8)[_CHECKSUM_BYTES:]
        if slot.size != size or data[:_CHECKSUM_BYTES] != self._checksum(slot, place):
            raise CorruptionError(
                f"the message at byte {place} of '{self._path}' is damaged, or one of another run",
                hint="resume both ends from their commits",
            )
        return slot

    def _write_slot(self, slot: Bytes, place: int) -> None:
        _write_at(self._file, self._checksum(slot, place) + slot.tobytes(), place)

    def _checksum(self, slot: Bytes, place: int) -> bytes:
        key = zlib.crc32(self._run + place.to_bytes(8, "little"))
        return zlib.crc32(slot.data, key).to_bytes(_CHECKSUM_BYTES, "little")

    def _tell_full(self, error: OSError) -> None:
        if not self._is_full:
            self._is_full = True
            _logger.warning(
                "'%s' takes no more messages (%s): their samples count as unseen",
                self._path, error.strerror,
            )  # fmt: skip


def _checked(ids: ArrayLike) -> list[int]:
    found = np.asarray(ids)
    if found.ndim != 1 or (found.size and not np.issubdtype(found.dtype, np.integer)):
        raise UsageError("ids of samples have to be whole numbers, one a sample")
    samples: list[int] = found.tolist()
    repeated = [str(sample) for sample, count in Counter(samples).items() if count > 1]
    if max(samples, default=0) >= 1 << 63:
        raise UsageError("ids of samples have to be below 2^63")
    if repeated:
        raise UsageError(f"a batch has {_named(repeated)} more than once", hint="give each sample once")
    return samples


def _finite(values: Floats) -> Floats:
    if not np.isfinite(values).all():
        raise UsageError("messages cannot have a NaN or an infinity")
    return values


def _named(samples: Sequence[str]) -> str:
    return f"samples {some_of(samples, _NAMED)}" if len(samples) > 1 else f"sample {samples[0]}"


def _write_at(file: int, data: bytes, place: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(file, view, place)
        view, place = view[count:], place + count


def _remove(file: int, path: Path) -> None:
    os.close(file)
    with suppress(OSError):
        path.unlink()
