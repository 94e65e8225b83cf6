"""The errors of a coded chunk, found run by run, so that what is restored stays in the cache."""

from collections.abc import Callable

import numpy as np

from mvcs.quantize.codings.lattice import LatticeCoding
from mvcs.quantize.codings.moment import LogCoding, RootCoding
from mvcs.quantize.float_values import WIDE_DTYPE, Floats, elements_of, to_float32
from mvcs.quantize.measure import ErrorSums, measure_errors, measure_wide
from mvcs.quantize.outliers import Codes
from mvcs.quantize.quantizer import Coded, Coding

_RUN = 1 << 16  # values


def _unseen(_: memoryview) -> None:
    pass


def errors_of(
    coding: Coding,
    coded: Coded,
    part: memoryview,
    index: int,
    dtype: str,
    see: Callable[[memoryview], None] = _unseen,
) -> ErrorSums:
    """Compare a chunk with what its codes restore.

    Args:
        coding: how it was coded.
        coded: its codes.
        part: its elements, little-endian.
        index: its number on the tensor's grid.
        dtype: their type, one of those `to_float32` reads.
        see: is shown the restored elements, little-endian, piece by piece in their order.
    """
    if dtype == WIDE_DTYPE:
        return _wide(coding, coded, part, index, see)
    exact = to_float32(part, dtype)
    whole = dtype == "float32" and coded.codes.size and not coded.exceptions
    if whole and isinstance(coding, LatticeCoding | LogCoding | RootCoding):
        return _run_by_run(coding, coded.codes.view(np.int16), exact, index, see)
    restored = coding.restore(coded, index, exact.size)
    see(np.frombuffer(restored, np.uint8).data)
    return measure_errors(exact, to_float32(restored, dtype))


def _wide(
    coding: Coding, coded: Coded, part: memoryview, index: int, see: Callable[[memoryview], None]
) -> ErrorSums:
    exact = np.frombuffer(part, "<f8")
    restored = coding.restore(coded, index, exact.size)
    see(np.frombuffer(restored, np.uint8).data)
    return measure_wide(exact, np.frombuffer(restored, "<f8"))


def _run_by_run(
    coding: LatticeCoding | LogCoding | RootCoding,
    codes: Codes,
    exact: Floats,
    index: int,
    see: Callable[[memoryview], None],
) -> ErrorSums:
    sums = ErrorSums()
    for start in range(0, exact.size, _RUN):
        run = slice(start, start + _RUN)
        restored = coding.values(codes[run], index, start)
        see(elements_of(restored, "float32").data)
        sums += measure_errors(exact[run], restored)
    return sums
