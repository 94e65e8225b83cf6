"""The values of a leaf for quantizers to look at: all of them, chunk by chunk, or a sketch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.objects import element_count
from mvcs.quantize import Floats, Scale, Sketch, to_float32

_SAMPLED = 1 << 20
_RUN = 1 << 12
_FEW = 1 << 12  # values that are sorted sooner than all buckets are looked at


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
    few = [_joined(leaf) for leaf, found in zip(leaves, is_few, strict=True) if found]
    scale_of_few = iter(Scale.of_few(few))
    pairs = zip(leaves, is_few, strict=True)
    return [next(scale_of_few) if found else Scale.of(_sampled(leaf)) for leaf, found in pairs]


def _joined(leaf: CapturedLeaf) -> Floats:
    return np.concatenate([np.zeros(0, np.float32), *LeafValues(leaf)])


def _sampled(leaf: CapturedLeaf) -> Sketch:
    sketch = Sketch()
    for part in LeafValues(leaf):
        sketch.add(_sample(part))
    return sketch


def _sample(values: Floats) -> Floats:
    """Take every n-th run of a chunk: where runs lie depends on its length alone."""
    skipped = values.size // _SAMPLED
    if skipped < 2:
        return values
    runs = values[: values.size // _RUN * _RUN].reshape(-1, _RUN)
    return np.ascontiguousarray(runs[::skipped])


def sketched(leaf: CapturedLeaf) -> Sketch:
    """Return the sketch of a tensor."""
    sketch = Sketch()
    for part in leaf.views():
        sketch.add(to_float32(part, leaf.dtype.name))
    return sketch
