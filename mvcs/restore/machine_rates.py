"""A short measurement of this machine and one store: how quickly contents are read, decoded and restored."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

import numpy as np

from mvcs.delta import Buffer, Content, ElementFormat, Encoding, decode, encode
from mvcs.errors import MvcsError
from mvcs.objects import Kind, object_id
from mvcs.progress import SILENT
from mvcs.quantize import lattice_values, nearest_step
from mvcs.restore.open_commit import Reading, open_reading
from mvcs.store import (
    EXACT_FOLDER,
    VALUE_FOLDER,
    Backend,
    ObjectStore,
    RestoreCost,
    RestoreRates,
    UnreadStore,
)

_ELEMENTS = 1 << 20
_CODES, _FLOATS = ElementFormat(2, floating=False), ElementFormat(4, floating=True)
_NARROW, _BYTES = ElementFormat(2, floating=True), ElementFormat(1, floating=False)
_REQUESTS, _SHORT, _LONG = 9, 4096, 4 << 20
_SAMPLE_SECONDS = 0.7
_USUAL_RANGE, _USUAL_OBJECT = 3e-4, 1e-4
_LEAST, _MOST = 1e-6, 1e-2
_MOST_OFF = 5.0
_FASTEST = 1e12
_View = TypeVar("_View", bound=ObjectStore)


def measure_rates(backend: Backend, reading: Reading | None) -> RestoreRates:
    """Measure for about two seconds; nothing is written.

    Time that the processor gives to others does not count, but for what comes across a network.

    Args:
        backend: the store.
        reading: a commit of it, of which some tensors are restored; None where there is none.
    """
    request, speed = _reading_rates(backend)
    usual = _USUAL_RANGE, _USUAL_OBJECT
    rates = RestoreRates(request, speed, *usual, _decoding_rates(), _restoring_rate())
    return rates if reading is None else _fitted(rates, reading)


def _seconds(work: Callable[[], object], times: int = 3, clock: Callable[[], float] = perf_counter) -> float:
    """Return the least time that something takes."""
    found = []
    for _ in range(times):
        start = clock()
        work()
        found.append(clock() - start)
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

        rates[encoding] = min(size / _seconds(work, clock=process_time), _FASTEST)
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

    return len(memory) / _seconds(work, clock=process_time)


def _reading_rates(backend: Backend) -> tuple[float, float]:
    """Return the time of a short read, and bytes in a second of a long one."""
    sizes = backend.sizes(VALUE_FOLDER) or backend.sizes(EXACT_FOLDER)
    if not sizes:
        return _USUAL_RANGE, 1e9
    name = max(sizes, key=lambda path: sizes[path])
    short, long = min(_SHORT, sizes[name]), min(_LONG, sizes[name])
    steps = (number * (sizes[name] - short) // _REQUESTS for number in range(_REQUESTS))
    request = median(_seconds(lambda at=step: backend.read(name, at, short), 1) for step in steps)  # type: ignore[misc]  # a default holds the step
    whole = _seconds(lambda: backend.read(name, 0, long), 2)
    return request, long / max(whole - request, whole / 10)


def _fitted(rates: RestoreRates, reading: Reading) -> RestoreRates:
    """Return rates that explain what opening a commit takes, and restoring some of its tensors."""
    with suppress(MvcsError):
        times = _restored(reading)  # what is loaded when it is first needed does not count
        times = [min(pair) for pair in zip(times, _restored(reading), strict=False)]
        costs = _planned(reading, len(times) - 1)
        none = replace(rates, range_seconds=0.0, object_seconds=0.0)
        rest = times[0] - costs[0].seconds(none)
        rates = replace(none, range_seconds=_bounded(rest / max(costs[0].requests, 1)))
        sizes = [leaf.raw_bytes for leaf in reading.tree.leaves]
        shares = zip(times[1:], sizes, strict=False)  # what values take to be made is not in question
        left = [max(time - size / rates.restored_bytes, _LEAST) for time, size in shares]
        told = [cost.seconds(rates) for cost in costs[1:]]
        rates = _explaining(rates, left, told, [cost.handled for cost in costs[1:]])
    return rates


def _explaining(
    rates: RestoreRates, times: Sequence[float], told: Sequence[float], handled: Sequence[float]
) -> RestoreRates:
    """Return rates by which some reads take what they took.

    Args:
        rates: by which they would take less or more, and nothing for chunks as such.
        times: what each took, in seconds.
        told: what it would have taken.
        handled: chunks that it handled.
    """
    if not times:
        return replace(rates, object_seconds=_USUAL_OBJECT)
    weights = 1 / np.sqrt(np.maximum(times, _LEAST))
    columns = np.stack([told, handled], axis=1) * weights[:, None]
    (slower, each), *_ = np.linalg.lstsq(columns, np.asarray(times) * weights, rcond=None)
    slower = min(max(float(slower), 1 / _MOST_OFF), _MOST_OFF)
    rest = sum(times) - slower * sum(told)
    each = _bounded(float(each) if each > 0 else rest / max(sum(handled), 1))
    decoded = {encoding: rate / slower for encoding, rate in rates.decoded_bytes.items()}
    return replace(rates, object_seconds=each, decoded_bytes=decoded)


def _bounded(seconds: float) -> float:
    return min(max(seconds, _LEAST), _MOST)


def _planned(reading: Reading, count: int) -> list[RestoreCost]:
    """Return what opening the commit takes, and then each of its first leaves."""
    store = _opened(UnreadStore, reading)
    costs = [store.cost]
    for leaf in reading.tree.leaves[:count]:
        before = store.cost
        deque(store.chunks(leaf), maxlen=0)
        costs.append(store.cost.since(before, 0))
    return costs


def _restored(reading: Reading) -> list[float]:
    """Return the seconds of opening a commit, and of restoring one leaf after another until time is up."""
    clock = process_time if reading.store.backend.near else perf_counter
    times = [clock()]
    store = _opened(ObjectStore, reading)
    times.append(clock())
    for leaf in reading.tree.leaves:
        deque(store.chunks(leaf), maxlen=0)
        times.append(clock())
        if times[-1] - times[1] > _SAMPLE_SECONDS:
            break
    return [later - earlier for earlier, later in pairwise(times)]


def _opened(view: type[_View], reading: Reading) -> _View:
    store = view(reading.store.backend, reading.store.memory)
    open_reading(store, reading.revision, SILENT)
    return store
