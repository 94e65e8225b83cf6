"""The values of a leaf for quantizers to look at: all of them, chunk by chunk, or a sketch."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mvcs.checkpoint import CapturedLeaf, Parameter, Role
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.treatments import FIRST_MOMENT, MOMENTUM
from mvcs.objects import Path, element_count
from mvcs.quantize import Floats, Scale, Sketch, sample_of, to_float32

_SAMPLED = 1 << 20
_RUN = 1 << 12
_FEW = 1 << 12  # values that are sorted sooner than all buckets are looked at
# Averages of squared gradients, then of gradients, which are noise for the most part.
_SQUARES: Final = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum")
_GRADIENTS: Final = ("momentum_buffer", "exp_avg")


@dataclass(frozen=True)
class LeafValues:
    """The chunks of a leaf as float32, made one after the other as often as they are taken."""

    leaf: CapturedLeaf

    def __iter__(self) -> Iterator[Floats]:
        name = self.leaf.dtype.name
        return (to_float32(part, name) for part in self.leaf.views())


def scales(leaves: Sequence[CapturedLeaf]) -> list[Scale]:
    """Return how large the values of each of some tensors are; few ones are looked at together.

    Of others it is evenly spaced runs that count, a million values a chunk.
    """
    is_few = [element_count(leaf.shape) <= _FEW for leaf in leaves]
    few = [
        np.concatenate([np.zeros(0, np.float32), *LeafValues(leaf)])
        for leaf, found in zip(leaves, is_few, strict=True)
        if found
    ]
    scale_of_few = iter(Scale.of_few(few))
    pairs = zip(leaves, is_few, strict=True)
    return [
        next(scale_of_few) if found else Scale.of(Sketch.of(map(_sample, LeafValues(leaf))))
        for leaf, found in pairs
    ]


def _sample(values: Floats) -> Floats:
    """Take every n-th run of a chunk: where runs lie depends on its length alone."""
    skipped = values.size // _SAMPLED
    if skipped < 2:
        return values
    runs = values[: values.size // _RUN * _RUN].reshape(-1, _RUN)
    return np.ascontiguousarray(runs[::skipped])


def squared_gradients(anatomy: Anatomy) -> dict[Path, float]:
    """Return the mean squared gradient of each weight tensor whose optimizer keeps an average of it.

    It is the diagonal of the empirical Fisher information, up to one factor for all tensors of a run. For a
    small error e the loss rises by about half the sum of Fisher information times e^2, where that stands for
    the Hessian (LeCun, Denker and Solla, Optimal Brain Damage, NIPS 1989, section 2).
    """
    found, leaves = {}, anatomy.captured.leaves
    for parameter in anatomy.parameters:
        value = _mean_square(parameter, leaves)
        if parameter.weight is not None and value is not None:
            found[leaves[parameter.weight].path] = value
    return found


def first_moments(anatomy: Anatomy) -> Iterator[tuple[Path, CapturedLeaf]]:
    """Yield the first moment of each weight that an optimizer keeps one of, by the weight's path."""
    leaves = anatomy.captured.leaves
    for one in anatomy.parameters:
        moment = one.leaves.get(FIRST_MOMENT, one.leaves.get(MOMENTUM))
        if one.weight is None or moment is None or anatomy.roles[one.weight] is not Role.WEIGHT:
            continue
        if leaves[moment].dtype.quantizable:
            yield leaves[one.weight].path, leaves[moment]


def filled(known: Mapping[Path, float], paths: Sequence[Path]) -> dict[Path, float]:
    """Return a value for each path: those not known get the geometric mean of all; empty if none is known."""
    logarithms = [math.log(known[path]) for path in paths if path in known]
    if not logarithms:
        return {}
    typical = math.exp(math.fsum(logarithms) / len(logarithms))
    return {path: known.get(path, typical) for path in paths}


def _mean_square(parameter: Parameter, leaves: Sequence[CapturedLeaf]) -> float | None:
    for name in (*_SQUARES, *_GRADIENTS):
        index = parameter.leaves.get(name)
        # Complex numbers, narrow floats and integers are codes or have no square of this kind.
        if index is not None and leaves[index].dtype.quantizable:
            value = _mean(leaves[index], squared=name in _GRADIENTS)
            # Zero tells nothing: the tensor was frozen, or has not been trained yet.
            return value if math.isfinite(value) and value > 0 else None
    return None


def _mean(leaf: CapturedLeaf, *, squared: bool) -> float:
    total, count = 0.0, 0
    for part in leaf.views():
        values = sample_of(part, leaf.dtype).astype(np.float64)
        total += float((values * values if squared else values).sum())
        count += values.size
    return total / count if count else 0.0
