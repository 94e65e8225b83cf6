"""A sample of a chunk of a tensor."""

import numpy as np

from mvcs.objects import DType
from mvcs.quantize.float_values import Floats, to_float32

RUNS, RUN = 8, 1 << 9  # of every chunk; a state has hundreds of chunks


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
