"""Equal levels over a tensor's own range, of as many bits as its entropy asks for (QD-Compressor)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mvcs.errors import UsageError, whole
from mvcs.quantize.float_values import Floats

WIDEST_UNIFORM = 16
"""Bits of a code, at most."""
_BINS = 256


@dataclass(frozen=True)
class UniformGrid:
    """2^bits levels at equal distances (QD-Compressor, equations 3 to 5 and 9)."""

    low: np.float32
    scale: np.float32
    bits: int

    @classmethod
    def between(cls, low: np.float32, high: np.float32, bits: int) -> Self:
        """Return the levels from the lowest value to the highest."""
        return cls(low, np.float32(max(np.float64(high) - low, 0) / (2.0**bits - 1)), bits)

    def codes(self, values: Floats) -> NDArray[np.int32]:
        """Return the nearest level of each value, of two the even one; 0 where all levels are one."""
        if not self.scale:
            return np.zeros(values.shape, np.int32)
        codes = np.rint((values.astype(np.float64) - self.low) / self.scale)
        return np.clip(codes, 0, 2**self.bits - 1).astype(np.int32)

    def values(self, codes: NDArray[np.int32]) -> Floats:
        """Return S(q - Z), with Z = -lowest / S, in float64 and rounded to float32."""
        return (np.float64(self.low) + np.float64(self.scale) * codes).astype(np.float32)


@dataclass(frozen=True)
class UniformQuantizer:
    """QD-Compressor's quantizer (TPDS 2023, sections 4.2 and 4.3): levels over the range of each tensor.

    Attributes:
        min_bits: of the tensor of least entropy, from 1.
        max_bits: of the one of most, up to 16.

    Raises:
        UsageError: they are out of range.
    """

    min_bits: int = 4
    max_bits: int = 8

    def __post_init__(self) -> None:
        """Refuse bits that no code has."""
        whole("min_bits", self.min_bits, "use 1 to 16 bits")
        if not self.min_bits <= self.max_bits <= WIDEST_UNIFORM:
            raise UsageError(f"codes cannot have {self.min_bits} to {self.max_bits} bits", hint="use 1 to 16")

    def widths(self, tensors: Iterable[Floats]) -> list[int]:
        """Return the bits of each tensor's codes (equation 2): `max_bits` for all of equal entropies."""
        entropies = [binned_entropy(values) for values in tensors]
        low, high = min(entropies, default=0.0), max(entropies, default=0.0)
        if low == high:
            return [self.max_bits] * len(entropies)
        span = self.max_bits - self.min_bits
        return [self.min_bits + round(span * (one - low) / (high - low)) for one in entropies]

    def restored(self, tensors: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return what codes of finite float32 tensors restore, by name and of the same shapes."""
        found = {}
        for (name, values), bits in zip(tensors.items(), self.widths(tensors.values()), strict=True):
            grid = UniformGrid.between(values.min(initial=np.inf), values.max(initial=-np.inf), bits)
            found[name] = grid.values(grid.codes(values))
        return found


def binned_entropy(values: Floats) -> float:
    """Return the entropy in nats of values over 256 equal bins of their range (equation 1)."""
    low, high = np.float64(values.min(initial=np.inf)), np.float64(values.max(initial=-np.inf))
    if not low < high:
        return 0.0
    bins = ((values - low) * (_BINS / (high - low))).astype(np.int64).clip(0, _BINS - 1)
    counts = np.bincount(bins.ravel())
    shares = counts[counts > 0] / values.size
    return float(-(shares * np.log(shares)).sum())
