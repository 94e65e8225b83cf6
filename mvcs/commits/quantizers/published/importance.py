"""How important each weight of a state is: by what its optimizer keeps, or by scores that are handed in."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from mvcs.checkpoint import CapturedLeaf, Role, path_components
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.treatments import FIRST_MOMENT, MOMENTUM
from mvcs.errors import UsageError
from mvcs.objects import Path, chunk_elements, element_count
from mvcs.quantize import Floats, KMeansConfig, QuantizerConfig, to_float32

Scores = Callable[[int], Floats]

_OUTER = 3  # keys before a weight's own name: a file, a part of the run


@dataclass(frozen=True)
class Importance:
    """Gives the scores of weights, chunk by chunk.

    Attributes:
        moments: the first moment of a weight, by the weight's path.
        given: scores of a weight, larger ones more important, by its name in the model.
    """

    moments: Mapping[Path, CapturedLeaf] = field(default_factory=dict)
    given: Mapping[str, ArrayLike] = field(default_factory=dict)

    def scores(self, leaf: CapturedLeaf) -> Scores | None:
        """Return a function that gives the scores of a chunk by its number; None where none are known.

        The score of a moment m is |m * w| (Inshrinkerator, section 4.1, with the optimizer's own average of
        gradients for the gradient).
        """
        moment = self.moments.get(leaf.path)
        if moment is not None:
            return _products(leaf, moment)
        found = next((self.given[name] for name in _names(leaf.path) if name in self.given), None)
        return None if found is None else _handed_in(leaf, found)


def importance_of(anatomy: Anatomy, config: QuantizerConfig, given: Mapping[str, ArrayLike]) -> Importance:
    """Find the scores that settings ask for.

    Raises:
        UsageError: they have to be handed in, and are not.
    """
    score = config.score if isinstance(config, KMeansConfig) else None
    if score == "sensitivity" and not given:
        raise UsageError(
            "pruning or protecting by sensitivity needs scores of the weights",
            hint="hand them in as importance=, or use momentum",
        )
    if score == "momentum":
        return Importance(moments=dict(_first_moments(anatomy)))
    return Importance(given=given) if score else Importance()


def _products(leaf: CapturedLeaf, moment: CapturedLeaf) -> Scores:
    def scores(index: int) -> Floats:
        first = _part(moment, leaf, index)
        with np.errstate(all="ignore"):
            found: Floats = np.abs(first * _part(leaf, leaf, index))
        return found

    return scores


def _part(of: CapturedLeaf, leaf: CapturedLeaf, index: int) -> Floats:
    """Return the values of a tensor in a chunk of another one's grid."""
    run, width = chunk_elements(leaf.dtype), of.dtype.itemsize
    return to_float32(of.source.part(index * run * width, run * width), of.dtype.name)


def _handed_in(leaf: CapturedLeaf, found: ArrayLike) -> Scores | None:
    values, run = np.asarray(found), chunk_elements(leaf.dtype)
    if values.size != element_count(leaf.shape) or not np.issubdtype(values.dtype, np.floating):
        return None
    flat = values.reshape(-1)

    def scores(index: int) -> Floats:
        found: Floats = np.abs(flat[index * run : (index + 1) * run].astype(np.float32))
        return found

    return scores


def _names(path: Path) -> Iterator[str]:
    """Yield what a weight may be called: its path less the keys before its name in the model, in turn."""
    yield from (".".join(path_components(path[skipped:])) for skipped in range(min(_OUTER, len(path))))


def _first_moments(anatomy: Anatomy) -> Iterator[tuple[Path, CapturedLeaf]]:
    """Yield the first moment of each weight that an optimizer keeps one of, by the weight's path."""
    leaves = anatomy.captured.leaves
    for one in anatomy.parameters:
        moment = one.leaves.get(FIRST_MOMENT, one.leaves.get(MOMENTUM))
        if one.weight is None or moment is None or anatomy.roles[one.weight] is not Role.WEIGHT:
            continue
        if leaves[moment].dtype.quantizable:
            yield leaves[one.weight].path, leaves[moment]
