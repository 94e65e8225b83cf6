"""Check-N-Run: uniform codes of each row, between two ends that are searched for.

"Check-N-Run" (NSDI 2022), its adaptive asymmetric quantization, as Inshrinkerator (SoCC 2024, section 8.2,
appendix A.2 and table 11) compares it: "Adaptive".
"""

from collections.abc import Sequence
from math import ceil, prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mvcs.bench.methods.coding import from_bits, to_bits
from mvcs.bench.methods.method import Floats, Method, Needs, Restored, Setting, Shapes, State, Tensors, split

_BLOCK = 1 << 15
_MOST_BITS = 8
Halves = NDArray[np.float16]
_LARGEST = float(np.finfo(np.float16).max)


class CNR(Method):
    """Check-N-Run's quantization: a row is what stands at one place of the first dimension.

    A row's ends begin at its smallest and largest value. The end that leaves the smaller squared error moves
    by a step, `1 / steps` of the range, until the share `range` of it is gone. The best pair of ends counts.

    A constant row is its value in float16. A row with values beyond float16's is raw: its low end is NaN.
    """

    name = "cnr"
    paper = "Check-N-Run (NSDI 2022), adaptive asymmetric quantization; SoCC 2024, section 8.2, table 11"
    differs = (
        "rows of all weights, not of embedding tables alone; no differences, which are for recommendation"
        " models (SoCC 2024, A.2); low end and scale are rounded to float16 before the codes are chosen"
    )
    chain = "none"
    axes: ClassVar = {
        "bins": (8, 16, 32, 64, 128, 256),
        "steps": (10, 25, 50, 100),
        "range": (0.1, 0.2, 0.3, 0.4, 0.5),
    }

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return the bits of a code, low end and scale of each row, raw rows, and the other rows' codes."""
        bins, steps = int(setting["bins"]), int(setting["steps"])
        moves = ceil(float(setting["range"]) * steps - 1e-9)
        lows, scales, raw, codes = [_NO_HALVES], [_NO_HALVES], list[bytes](), [np.zeros(0, np.uint8)]
        for tensor in tensors.values():
            rows = tensor.reshape(tensor.shape[0], prod(tensor.shape[1:]))
            fits = np.abs(rows).max(axis=1, initial=0) <= _LARGEST
            low, scale = np.full((2, len(rows)), np.nan, np.float16)
            low[fits], scale[fits] = _ends(rows[fits], bins - 1, steps, moves)
            lows.append(low)
            scales.append(scale)
            raw.append(rows[~fits].astype("<f4").tobytes())
            codes.append(_codes(rows[fits], low[fits], scale[fits], bins - 1).ravel())
        bits = bins.bit_length() - 1
        ends = [np.concatenate(kind).astype("<f2").tobytes() for kind in (lows, scales)]
        return [bytes([bits]), *ends, b"".join(raw), to_bits(np.concatenate(codes), bits)]

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return low end and scale times code of each row."""
        (bits,), lows, scales, raw, coded = sections
        if not 0 < bits <= _MOST_BITS:
            raise ValueError(f"codes of {bits} bits")
        sizes = {name: (shape[0],) for name, shape in shapes.items()}
        low, scale = (split(np.frombuffer(kind, "<f2"), sizes) for kind in (lows, scales))
        lengths = {name: prod(shape[1:]) for name, shape in shapes.items()}
        fits = {name: np.isfinite(low[name]) & np.isfinite(scale[name]) for name in shapes}
        coded_shapes = {name: (int(fits[name].sum()), lengths[name]) for name in shapes}
        raw_shapes = {name: (int((~fits[name]).sum()), lengths[name]) for name in shapes}
        codes = split(from_bits(coded, bits, sum(map(prod, coded_shapes.values()))), coded_shapes)
        kept = split(np.frombuffer(raw, "<f4"), raw_shapes)
        found = dict[str, Floats]()
        for name, shape in shapes.items():
            rows, held = np.empty((shape[0], lengths[name]), np.float32), fits[name]
            rows[~held] = kept[name]
            rows[held] = _restored(codes[name], low[name][held], scale[name][held])
            found[name] = rows.reshape(shape)
        return found, {}


_NO_HALVES = np.zeros(0, np.float16)


def _codes(rows: Floats, low: Halves, scale: Halves, top: int) -> NDArray[np.uint8]:
    """Return the nearest of the levels 0 to `top` for each value; 0 where the scale is 0."""
    steps = np.where(scale > 0, scale, np.inf).astype(np.float32)
    found = rows - low.astype(np.float32)[:, None]
    found /= steps[:, None]
    np.rint(found, out=found)
    return found.clip(0, top).astype(np.uint8)


def _restored(codes: NDArray[np.uint16], low: Halves, scale: Halves) -> Floats:
    found = codes.astype(np.float32)
    found *= scale.astype(np.float32)[:, None]
    found += low.astype(np.float32)[:, None]
    return found


def _ends(rows: Floats, top: int, steps: int, moves: int) -> tuple[Halves, Halves]:
    """Return the low end of each row, and the scale between two of its levels."""
    low = rows.min(axis=1, initial=_LARGEST)
    span = np.maximum(rows.max(axis=1, initial=-_LARGEST) - low, 0)
    units = rows - low[:, None]
    units /= np.where(span > 0, span, 1)[:, None]
    height = max(1, _BLOCK // max(1, rows.shape[1]))
    blocks = range(0, len(rows), height)
    found = [_search(units[start : start + height], top, steps, moves) for start in blocks]
    raised, gone = np.concatenate([*found, np.zeros((2, 0))], axis=1) / steps
    return (low + span * raised).astype(np.float16), (span * (1 - gone) / top).astype(np.float16)


def _search(units: Floats, top: int, steps: int, moves: int) -> NDArray[np.int64]:
    """Return how often the low end moved, and how often any end did, at the best pair of each row.

    Args:
        units: rows between 0 and 1.
        top: the highest level.
        steps: how many steps there are between 0 and 1.
        moves: how many are made.
    """
    scaled, error, level = np.empty_like(units), np.empty_like(units), np.empty_like(units)

    def errors(raised: NDArray[np.int64], gone: int) -> Floats:
        np.subtract(scaled, (raised * (top / (steps - gone))).astype(np.float32)[:, None], out=error)
        np.rint(error, out=level)
        np.maximum(level, 0, out=level)
        np.minimum(level, top, out=level)
        np.subtract(error, level, out=error)
        squares: Floats = np.einsum("ij,ij->i", error, error) * np.float32(1 - gone / steps) ** 2
        return squares

    raised = np.zeros(len(units), np.int64)
    found = np.zeros((2, len(units)), np.int64)
    np.multiply(units, np.float32(top), out=scaled)
    least = errors(raised, 0)
    for gone in range(1, moves + 1):
        np.multiply(units, np.float32(top * steps / (steps - gone)), out=scaled)
        high_moved, low_moved = errors(raised, gone), errors(raised + 1, gone)
        raised = raised + (low_moved <= high_moved)
        now = np.minimum(high_moved, low_moved)
        better = now < least
        found[0, better] = raised[better]
        found[1, better] = gone
        least = np.minimum(now, least)
    return found
