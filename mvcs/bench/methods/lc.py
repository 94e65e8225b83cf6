"""LC-Checkpoint: differences in buckets of equal sign and exponent, the largest of them in a Huffman code.

"On Efficient Constructions of Checkpoints" (ICML 2020): the delta-coding of its section on approximate
tracking, exponent-based quantization, priority promotion and Huffman coding.
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

_MANTISSA = 23
_EXPONENT = 255


class LC(Method):
    """LC-Checkpoint: `2**bits - 1` buckets of differences from the restored checkpoint before.

    A tensor without one before is raw. A constant difference is one bucket, worth this difference.
    """

    name = "lc"
    package = "bitarray"
    paper = "LC-Checkpoint (ICML 2020), delta-coding, exponent-based quantization, priority promotion"
    differs = (
        "of two buckets of one exponent the positive comes first; differences below float32's normal numbers"
        " count as 0, and no sum leaves its range"
    )
    axes: ClassVar = {"bits": (2, 3, 4, 5, 6)}

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return the raw tensors, what each bucket is worth in float32, and the buckets of all differences.

        Bucket 0 is worth 0; the others begin with that of the largest exponent.
        """
        bases = dict(before(state, "restored", shapes_of(tensors)))
        raw = joined({name: tensor for name, tensor in tensors.items() if bases[name] is None})
        moved = joined(
            {
                name: narrowed(tensor - base.astype(np.float64))
                for name, tensor in tensors.items()
                if (base := bases[name]) is not None
            }
        )
        codes, worth = _buckets(moved, 2 ** int(setting["bits"]) - 1)
        return [raw.astype("<f4").tobytes(), worth.astype("<f4").tobytes(), huffman(codes)]

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return the sums of the tensors before and what the differences' buckets are worth."""
        raw, worth, coded = sections
        bases = dict(before(state, "restored", shapes))
        fresh = {name: shape for name, shape in shapes.items() if bases[name] is None}
        moving = {name: shape for name, shape in shapes.items() if name not in fresh}
        levels = np.r_[0.0, np.frombuffer(worth, "<f4").astype(np.float64)]
        if not np.isfinite(levels).all():
            raise ValueError("a bucket is worth no number")
        codes = unhuffman(coded, sum(map(prod, moving.values())))
        if codes.size and not 0 <= codes.min() <= codes.max() < levels.size:
            raise ValueError("there is no such bucket")
        found = floats_of(raw, fresh)
        for name, part in split(codes, moving).items():
            found[name] = narrowed(bases[name] + levels[part])
        return found, {"restored": found}


def _buckets(moved: Floats, most: int) -> tuple[NDArray[np.uint8], Floats]:
    """Return the bucket of each difference, and (smallest + largest) / 2 of each bucket from 1 on."""
    kinds = moved.view(np.uint32) >> _MANTISSA  # the exponent, below a bit for the sign
    found = np.flatnonzero(np.bincount(kinds))
    found = found[found & _EXPONENT != 0]
    kept = found[np.lexsort((found > _EXPONENT, -(found & _EXPONENT)))][:most]
    codes_of = np.zeros(2 * (_EXPONENT + 1), np.uint8)
    codes_of[kept] = np.arange(1, kept.size + 1)
    codes = codes_of[kinds]
    lows, highs = np.full(kept.size + 1, np.inf, np.float32), np.full(kept.size + 1, -np.inf, np.float32)
    np.minimum.at(lows, codes, moved)
    np.maximum.at(highs, codes, moved)
    return codes, narrowed((lows[1:].astype(np.float64) + highs[1:]) / 2)
