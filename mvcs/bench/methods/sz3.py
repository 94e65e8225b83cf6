"""SZ3, a compressor of floats with a bound on the error of every value, on weights and on what they moved.

"SZ3: A Modular Framework for Composing Prediction-Based Error-Bounded Lossy Compressors" (IEEE Transactions
on Big Data 2023), by its package pysz, at its usual predictor. A constant tensor, or one that moved nowhere,
is one value. Payloads have a checksum, for the library may crash on damaged bytes.
"""

import importlib
from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from mvcs.bench.methods.coding import sealed, unsealed
from mvcs.bench.methods.method import (
    Floats,
    Method,
    Needs,
    Restored,
    Setting,
    Shapes,
    State,
    Tensors,
    before,
    narrowed,
    shapes_of,
)

_MOST_DIMENSIONS = 4


class SZ3(Method):
    """SZ3 of each tensor; the bound is a share of its range."""

    name = "sz3"
    paper = "SZ3 (its package pysz), relative bound on weights"
    package = "pysz"
    chain = "none"
    axes: ClassVar = {"bound": (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)}

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return a stream of each tensor, or its one value."""
        bases = self.bases(state, shapes_of(tensors))
        parts = [
            narrowed(tensor.astype(np.float64) - bases[name]) if name in bases else tensor
            for name, tensor in tensors.items()
        ]
        return sealed([self._stream(part, float(setting["bound"])) for part in parts])

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return what the streams hold, with the tensors before where it is what moved."""
        bases = self.bases(state, shapes)
        found = dict[str, Floats]()
        for (name, shape), stream in zip(shapes.items(), unsealed(sections), strict=True):
            part = _values(stream, shape)
            found[name] = narrowed(bases[name] + part.astype(np.float64)) if name in bases else part
        return found, {"restored": found}

    def bases(self, state: State | None, shapes: Shapes) -> Tensors:
        """Return what each tensor is coded near; none."""
        return {}

    def limit(self, part: Floats, bound: float) -> float:
        """Return the largest error of a value."""
        return bound * (float(part.max()) - float(part.min()))

    def _stream(self, part: Floats, bound: float) -> bytes:
        if not part.size or part.min() == part.max():
            return part.ravel()[:1].astype("<f4").tobytes()
        sz = importlib.import_module("pysz")
        config = sz.szConfig()
        config.errorBoundMode = sz.szErrorBoundMode.ABS
        config.absErrorBound = self.limit(part, bound)
        flat = part.reshape(part.shape if part.ndim <= _MOST_DIMENSIONS else (part.shape[0], -1))
        return bytes(sz.sz.compress(np.ascontiguousarray(flat, np.float32), config)[0])


class SZ3Delta(SZ3):
    """SZ3 of what each tensor moved from the restored one before, with one bound for all."""

    name = "sz3-delta"
    paper = "SZ3 (its package pysz), absolute bound on differences, closed loop"
    differs = "a tensor that the checkpoint before does not have moved from 0"
    chain = "all"
    axes: ClassVar = {"bound": (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)}

    def bases(self, state: State | None, shapes: Shapes) -> Tensors:
        """Return the restored tensors before."""
        return {name: base for name, base in before(state, "restored", shapes) if base is not None}

    def limit(self, part: Floats, bound: float) -> float:
        """Return the largest error of a value."""
        return bound


def _values(stream: bytes, shape: tuple[int, ...]) -> Floats:
    if len(stream) <= np.dtype(np.float32).itemsize:
        return np.full(shape, np.frombuffer(stream, "<f4")[0] if prod(shape) else 0, np.float32)
    flat = shape if len(shape) <= _MOST_DIMENSIONS else (shape[0], prod(shape[1:]))
    sz = importlib.import_module("pysz").sz
    found = sz.decompress(np.frombuffer(stream, np.uint8), np.float32, flat)[0]
    return np.asarray(found, np.float32).reshape(shape)
