"""Codes beside exceptions: values that no code restores are marked, and kept as they are."""

from collections.abc import Callable

import numpy as np

from mvcs.objects import DType
from mvcs.quantize.float_values import Floats, elements_of
from mvcs.quantize.outliers import Buffer, Codes, held, joined, split, with_exceptions
from mvcs.quantize.quantizer import Coded


def with_marks(
    codes: Codes,
    restore: Callable[[Codes], Floats],
    part: memoryview,
    dtype: DType,
    *,
    nonzero: bool = False,
) -> Coded:
    """Return the codes of a chunk as they are stored, its exceptions behind them.

    Args:
        codes: of its values; those of exceptions are marked.
        restore: gives the values of codes.
        part: its elements.
        dtype: their type.
        nonzero: whether codes other than zeros may not be restored as zero.
    """
    if dtype.name != "float32":
        codes = held(codes, restore(codes), part, dtype.name, nonzero=nonzero)
    return Coded(codes.view(np.uint8), joined(codes, part, dtype.itemsize))


def restored(values: Floats, coded: Coded, dtype: DType) -> Buffer:
    """Return the elements of a coded chunk, exceptions put in, from the values of its codes."""
    if not coded.exceptions:
        return elements_of(values, dtype.name)
    codes = coded.codes.view(np.int16)
    return with_exceptions(values, codes, dtype.name, *split(coded.exceptions, dtype.itemsize))
