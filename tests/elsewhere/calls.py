"""Calls of kernels, recorded while mvcs writes and reads, and what they answer here and on other machines."""

import contextlib
import functools
import hashlib
import io
import pathlib
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

import mvcs_native
from mvcs_native import _core
from tests.native.special_floats import SPECIAL

Argument = np.ndarray | int | float
NOT_CALLED = {"Gather", "buffer", "empty", "level", "levels", "release_buffers", "use_level"}
KERNELS = sorted(set(mvcs_native.__all__) - NOT_CALLED)
OF_A_KIND, LARGEST = 3, 1 << 21


@dataclass(frozen=True)
class Call:
    """A kernel and its arguments: arrays, then out arrays, and numbers as they come."""

    kernel: str
    arguments: tuple[Argument, ...]

    @property
    def kind(self) -> tuple[object, ...]:
        """What makes two calls alike: the kernel and its numbers."""
        return self.kernel, *(one for one in self.arguments if not isinstance(one, np.ndarray))

    def encoded(self) -> bytes:
        """Return the call as `driver.cpp` reads it. A matrix is an array, then its number of columns."""
        flat = list(_flat(self.arguments))
        head = bytes([len(self.kernel)]) + self.kernel.encode() + bytes([len(flat)])
        return head + b"".join(map(_encoded, flat))

    def answer(self) -> tuple[bool, list[bytes]]:
        """Return whether the kernel refuses, and the result and all arrays afterwards, as bytes."""
        arguments = [one.copy() if isinstance(one, np.ndarray) else one for one in self.arguments]
        try:
            result = getattr(_core, self.kernel)(*arguments)
        except ValueError:
            return True, []
        arrays = [one.tobytes() for one in arguments if isinstance(one, np.ndarray)]
        return False, [_result(result), *arrays]


def _flat(arguments: tuple[Argument, ...]) -> Iterator[Argument]:
    for one in arguments:
        yield one
        if isinstance(one, np.ndarray) and one.ndim == 2:
            yield one.shape[1]


def _encoded(one: Argument) -> bytes:
    if isinstance(one, np.ndarray):
        return b"a" + struct.pack("<Q", one.nbytes) + one.tobytes()
    return struct.pack("<cd", b"f", one) if isinstance(one, float) else struct.pack("<cQ", b"i", one)


def _result(value: object) -> bytes:
    if isinstance(value, tuple):
        return b"".join(map(_result, value))
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return b"" if value is None else struct.pack("<d" if isinstance(value, float) else "<q", value)


@dataclass
class Recorder:
    """Keeps calls, a few of each kind, each of them once."""

    kept: dict[tuple[object, ...], dict[bytes, Call]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, kernel: str, arguments: tuple[object, ...]) -> None:
        """Keep a call as it is before the kernel runs."""
        call = Call(kernel, tuple(map(_plain, arguments)))
        alike = self.kept[call.kind]
        if len(alike) < OF_A_KIND and sum(np.asarray(one).nbytes for one in call.arguments) <= LARGEST:
            alike.setdefault(hashlib.sha256(call.encoded()).digest(), call)

    def calls(self) -> list[Call]:
        """Return all that is kept."""
        return [call for alike in self.kept.values() for call in alike.values()]

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Keep what mvcs calls meanwhile; it is answered as ever."""
        for name in KERNELS:
            setattr(mvcs_native, name, functools.partial(self._called, name, getattr(_core, name)))
        try:
            yield
        finally:
            for name in KERNELS:
                setattr(mvcs_native, name, getattr(_core, name))

    def _called(self, name: str, kernel: Callable[..., object], *arguments: object) -> object:
        self.add(name, arguments)
        return kernel(*arguments)


def _plain(one: object) -> Argument:
    if isinstance(one, np.ndarray):
        return np.array(one)
    if isinstance(one, float | np.floating):
        return float(one)
    return bool(one) if isinstance(one, bool | np.bool_) else int(one)


def damaged(calls: list[Call]) -> Iterator[Call]:
    """Yield each call of a decoder with another bit in its payload, and without the last byte of it."""
    for call in calls:
        if call.kernel.startswith("decode_") and (size := call.arguments[0].size):
            payload = call.arguments[0].copy()
            payload[size // 2] ^= 1
            yield Call(call.kernel, (payload, *call.arguments[1:]))
            yield Call(call.kernel, (call.arguments[0][:-1].copy(), *call.arguments[1:]))


def special() -> Iterator[Call]:
    """Yield calls with values that machines differ on: NaNs, infinities, subnormals, ties, too large ones."""
    random, none = np.random.default_rng(1), np.zeros(0, np.int16)
    roots = np.concatenate([np.square(random.standard_normal(500).astype(np.float32)), SPECIAL])
    for step in (0, 203, 231, 255):
        unit = np.float32(np.ldexp(4 + step % 4, step // 4 - 60))
        ties = (np.arange(-80, 81).astype(np.float32) / 2) * unit
        large = np.array([32766.5, 32767, 32767.5, 32768, 41000, -32767.5, -32768], np.float32) * unit
        values = np.resize(np.concatenate([SPECIAL, ties, large]), roots.size)
        codes = np.resize(np.arange(-32768, 32768, 127), roots.size).astype(np.int16)
        out, floats = np.zeros(roots.size, np.int16), np.zeros(roots.size, np.float32)
        yield Call("lattice", (values, step, none, 0.0, out))
        yield Call("lattice", (values, step, codes, 0.25, out))
        yield Call("unlattice", (codes, step, floats))
        yield Call("root_lattice", (values, roots, step, out))
        yield Call("root_unlattice", (codes, roots, step, floats))
        yield Call("rescale", (codes, step, 217, out))
        yield Call("log_lattice", (values, 16 + step % 9, none, none, 7, 3, out))
        yield Call("log_unlattice", (codes, 16 + step % 9, none, none, 7, 3, floats))
    yield Call("root_signs", (values, roots, out))
    yield Call("root_sums", (values, roots))
    yield Call("error_sums", (values, roots))
    yield Call("progress_sums", (values, roots, values[::-1].copy()))
    yield Call("assign", (values, np.sort(roots[:200]), np.zeros(values.size, np.uint8)))


def every_width() -> Iterator[Call]:
    """Yield calls of the exact coders for words of each width: content alone, and near a base."""
    random = np.random.default_rng(3)
    for width, floating in ((1, False), (2, False), (2, True), (4, False), (4, True), (8, False), (8, True)):
        base = random.normal(40 << 8 * (width - 1), 1 << 7 * (width - 1), 3000).astype(f"<u{width}")
        moved = base + random.integers(-3, 9, base.size).astype(base.dtype)
        moved[::100] = random.integers(0, 256, moved[::100].nbytes, np.uint8).view(moved.dtype)
        near, content = base.view(np.uint8), moved.view(np.uint8)
        alone = Call("encode_planes", (content, width, floating))
        by_base = Call("encode_residual", (content, near, width, floating))
        out = np.zeros_like(content)
        yield from (alone, by_base)
        yield Call("decode_planes", (_payload(alone), width, floating, out))
        yield Call("decode_residual", (_payload(by_base), near, width, floating, out))


def groups() -> Iterator[Call]:
    """Yield calls on groups of values in codes of each width."""
    values = np.random.default_rng(4).standard_normal(3 * 300).astype(np.float32)
    out = np.zeros_like(values)
    for bits in (1, 2, 3, 4, 5, 6, 7, 8, 16):
        scales, packed = np.zeros(3, np.uint16), np.zeros(3 * -(-300 * bits // 8), np.uint8)
        quantized = Call("quantize_groups", (values, 300, bits, bits == 4, 7, scales, packed, out))
        yield quantized
        found = quantized.answer()[1]
        scales, packed = np.frombuffer(found[2], np.uint16), np.frombuffer(found[3], np.uint8)
        yield Call("restore_groups", (scales, packed, 300, bits, out))
        yield Call("unpack_groups", (packed, 3, 300, bits, np.zeros(values.size, np.int8)))
        yield Call("pack_groups", (np.ones(values.size, np.int8), 3, 300, bits, np.zeros_like(packed)))
    yield Call(
        "quantize_groups", (np.resize(SPECIAL, 300), 300, 4, False, 0, scales[:1], packed[:150], out[:300])
    )
    yield Call("mark_largest", (np.round(values, 1), 300, 60, np.zeros(values.size, np.bool_)))


def _payload(call: Call) -> np.ndarray:
    return np.frombuffer(call.answer()[1][0], np.uint8)


def products() -> Iterator[Call]:
    """Yield calls that add products up, which a machine that fuses the two would answer otherwise."""
    random = np.random.default_rng(2)

    def floats(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    values, rows, cols = floats(37, 53), floats(37, 32), floats(53, 32)
    yield Call("times_columns", (values, cols, np.zeros_like(rows)))
    yield Call("times_rows", (values, rows, np.zeros_like(cols)))
    yield Call("less_product", (values, rows, cols.T.copy()))
    square = (rows.T @ rows).astype(np.float64)
    yield Call("spectrum", (square.reshape(-1), np.zeros(len(square))))
    one, two, three = (floats(5000) for _ in range(3))
    yield Call("error_sums", (one, two))
    yield Call("progress_sums", (one, two, three))
    yield Call("root_sums", (one, np.square(two)))


def written(calls: list[Call], place: pathlib.Path) -> None:
    """Write calls into a file for `driver.cpp`."""
    place.write_bytes(b"".join(call.encoded() for call in calls))


def answered(calls: list[Call], place: pathlib.Path) -> list[tuple[bool, list[bytes]]]:
    """Return what `driver.cpp` answered, as `Call.answer` does."""
    stream = io.BytesIO(place.read_bytes())
    answers = []
    for call in calls:
        refused = stream.read(1) == b"\1"
        arrays = 1 + sum(isinstance(one, np.ndarray) for one in call.arguments)
        parts = [stream.read(int.from_bytes(stream.read(8), "little")) for _ in range(arrays)]
        answers.append((refused, [] if refused else parts))
    assert not stream.read()
    return answers
