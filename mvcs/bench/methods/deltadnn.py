"""Delta-DNN: differences in whole steps of one error bound for the net, in LZMA.

"Delta-DNN: Efficiently Compressing Deep Neural Networks via Exploiting Floats Similarity" (ICPP 2020): the
difference and its quantization, and the lossless coding of what comes out.
"""

import struct
from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mvcs.bench.methods.coding import compressed, decompressed
from mvcs.bench.methods.method import (
    Method,
    Needs,
    Restored,
    Setting,
    Shapes,
    State,
    Tensors,
    before,
    floats_of,
    joined,
    narrowed,
    shapes_of,
    split,
)

_WIDTHS = (1, 2, 4)
_RAW = 0
_LONGEST_RUN = 255
Bytes = NDArray[np.uint8]


class DeltaDNN(Method):
    """Delta-DNN: `M = floor(d / 2 ln(1 + e) + 0.5)`, and each M in as many whole bytes as its tensor needs.

    A constant difference is one M for all values. A tensor in which an M has more than 32 bits is raw.
    """

    name = "deltadnn"
    paper = "Delta-DNN (ICPP 2020), its differences of versions and their error-bounded quantization"
    differs = (
        "differences are from what was restored; a tensor that has no other before it is a difference from 0;"
        " zero runs are tried where they halve the bytes; the error bound is found by the acceptance rule of"
        " all methods, not by the paper's score"
    )
    axes: ClassVar = {
        "error": (0.1, 0.05, 0.02, 0.01, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5, 1e-5),
    }

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return the error bound, the bytes of each tensor's M, raw tensors, and all M.

        The error bound comes with the length of what LZMA was given, where this was zero runs of the M,
        and 0 otherwise.
        """
        step = _step(float(setting["error"]))
        steps, widths = list[bytes](), list[int]()
        shapes = shapes_of(tensors)
        for tensor, (_, base) in zip(tensors.values(), before(state, "restored", shapes), strict=True):
            moved = np.floor((tensor.astype(np.float64) - (0 if base is None else base)) / step + 0.5)
            most = np.abs(moved).max(initial=0)
            width = next((width for width in _WIDTHS if most < 2 ** (8 * width - 1)), _RAW)
            widths.append(width)
            steps.append(moved.astype(f"<i{width}").tobytes() if width else b"")
        raw = joined(
            {name: tensor for width, (name, tensor) in zip(widths, tensors.items(), strict=True) if not width}
        )
        whole = b"".join(steps)
        short = zero_runs(np.frombuffer(whole, np.uint8))
        size, coded = min(
            (0, compressed(whole)), (len(short), compressed(short)), key=lambda one: len(one[1])
        )
        head = struct.pack("<dQ", float(setting["error"]), size)
        return [head, bytes(widths), raw.astype("<f4").tobytes(), coded]

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return the tensors before and 2 M ln(1 + e)."""
        head, widths, raw, coded = sections
        error, size = struct.unpack("<dQ", head)
        if len(widths) != len(shapes) or not {*widths} <= {_RAW, *_WIDTHS} or not 0 < error <= 1:
            raise ValueError("the error bound or a width is out of range")
        lengths = {
            name: (width * prod(shape),) for width, (name, shape) in zip(widths, shapes.items(), strict=True)
        }
        total = sum(length for (length,) in lengths.values())
        if size > total:
            raise ValueError("the runs are longer than what they are of")
        data = decompressed(coded, size or total)
        whole = of_zero_runs(np.frombuffer(data, np.uint8), total) if size else np.frombuffer(data, np.uint8)
        steps = split(whole, lengths)
        raws = {name: shapes[name] for width, name in zip(widths, shapes, strict=True) if width == _RAW}
        found = floats_of(raw, raws)
        for width, (name, base) in zip(widths, before(state, "restored", shapes), strict=True):
            if width:
                moved = np.frombuffer(steps[name].tobytes(), f"<i{width}").reshape(shapes[name])
                found[name] = narrowed((0 if base is None else base) + moved * _step(error))
        return found, {"restored": found}


def zero_runs(data: Bytes) -> bytes:
    """Return bytes with each run of at most 255 zeros as a zero and its length."""
    zeros = np.flatnonzero(data == 0)
    firsts = np.flatnonzero(np.diff(zeros, prepend=-2) != 1)
    places = np.arange(zeros.size) - np.repeat(firsts, np.diff(np.r_[firsts, zeros.size]))
    starts = np.flatnonzero(places % _LONGEST_RUN == 0)
    kept = data != 0
    kept[zeros[starts]] = True
    short = data[kept]
    return np.insert(short, np.flatnonzero(short == 0) + 1, np.diff(np.r_[starts, zeros.size])).tobytes()


def of_zero_runs(short: Bytes, size: int) -> Bytes:
    """Return the `size` bytes that `zero_runs` was given.

    Raises:
        ValueError: it was given others.
    """
    zeros = np.flatnonzero(short == 0)
    lengths = np.append(short, np.uint8(0))[zeros + 1]
    if not lengths.all():
        raise ValueError("a run has no length")
    counts = np.ones(short.size, np.int64)
    counts[zeros] = lengths
    counts[zeros + 1] = 0
    if counts.sum() != size:
        raise ValueError(f"runs of {counts.sum()} bytes instead of {size}")
    return np.repeat(short, counts)


def _step(error: float) -> float:
    return 2 * float(np.log1p(error))
