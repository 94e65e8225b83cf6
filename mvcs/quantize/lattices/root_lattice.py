"""First moments in units of the root of the second, to multiples of a step or to signs, and back."""

from dataclasses import dataclass

import numpy as np

import mvcs_native
from mvcs.quantize.float_values import Floats
from mvcs.quantize.lattices.steps import nearest_step
from mvcs.quantize.outliers import Codes


@dataclass(frozen=True)
class RootSums:
    """Sums over values m and restored second moments v, where v is above zero and finite.

    Attributes:
        count: number of values.
        total: the sum of |m| / sqrt(v).
    """

    count: int = 0
    total: float = 0.0

    def __add__(self, other: "RootSums") -> "RootSums":
        """Return the sums over the values of both."""
        return RootSums(self.count + other.count, self.total + other.total)

    @property
    def sign_step(self) -> int:
        """The byte of the step nearest to the mean, which signs restore to times the root of v."""
        return nearest_step(self.total / self.count if self.count else 0.0)


def root_sums(values: Floats, roots: Floats) -> RootSums:
    """Add up first moments in units of the roots of restored second moments, both float32 [n]."""
    total, count = mvcs_native.root_sums(values, roots)
    return RootSums(count, total)


def root_codes(values: Floats, roots: Floats, step: int) -> Codes:
    """Give every value a multiple of step times the root of its restored second moment.

    It is the one nearest to the value less 0.05 steps of its magnitude, so no error is above 0.55 steps.
    First moments are noise around zero, where the bits saved are worth more than the error: a dead zone, as
    usual for the coefficients of transforms.

    Args:
        values: float32 [n], the first moments.
        roots: float32 [n], the second moments as they are restored.
        step: a step byte.

    Returns:
        int16 [n]; 0 where the second moment is zero or not finite, -32768 for an exception: not finite, or a
        multiple of more than 32767.
    """
    codes = mvcs_native.empty(values.size, np.int16)
    mvcs_native.root_lattice(values, roots, step, codes)
    return codes


def root_signs(values: Floats, roots: Floats) -> Codes:
    """Give every value its sign, -1, 0 or 1, as a code; the rest as in `root_codes`."""
    codes = mvcs_native.empty(values.size, np.int16)
    mvcs_native.root_signs(values, roots, codes)
    return codes


def root_values(codes: Codes, roots: Floats, step: int) -> Floats:
    """Return code times step times root as float32, always finite."""
    values = mvcs_native.empty(codes.size, np.float32)
    mvcs_native.root_unlattice(codes, roots, step, values)
    return values
