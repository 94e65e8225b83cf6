"""Which quantizers are compared, and their codes for all weights of a checkpoint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mvcs.bench.trajectory import TensorClass
from mvcs.delta.buffers import Bytes
from mvcs.quantize import (
    ErrorSums,
    KMeansConfig,
    Sketch,
    dequantize,
    fit,
    from_float32,
    measure,
    quantize,
    to_float32,
)
from mvcs.quantize.values import Floats


@dataclass(frozen=True)
class CodedTensor:
    """One tensor's codes.

    Attributes:
        codes: one or two bytes a value.
        levels: for one-byte codes: more than every code.
        restore: gives the values that the codes stand for, as float32.
        step: the distance of two neighbours on a lattice; None for a table.
        step_byte: that step as format 1 has it.
    """

    codes: Bytes = field(repr=False)
    levels: int
    restore: Callable[[], Floats] = field(repr=False)
    step: float | None = None
    step_byte: int | None = None


Coded = Mapping[str, CodedTensor]


class Quantizer(Protocol):
    """Turns the weights of a checkpoint into codes."""

    @property
    def name(self) -> str:
        """What a table calls it."""
        ...

    @property
    def width(self) -> int:
        """Bytes of a code."""
        ...

    @property
    def remembers(self) -> bool:
        """Whether codes depend on those of the checkpoint before."""
        ...

    def code(self, weights: TensorClass, before: Coded | None) -> Coded:
        """Return the codes of every tensor by its path."""
        ...


@dataclass(frozen=True)
class KMeans:
    """A table of values for each tensor, by exact one-dimensional k-means."""

    config: KMeansConfig
    width: int = 1
    remembers: bool = False

    @property
    def name(self) -> str:
        """What a table calls it."""
        return f"k-means, {self.config.bins} values"

    def code(self, weights: TensorClass, before: Coded | None) -> Coded:  # noqa: ARG002  # it remembers nothing
        """Fit a table to every tensor, and give every value the nearest of its table."""
        dtype = weights.dtype.name
        return {path: self._coded(tensor.content, dtype) for path, tensor in weights.tensors.items()}

    def _coded(self, content: Bytes, dtype: str) -> CodedTensor:
        values = to_float32(content, dtype)
        sketch = Sketch()
        sketch.add(values)
        codebook = fit(sketch, self.config, dtype=dtype)
        found = quantize(values, codebook, 0.0, float("inf"))
        table, exact = from_float32(codebook.table, "float32"), values[found.exceptions].tobytes()

        def restore() -> Floats:
            raw = dequantize(found.codes, table, 4, found.exceptions, exact)
            return to_float32(raw, "float32")

        return CodedTensor(found.codes, codebook.levels, restore)


def quantizers() -> tuple[Quantizer, ...]:
    """Return the quantizers that are compared."""
    return (KMeans(KMeansConfig(bins=16)),)


@dataclass(frozen=True)
class Error:
    """What quantization did to the weights of a checkpoint.

    Attributes:
        relative: root mean square of the error over that of the values.
        steps: root mean square of the error in steps of the lattice; None without one.
        largest: the largest error in steps; None without a lattice.
    """

    relative: float
    steps: float | None
    largest: float | None


def error(weights: TensorClass, coded: Coded) -> Error:
    """Measure what the codes lose."""
    sums, squares, largest = ErrorSums(), 0.0, 0.0
    stepped = all(tensor.step is not None for tensor in coded.values())
    for path, tensor in weights.tensors.items():
        found = measure(to_float32(tensor.content, weights.dtype.name), coded[path].restore())
        sums += found
        step = coded[path].step or 1.0
        squares += found.squares / step**2
        largest = max(largest, found.largest / step)
    if not stepped or not sums.count:
        return Error(sums.relative, None, None)
    return Error(sums.relative, (squares / sums.count) ** 0.5, largest)


def migration(coded: Coded, before: Coded, width: int) -> float:
    """Return the share of values whose code changed."""
    changed = total = 0
    for path, tensor in coded.items():
        new, old = tensor.codes.view(f"<u{width}"), before[path].codes.view(f"<u{width}")
        changed, total = changed + int(np.count_nonzero(new != old)), total + new.size
    return changed / max(total, 1)
