"""QD-Compressor: uniform codes of as many bits as a tensor's entropy asks for, and their cyclic differences.

"QD-Compressor" (TPDS 2023), sections 4.2 to 4.7; the training of 4.4 is `mvcs.train.channels.ErrorFeedback`.
`Uniform` is the form in which Inshrinkerator (SoCC 2024, section 8.2) compares it: with Huffman codes.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any, ClassVar

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
    shapes_of,
    split,
)
from mvcs.inshrinkerator import huffman, unhuffman
from mvcs.quantize import WIDEST_UNIFORM, UniformGrid, UniformQuantizer

_FIXED = ((4, 8), (8, 8), (16, 16))
Codes = NDArray[np.int32]


class QD(Method):
    """QD-Compressor: the differences of codes in whole bytes, through LZMA."""

    name = "qd"
    paper = "QD-Compressor (TPDS 2023), sections 4.2-4.7"
    differs = (
        "the number of bins of the entropy is not printed: 256; differences are cyclic in the wider of two"
        " widths (SoCC 2024, A.2); no error feedback; equation 9 is read as S(q - Z)"
    )
    axes: ClassVar = {"min_bits": (3, 4, 5, 6, 7, 8), "max_bits": (3, 4, 5, 6, 7, 8)}
    fixed: ClassVar = {f"{low}-{high}": {"min_bits": low, "max_bits": high} for low, high in _FIXED}

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return the width, lowest value and scale of each tensor, and the differences of codes.

        Where `max_bits` is below `min_bits`, all tensors get `min_bits`.
        """
        fewest = int(setting["min_bits"])
        most = max(fewest, int(setting["max_bits"]))
        bits = UniformQuantizer(fewest, most).widths(tensors.values())
        lows, highs = self.ends(tensors)
        grids = [*map(UniformGrid.between, lows, highs, bits)]
        scales = np.array([grid.scale for grid in grids], "<f4")
        shapes = shapes_of(tensors)
        cycles = _cycles(bits, shapes, state)
        own = map(UniformGrid.codes, grids, tensors.values())
        bases = (base for _, base in before(state, "codes", shapes))
        moved = [
            (codes if base is None else codes - base) % cycle
            for codes, base, cycle in zip(own, bases, cycles, strict=True)
        ]
        return [bytes(bits), lows.tobytes(), scales.tobytes(), *self.coded(moved, cycles)]

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return S(q - Z) of each tensor, with Z = -lowest / S; the lowest itself where S is 0."""
        bits, lows, scales, *coded = sections
        if len(bits) != len(shapes) or not all(0 < width <= WIDEST_UNIFORM for width in bits):
            raise ValueError("the widths are out of range")
        cycles = _cycles(bits, shapes, state)
        moved = split(self.uncoded(coded, cycles, [prod(shape) for shape in shapes.values()]), shapes)
        codes = {
            name: (moved[name] if base is None else moved[name] + base) % cycle
            for cycle, (name, base) in zip(cycles, before(state, "codes", shapes), strict=True)
        }
        grids = map(UniformGrid, _floats(lows, len(shapes)), _floats(scales, len(shapes)), bits)
        restored = [*map(UniformGrid.values, grids, codes.values())]
        known = {"codes": codes, "bits": dict(zip(shapes, bits, strict=True))}
        return dict(zip(shapes, restored, strict=True)), known

    def ends(self, tensors: Tensors) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the lowest and the highest value of each tensor: its own range."""
        lows = np.array([tensor.min(initial=np.inf) for tensor in tensors.values()], "<f4")
        highs = np.array([tensor.max(initial=-np.inf) for tensor in tensors.values()], "<f4")
        return lows, highs

    def coded(self, moved: Sequence[Codes], cycles: Sequence[int]) -> Sequence[bytes]:
        """Return the differences of each tensor, which are below its cycle."""
        parts = (codes.astype(_whole(cycle)).tobytes() for codes, cycle in zip(moved, cycles, strict=True))
        return [compressed(b"".join(parts))]

    def uncoded(self, sections: Sequence[bytes], cycles: Sequence[int], sizes: Sequence[int]) -> Codes:
        """Return the differences of all tensors, one after another.

        Raises:
            ValueError: the sections are not what `coded` returns for such tensors.
        """
        (section,) = sections
        kinds = [_whole(cycle) for cycle in cycles]
        lengths = [kind.itemsize * size for kind, size in zip(kinds, sizes, strict=True)]
        data = decompressed(section, sum(lengths))
        starts = accumulate(lengths, initial=0)
        parts = [
            np.frombuffer(data, kind, size, start).astype(np.int32)
            for kind, size, start in zip(kinds, sizes, starts, strict=False)
        ]
        return np.concatenate([*parts, np.zeros(0, np.int32)])


class Uniform(QD):
    """QD-Compressor's codes with a Huffman code of their differences, one for each tensor."""

    name = "uniform"
    package = "bitarray"
    paper = "the baseline Uniform of Inshrinkerator (SoCC 2024), section 8.2; codes of QD-Compressor"

    def coded(self, moved: Sequence[Codes], cycles: Sequence[int]) -> Sequence[bytes]:
        """Return a Huffman code for each tensor."""
        return [huffman(codes) for codes in moved]

    def uncoded(self, sections: Sequence[bytes], cycles: Sequence[int], sizes: Sequence[int]) -> Codes:
        """Return the differences of all tensors, one after another."""
        parts = [unhuffman(section, size) for section, size in zip(sections, sizes, strict=True)]
        return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int32)


def _cycles(bits: Sequence[int], shapes: Shapes, state: State | None) -> list[int]:
    """Return the number of levels that differences go round in: of the wider of two widths."""
    known = {} if state is None else state.known["bits"]
    return [1 << max(width, known.get(name, 0)) for name, width in zip(shapes, bits, strict=True)]


def _whole(cycle: int) -> np.dtype[Any]:
    return np.dtype("u1" if cycle <= 256 else "<u2")


def _floats(section: bytes, count: int) -> NDArray[np.float32]:
    found = np.frombuffer(section, "<f4")
    if found.size != count:
        raise ValueError(f"{found.size} numbers for {count} tensors")
    return found
