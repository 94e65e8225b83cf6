"""Tensors of a wider type than quantizers work in, whose values those do not have."""

from collections.abc import Iterable
from typing import Final

from mvcs.checkpoint import CapturedLeaf
from mvcs.objects import Path
from mvcs.quantize import WIDE_DTYPE, out_of_range

_NEGLIGIBLE: Final = 0.01  # of the values that are not zero


def beyond(leaves: Iterable[CapturedLeaf]) -> frozenset[Path]:
    """Return the paths of those of which float32 would restore zeros or infinities: no coding fits them."""
    return frozenset(leaf.path for leaf in leaves if leaf.dtype.name == WIDE_DTYPE and _is_beyond(leaf))


def _is_beyond(leaf: CapturedLeaf) -> bool:
    found = [out_of_range(part) for part in leaf.views()]
    outside, whole = (sum(counts) for counts in zip(*found, strict=True)) if found else (0, 0)
    return outside > _NEGLIGIBLE * whole
