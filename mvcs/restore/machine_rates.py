"""A short measurement of this machine and one store: how quickly contents are read, decoded and restored."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import TypeVar

import numpy as np

from mvcs.delta import Buffer, Content, ElementFormat, Encoding, decode, encode
from mvcs.errors import MvcsError
from mvcs.objects import Kind, Leaf, object_id
from mvcs.progress import SILENT
from mvcs.quantize import lattice_values, nearest_step
from mvcs.restore.open_commit import Reading, open_reading
from mvcs.store import (
    EXACT_FOLDER,
    VALUE_FOLDER,
    Backend,
    ObjectStore,
    RestoreRates,
    UnreadStore,
)

_ELEMENTS = 1 << 20
_CODES, _FLOATS = ElementFormat(2, floating=False), ElementFormat(4, floating=True)
_NARROW, _BYTES = ElementFormat(2, floating=True), ElementFormat(1, floating=False)
_REQUESTS, _SHORT, _LONG = 9, 4096, 4 << 20
_SAMPLE_SECONDS = 0.7
_RANGE_SECONDS = 3e-4
_LEAST, _MOST = 2e-5, 1e-2
_FASTEST = 1e12
_View = TypeVar("_View", bound=ObjectStore)


def measure_rates(backend: Backend, reading: Reading | None) -> RestoreRates:
    """Measure for about two seconds; nothing is written.

    Args:
        backend: the store.
        reading: a commit of it, of which some tensors are restored; None where there is none.
    """
    request, speed = _reading_rates(backend)
    rates = RestoreRates(request, speed, _RANGE_SECONDS, _decoding_rates(), _restoring_rate())
    return rates if reading is None else _fitted(rates, reading)


def _seconds(work: Callable[[], object], times: int = 3) -> float:
    """Return the least time that something takes."""
    found = []
    for _ in range(times):
        start = perf_counter()
        work()
        found.append(perf_counter() - start)
    return max(min(found), 1e-7)


def _samples() -> dict[Encoding, tuple[bytes, ElementFormat, bytes | None, int | None]]:
    """Return what is decoded to measure each encoding: like codes and weights of a run, and those before."""
    random = np.random.default_rng(0)
    codes = np.round(random.normal(0, 6, _ELEMENTS)).astype("<i2")
    moved = codes + (random.random(_ELEMENTS) < 0.1).astype("<i2")
    floats = random.normal(0, 1, _ELEMENTS).astype("<f4")
    near = (floats + random.normal(0, 1e-3, _ELEMENTS)).astype("<f4")
    small = np.clip(codes + 16, 0, 31).astype(np.uint8)
    beside = np.clip(small + (random.random(_ELEMENTS) < 0.1), 0, 31).astype(np.uint8)
    half = floats.astype("<f2")
    return {
        Encoding.RAW: (floats.tobytes(), _FLOATS, None, None),
        Encoding.ZSTD: (small.tobytes(), _BYTES, None, None),
        Encoding.CODES: (small.tobytes(), _BYTES, None, 32),
        Encoding.DELTA: (beside.tobytes(), _BYTES, small.tobytes(), 32),
        Encoding.RANS_CODES: (codes.tobytes(), _CODES, None, None),
        Encoding.RANS_DELTA: (moved.tobytes(), _CODES, codes.tobytes(), None),
        Encoding.RANS_RESIDUAL: (near.tobytes(), _FLOATS, floats.tobytes(), None),
        Encoding.RANS_PLANES: (floats.tobytes(), _FLOATS, None, None),
        Encoding.ZSTD_DELTA: (beside.tobytes(), _BYTES, small.tobytes(), None),
        Encoding.NARROWED: (half.tobytes(), _NARROW, floats.tobytes(), None),
    }


def _decoding_rates() -> dict[Encoding, float]:
    rates = {}
    for encoding, (content, element, base, levels) in _samples().items():
        payload = encode(encoding, content, element=element, base=base, levels=levels)
        size = len(content)

        def work(
            encoding: Encoding = encoding,
            payload: Buffer = payload,
            size: int = size,
            element: ElementFormat = element,
            base: bytes | None = base,
        ) -> Content:
            return decode(encoding, payload, lengths=[size], element=element, base=base)

        rates[encoding] = min(size / _seconds(work), _FASTEST)
    return rates


def _restoring_rate() -> float:
    """Return how many bytes of values are made of codes, hashed and copied in a second."""
    codes, step = np.zeros(_ELEMENTS, "<i2"), nearest_step(0.01)
    memory = bytearray(4 * _ELEMENTS)

    def work() -> None:
        values = lattice_values(codes, step)
        content = values.view(np.uint8).data
        object_id(Kind.CHUNK, content)
        memory[:] = content

    return len(memory) / _seconds(work)


def _reading_rates(backend: Backend) -> tuple[float, float]:
    """Return the time of a short read, and bytes in a second of a long one."""
    sizes = backend.sizes(VALUE_FOLDER) or backend.sizes(EXACT_FOLDER)
    if not sizes:
        return _RANGE_SECONDS, 1e9
    name = max(sizes, key=lambda path: sizes[path])
    short, long = min(_SHORT, sizes[name]), min(_LONG, sizes[name])
    steps = (number * (sizes[name] - short) // _REQUESTS for number in range(_REQUESTS))
    request = median(_seconds(lambda at=step: backend.read(name, at, short), 1) for step in steps)  # type: ignore[misc]  # a default holds the step
    whole = _seconds(lambda: backend.read(name, 0, long), 2)
    return request, long / max(whole - request, whole / 10)


def _fitted(rates: RestoreRates, reading: Reading) -> RestoreRates:
    """Return rates whose time for each range explains what some tensors of a commit take."""
    with suppress(MvcsError):
        _restored(reading, reading.tree.leaves[:1])  # what is loaded when it is first needed is not counted
        leaves = reading.tree.leaves[: _restored(reading, reading.tree.leaves)[0]]
        unread = _opened(UnreadStore, reading)
        for leaf in leaves:
            deque(unread.chunks(leaf), maxlen=0)
        cost = unread.cost
        took = min(_restored(reading, leaves)[1] for _ in range(2))
        raw = sum(leaf.raw_bytes for leaf in leaves)
        rest = took - cost.seconds(replace(rates, range_seconds=0.0), raw)
        if cost.requests:
            return replace(rates, range_seconds=min(max(rest / cost.requests, _LEAST), _MOST))
    return rates


def _opened(view: type[_View], reading: Reading) -> _View:
    store = view(reading.store.backend, reading.store.memory)
    open_reading(store, reading.revision, SILENT)
    return store


def _restored(reading: Reading, leaves: Sequence[Leaf]) -> tuple[int, float]:
    """Restore leaves until time is up; return how many, and the seconds."""
    start = perf_counter()
    store = _opened(ObjectStore, reading)
    for number, leaf in enumerate(leaves, 1):
        deque(store.chunks(leaf), maxlen=0)
        if perf_counter() - start > _SAMPLE_SECONDS:
            return number, perf_counter() - start
    return len(leaves), perf_counter() - start
