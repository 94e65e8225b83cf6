"""Codings without codes: tensors of one value, those that are left out, and rounded copies."""

from mvcs.checkpoint import CapturedLeaf
from mvcs.objects import Absent, Constant, Derived
from mvcs.quantize import BareCoding, Coding, RestoredTensor, from_float32


def absent(leaf: CapturedLeaf) -> Coding:
    """Return the coding of a tensor whose values are left out."""
    return BareCoding(Absent(), leaf.dtype, lambda _, count: bytes(count * leaf.dtype.itemsize))


def constant(leaf: CapturedLeaf) -> Coding | None:
    """Return the coding of a tensor whose elements are all the same, bit for bit; None for others."""
    width, element = leaf.dtype.itemsize, b""
    for part in leaf.views():
        element = element or bytes(part[:width])
        if part[:width] != element or part[-width:] != element or part[width:] != part[:-width]:
            return None
    if not element:
        return None
    return BareCoding(Constant(element), leaf.dtype, lambda _, count: element * count)


def derived(leaf: CapturedLeaf, master: RestoredTensor) -> Coding:
    """Return the coding of a tensor that is another one's values, rounded."""
    form = Derived(master.tensor)
    return BareCoding(form, leaf.dtype, lambda index, _: from_float32(master.floats(index), leaf.dtype.name))
