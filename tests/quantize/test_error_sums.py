"""Errors found run by run are those of the whole chunk."""

import numpy as np
import pytest

from mvcs.objects.chunk_grid import DTYPES
from mvcs.objects.forms import LogLattice, RootLattice
from mvcs.quantize.float_values import Floats, from_float32, to_float32
from mvcs.quantize.lattice import LogGrid
from mvcs.quantize.measure import measure_errors
from mvcs.quantize.quantizer import Coding, LatticeCoding, LogCoding, RootCoding, errors_of
from tests.format import examples

COUNT = (1 << 17) + 1237
DRAW = np.random.default_rng(0)
VALUES = DRAW.standard_normal(COUNT).astype(np.float32)
SQUARES = VALUES**2 + np.float32(1e-6)


def codings(dtype: str) -> dict[str, tuple[Coding, Floats]]:
    kind = DTYPES[dtype]
    return {
        "lattice": (LatticeCoding(232, kind), VALUES),
        "log": (LogCoding(LogLattice(23), LogGrid(23), kind, COUNT), SQUARES),
        "root": (RootCoding(RootLattice(232, examples.LOG_LATTICE), kind, lambda _: SQUARES), VALUES),
        "signs": (
            RootCoding(RootLattice(232, examples.LOG_LATTICE), kind, lambda _: SQUARES, signs=True),
            VALUES,
        ),
    }


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["lattice", "log", "root", "signs"])
def test_errors_are_those_of_the_whole_chunk(name: str, dtype: str, odd: bool) -> None:
    coding, values = codings(dtype)[name]
    values = values.copy()
    if odd:
        values[[0, 70_000, -1]] = np.inf, np.nan, np.inf
    part = memoryview(from_float32(values, dtype))
    coded = coding.code(part, 0, None)
    found = errors_of(coding, coded, part, 0, dtype)
    exact = to_float32(part, dtype)
    whole = measure_errors(exact, to_float32(coding.restore(coded, 0, COUNT), dtype))
    assert (found.count, found.largest) == (whole.count, whole.largest)
    assert found.squares == pytest.approx(whole.squares, rel=1e-12)
    assert found.scale == pytest.approx(whole.scale, rel=1e-12)
    assert found.squares > 0
