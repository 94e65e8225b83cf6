"""Values to codes of a table, and codes back to the bytes of the restored element type."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mvcs_native
from mvcs.errors import CorruptionError
from mvcs.quantize.float_values import Bytes, Floats
from mvcs.quantize.published.codebook import Codebook

Positions = NDArray[np.uint32]
Buffer = bytes | bytearray | memoryview | Bytes

_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


@dataclass(frozen=True)
class Quantized:
    """The codes of a run of values.

    Attributes:
        codes: uint8 [n]; the codebook's `exception` marks a value that is kept exactly.
        exceptions: uint32, ascending positions of those values.
    """

    codes: Bytes
    exceptions: Positions


@dataclass(frozen=True)
class ScoredValues:
    """How important the values of a run are, beside their magnitudes.

    Attributes:
        scores: float32 [n], not negative; a NaN is neither pruned nor kept.
        prune_below: what has a smaller score gets the zero level.
        protect_above: what has a larger one is an exception.
    """

    scores: Floats
    prune_below: float = 0.0
    protect_above: float = math.inf


def quantize(
    values: Floats,
    codebook: Codebook,
    prune_below: float,
    protect_above: float,
    scored: ScoredValues | None = None,
) -> Quantized:
    """Give every value the code of the nearest table value, the lower one of two equally near.

    Magnitudes below `prune_below` get the zero level. Exceptions are the magnitudes above `protect_above`,
    infinities, NaNs and subnormals, and everything where the table is empty.

    Args:
        values: float32 [n], at most 2^32 of them.
        codebook: the tensor's table.
        prune_below: magnitude threshold; has no effect without a zero level.
        protect_above: magnitude threshold.
        scored: further thresholds, on something else than magnitudes.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    codes = mvcs_native.empty(flat.size, np.uint8)
    mvcs_native.assign(flat, _bounds(codebook.table), codes)
    magnitudes = np.abs(flat)
    if codebook.zero is not None:
        codes[magnitudes < prune_below] = codebook.zero
        if scored is not None:
            codes[scored.scores < scored.prune_below] = codebook.zero
    kept = (magnitudes <= protect_above) & (magnitudes < np.inf)
    kept &= (magnitudes >= _SMALLEST_NORMAL) | (magnitudes == 0)
    if scored is not None:
        kept &= ~(scored.scores > scored.protect_above)
    exceptions = np.flatnonzero(~kept if codebook.table.size else np.ones(flat.size, np.bool_)).astype(
        np.uint32
    )
    codes[exceptions] = codebook.exception
    return Quantized(codes, exceptions)


def dequantize(codes: Buffer, table: Buffer, width: int, positions: Positions, exact: Buffer) -> bytes:
    """Restore the bytes of a run of values.

    Args:
        codes: one byte a value.
        table: the value of each code as little-endian elements of the restored type.
        width: bytes of an element: 1, 2, 4 or 8.
        positions: ascending positions of the exceptions.
        exact: the elements at those positions.

    Raises:
        CorruptionError: a code has no value, or exceptions and their codes disagree.
    """
    entries = np.frombuffer(table, np.uint8)
    if entries.size % width:
        raise CorruptionError("a code table is not whole elements")
    values = entries.view(f"<u{width}")
    levels = values.size
    code = np.frombuffer(codes, np.uint8)
    marked = np.flatnonzero(code == levels)
    kept = np.frombuffer(exact, np.uint8)
    if code.size and int(code.max()) > levels:
        raise CorruptionError(f"a code of {int(code.max())} has no value in a table of {levels}")
    if not np.array_equal(marked, positions) or kept.size != marked.size * width:
        raise CorruptionError("the exceptions of a chunk do not agree with its codes")
    restored = np.append(values, values.dtype.type(0)).take(code)
    restored[marked] = kept.view(f"<u{width}")
    return restored.tobytes()


def _bounds(table: Floats) -> Floats:
    """Return the largest float32 that is nearer to the lower of two neighbours, or equally near."""
    middles = (table[:-1].astype(np.float64) + table[1:].astype(np.float64)) / 2
    bounds = middles.astype(np.float32)
    above = bounds.astype(np.float64) > middles
    bounds[above] = np.nextafter(bounds[above], np.float32(-np.inf))
    return bounds
