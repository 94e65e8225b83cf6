"""The errors of a coded chunk, found run by run, so that what is restored stays in the cache."""

import numpy as np

from mvcs.quantize.codings.lattice import LatticeCoding
from mvcs.quantize.codings.moment import LogCoding, RootCoding
from mvcs.quantize.float_values import WIDE_DTYPE, Floats, to_float32
from mvcs.quantize.measure import ErrorSums, measure_errors, measure_wide
from mvcs.quantize.outliers import Codes
from mvcs.quantize.quantizer import Coded, Coding

_RUN = 1 << 16  # values


def errors_of(coding: Coding, coded: Coded, part: memoryview, index: int, dtype: str) -> ErrorSums:
    """Compare a chunk with what its codes restore.

    Args:
        coding: how it was coded.
        coded: its codes.
        part: its elements, little-endian.
        index: its number on the tensor's grid.
        dtype: their type, one of those `to_float32` reads.
    """
    if dtype == WIDE_DTYPE:
        return _wide(coding, coded, part, index)
    exact = to_float32(part, dtype)
    whole = dtype == "float32" and coded.codes.size and not coded.exceptions
    if whole and isinstance(coding, LatticeCoding | LogCoding | RootCoding):
        return _run_by_run(coding, coded.codes.view(np.int16), exact, index)
    return measure_errors(exact, to_float32(coding.restore(coded, index, exact.size), dtype))


def _wide(coding: Coding, coded: Coded, part: memoryview, index: int) -> ErrorSums:
    exact = np.frombuffer(part, "<f8")
    return measure_wide(exact, np.frombuffer(coding.restore(coded, index, exact.size), "<f8"))


def _run_by_run(
    coding: LatticeCoding | LogCoding | RootCoding, codes: Codes, exact: Floats, index: int
) -> ErrorSums:
    if exact.size <= _RUN:
        return measure_errors(exact, coding.values(codes, index))
    sums = ErrorSums()
    for start in range(0, exact.size, _RUN):
        run = slice(start, start + _RUN)
        sums += measure_errors(exact[run], coding.values(codes[run], index, start))
    return sums
