"""A sample of a coded chunk, exact and restored, without restoring all of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mvcs.objects import DType
from mvcs.quantize.codings.lattice import LatticeCoding
from mvcs.quantize.codings.moment import LogCoding, RootCoding
from mvcs.quantize.float_values import Floats, from_float32, to_float32
from mvcs.quantize.lattices.root_lattice import root_values
from mvcs.quantize.outliers import EXCEPTION
from mvcs.quantize.quantizer import Coded, Coding

RUNS, RUN = 8, 1 << 9  # of every chunk; a state has hundreds of chunks


@dataclass(frozen=True)
class Sample:
    """Values of one leaf, as they are and as readers will restore them: float32 [n] both."""

    exact: Floats
    restored: Floats


def runs(count: int) -> list[slice]:
    """Return where the sample of a chunk of so many values lies: evenly spaced runs, or all of it."""
    if count <= RUNS * RUN:
        return [slice(0, count)]
    starts = (number * (count - RUN) // (RUNS - 1) for number in range(RUNS))
    return [slice(start, start + RUN) for start in starts]


def sample_of(part: memoryview, dtype: DType) -> Floats:
    """Return the sample of a chunk."""
    elements = np.frombuffer(part, np.uint8).reshape(-1, dtype.itemsize)
    taken = np.concatenate([elements[run] for run in runs(len(elements))])
    return to_float32(taken.reshape(-1), dtype.name)


def restored_sample(
    coding: Coding, coded: Coded, index: int, exact: Floats, count: int, dtype: DType, roots: Floats | None
) -> Floats:
    """Return the sample of what readers restore from a chunk.

    Args:
        coding: how it was coded.
        coded: its codes.
        index: its number on the tensor's grid.
        exact: its sample.
        count: its values.
        dtype: their type.
        roots: for a `RootCoding` the sample of the restored second moment.
    """
    places = runs(count)
    if isinstance(coding, LogCoding) and coding.bare:
        found = [
            coding.grid.values(None, run.stop - run.start, index * coding.run + run.start) for run in places
        ]
        return _rounded(np.concatenate(found), dtype)
    if not isinstance(coding, LatticeCoding | LogCoding | RootCoding) or not coded.codes.size:
        whole = to_float32(coding.restore(coded, index, count), dtype.name)
        return np.concatenate([whole[run] for run in places])
    codes = coded.codes.view(np.int16)
    taken = np.concatenate([codes[run] for run in places])
    if isinstance(coding, RootCoding):
        if roots is None:
            roots = _taken(coding.roots(index), places)
        values = root_values(taken, roots, coding.parameters.step)
    else:
        values = np.concatenate([coding.values(codes[run], index, run.start) for run in places])
    return np.where(taken == EXCEPTION, exact, _rounded(values, dtype))


def _taken(values: Floats, places: Sequence[slice]) -> Floats:
    return np.concatenate([values[run] for run in places])


def _rounded(values: Floats, dtype: DType) -> Floats:
    return values if dtype.name == "float32" else to_float32(from_float32(values, dtype.name), dtype.name)
