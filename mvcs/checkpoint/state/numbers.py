"""Numbers in a state, whatever their type: of Python, of numpy, or in a tensor of one element."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from mvcs.checkpoint.state.arrays import numpy_view, rebuild_scalar
from mvcs.checkpoint.state.captured import CapturedLeaf
from mvcs.objects import NodeTag, Value, element_count, tensor_reference

_SCALAR = 3  # parts of the node of a numpy scalar
_REAL = frozenset({"bool", "signed", "unsigned", "float"})
_BFLOAT16 = "bfloat16"


def number_of(node: Value, leaves: Sequence[CapturedLeaf]) -> float | None:
    """Return a number of Python, numpy or a tensor of one element; None where no float can hold it.

    Args:
        node: of the state.
        leaves: its tensors.
    """
    if isinstance(node, int | float):
        with suppress(OverflowError):
            return float(node)
    reference = tensor_reference(node)
    if reference is not None:
        return number_in(leaves[reference[0]])
    if isinstance(node, list) and len(node) == _SCALAR and node[0] == NodeTag.NUMPY_SCALAR:
        value = rebuild_scalar(*node[1:]).item()
        return float(value) if isinstance(value, int | float) else None
    return None


def number_in(leaf: CapturedLeaf) -> float | None:
    """Return the one element of a real tensor of 16 bits and more, or of integers; None of any other."""
    dtype = leaf.dtype
    if dtype.kind not in _REAL or element_count(leaf.shape) != 1:
        return None
    data = leaf.source.read()
    if dtype.name == _BFLOAT16:  # the upper half of a float32
        return float(np.frombuffer(bytes(2) + bytes(data), "<f4")[0])
    return None if dtype.numpy is None else float(numpy_view(dtype, (), data))
