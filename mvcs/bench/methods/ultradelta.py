"""UltraDelta: a fine-tune as few uniform codes of what it moved from its base, the rest pruned at random.

"Breaking the Compression Ceiling: Data-Free Pipeline for Ultra-Efficient Delta Compression" (NeurIPS 2025,
arXiv 2505.13563 v3) and its published code (ultradelta_compression.py). With d what a tensor moved from the
base:

- d goes to the nearest of 2^bits levels from its smallest to its largest value;
- tensors are ordered by the standard deviation of their levels. The first third of all values loses the
  sparsity and a step of 0.01 more, the second the sparsity, the rest what makes up for it, at most 0.99;
- of each level's values, this share is pruned at random;
- what stays is divided by 1 - sparsity, and multiplied by one factor.

A constant d is kept as one value; the published code divides by zero there.
"""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

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
    floats_of,
    joined,
    narrowed,
    shapes_of,
    split,
)
from mvcs.inshrinkerator import huffman, unhuffman

_STEP = 0.01
_MOST_OF_THE_REST = 0.99
_MOST = 255
Codes = NDArray[np.uint8]


class UltraDelta(Method):
    """Each checkpoint against the first one, which is the base."""

    name = "ultradelta"
    package = "bitarray"
    paper = "UltraDelta (arXiv 2505.13563 v3), and its published code"
    differs = (
        "the base is the first checkpoint, raw in the first payload, which the paper's ratios leave out; all"
        " tensors of two and more dimensions are coded, not chosen layers; the trace norm compares several"
        " fine-tunes, so for one the factor is an axis; how positions are stored is not said: gaps and codes,"
        " each in a Huffman code"
    )
    chain = "first"
    axes: ClassVar = {
        "sparsity": (0.98, 0.97, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.0),
        "bits": (2, 4, 8),
        "factor": (0.5, 0.75, 1.0),
    }
    tasks: ClassVar = frozenset({"encoder", "finetune", "lora"})
    needs: ClassVar = frozenset({"seed"})
    fixed: ClassVar = {"published": {"sparsity": 0.97, "bits": 4, "factor": 1.0}}

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return raw tensors, the factor, lowest levels, their distances, gaps and codes of what stays."""
        shapes = shapes_of(tensors)
        bases = {name: base for name, base in before(state, "base", shapes) if base is not None}
        raw = joined({name: tensor for name, tensor in tensors.items() if name not in bases})
        most, sparsity = 2 ** int(setting["bits"]) - 1, float(setting["sparsity"])
        lows, scales, codes = list[np.float32](), list[np.float32](), list[Codes]()
        for name, base in bases.items():
            moved = tensors[name].astype(np.float64).ravel() - base.ravel()
            low, high = (moved.min(), moved.max()) if moved.size else (0.0, 0.0)
            lowest, scale = narrowed(np.array([low, (high - low) / most]))
            lows.append(lowest)
            scales.append(scale)
            if scale:
                codes.append(np.rint((moved - lowest) / scale).clip(0, most).astype(np.uint8))
        ends = [(low, scale) for low, scale in zip(lows, scales, strict=True) if scale]
        spreads = [float(scale) * float(own.std()) for own, (_, scale) in zip(codes, ends, strict=True)]
        shares = _shares(spreads, [own.size for own in codes], sparsity)
        drawn = np.random.default_rng(needs.get("seed", 0))
        stay = [
            _stay(own, share, low + scale * np.arange(most + 1, dtype=np.float32), drawn)
            for own, share, (low, scale) in zip(codes, shares, ends, strict=True)
        ]
        places = np.flatnonzero(np.concatenate([*stay, np.zeros(0, np.bool_)]))
        staying = np.concatenate([*codes, np.zeros(0, np.uint8)])[places]
        worth = np.array(float(setting["factor"]) / (1 - sparsity), "<f4")
        tables = [np.array(values, "<f4").tobytes() for values in (lows, scales)]
        gaps = np.diff(places, prepend=-1)
        return [raw.astype("<f4").tobytes(), worth.tobytes(), *tables, huffman(gaps), huffman(staying)]

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return the sums of the base and of what stays; the base is what is known."""
        raw, factor, *tables, gaps, staying = sections
        bases = {name: base for name, base in before(state, "base", shapes) if base is not None}
        fresh = {name: shape for name, shape in shapes.items() if name not in bases}
        coded = {name: shapes[name] for name in bases}
        found = floats_of(raw, fresh)
        (worth,) = np.frombuffer(factor, "<f4")
        lows, scales = (dict(zip(coded, np.frombuffer(one, "<f4"), strict=True)) for one in tables)
        if not np.isfinite([worth, *lows.values(), *scales.values()]).all():
            raise ValueError("a level is no number")
        varied = {name: shape for name, shape in coded.items() if scales[name]}
        total = sum(map(prod, varied.values()))
        steps = unhuffman(gaps, total)
        if (steps < 1).any() or (steps > total).any() or steps.sum() > total:
            raise ValueError("what stays lies elsewhere")
        codes = unhuffman(staying, steps.size)
        if ((codes < 0) | (codes > _MOST)).any():
            raise ValueError("there is no such level")
        symbols = np.zeros(total, np.int16)
        symbols[np.cumsum(steps) - 1] = codes + 1
        parts = split(symbols, varied)
        for name, shape in coded.items():
            moved = np.full(shape, lows[name])
            if name in varied:
                levels = worth * (lows[name] + scales[name] * np.arange(_MOST + 1, dtype=np.float64))
                moved = np.r_[0.0, levels][parts[name]]
            found[name] = narrowed(bases[name] + moved.astype(np.float64))
        return found, {"base": found if state is None else state.known["base"]}


def _shares(spreads: Sequence[float], sizes: Sequence[int], sparsity: float) -> list[float]:
    """Return the share of each tensor's values that is pruned, by the spread of its levels."""
    order = np.argsort(spreads, kind="stable")
    total = sum(sizes)
    ends = np.cumsum(np.array(sizes, np.int64)[order])
    thirds = np.where(3 * ends <= total, 0, np.where(3 * ends <= 2 * total, 1, 2))
    counts = np.bincount(thirds, weights=np.array(sizes, np.float64)[order], minlength=3)
    more = min(sparsity + _STEP, 1.0)
    rest = (sparsity * total - more * counts[0] - sparsity * counts[1]) / max(counts[2], 1)
    by_third = np.array([more, sparsity, min(max(rest, 0.0), _MOST_OF_THE_REST)])
    shares = np.empty(len(sizes))
    shares[order] = by_third[thirds]
    return shares.tolist()


def _stay(codes: Codes, share: float, worth: Floats, drawn: np.random.Generator) -> NDArray[np.bool_]:
    """Draw which values stay: of each level all but a share, which those that are 0 anyway count for."""
    counts = np.bincount(codes, minlength=worth.size)
    zeros = counts[worth == 0].sum() / codes.size
    pruned = max(0.0, (share - zeros) / (1 - zeros)) if zeros < 1 else 0.0
    order = drawn.permutation(codes.size)
    order = order[np.argsort(codes[order], kind="stable")]
    stay: NDArray[np.bool_] = worth[codes] != 0
    for start, count in zip(np.cumsum(counts) - counts, counts, strict=True):
        stay[order[start : start + round(count * pruned)]] = False
    return stay
