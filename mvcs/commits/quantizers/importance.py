"""How important each weight of a state is: by what its optimizer keeps, or by scores that are handed in."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from mvcs.checkpoint.roles import Role, parts_of, roles
from mvcs.checkpoint.state.captured import Captured, CapturedLeaf
from mvcs.commits.plan.treatments import FIRST_MOMENT, MOMENTUM
from mvcs.errors import UsageError
from mvcs.objects.cbor import Value
from mvcs.objects.grid import chunk_elements, element_count
from mvcs.objects.trees.structure import Path, children, tensor_reference
from mvcs.objects.trees.tree import contents_of
from mvcs.quantize.config import KMeansConfig, QuantizerConfig
from mvcs.quantize.values import Floats, to_float32

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


def importance_of(captured: Captured, config: QuantizerConfig, given: Mapping[str, ArrayLike]) -> Importance:
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
        return Importance(moments=_matched(captured))
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
    yield from (".".join(parts_of(path[skipped:])) for skipped in range(min(_OUTER, len(path))))


def _matched(captured: Captured) -> dict[Path, CapturedLeaf]:
    """Return the first moments of weights of two and more dimensions, by the weights' paths.

    By name where the optimizer knows names. Else by order: in the first part of the state that has as many
    such weights as there are such moments, of the same shapes one by one.
    """
    weights: dict[object, list[CapturedLeaf]] = defaultdict(list)
    for leaf, role in zip(captured.leaves, roles(captured), strict=True):
        if role is Role.WEIGHT:
            weights[leaf.path[:1]].append(leaf)
    found: dict[Path, CapturedLeaf] = {}
    for moments in _optimizers(captured):
        named = _by_name(weights, moments)
        found |= named if named is not None else _by_order(weights, moments)
    return found


Moments = list[tuple[str | None, CapturedLeaf]]


def _by_name(
    weights: Mapping[object, list[CapturedLeaf]], moments: Moments
) -> dict[Path, CapturedLeaf] | None:
    if any(name is None for name, _ in moments):
        return None
    known = dict(moments)
    pairs = (
        (leaf, known[name])
        for leaves in weights.values()
        for leaf in leaves
        for name in _names(leaf.path)
        if name in known
    )
    return {leaf.path: moment for leaf, moment in pairs if leaf.shape == moment.shape}


def _by_order(weights: Mapping[object, list[CapturedLeaf]], moments: Moments) -> dict[Path, CapturedLeaf]:
    shapes = [moment.shape for _, moment in moments]
    for leaves in weights.values():
        if shapes and [leaf.shape for leaf in leaves] == shapes:
            return {leaf.path: moment for leaf, (_, moment) in zip(leaves, moments, strict=True)}
    return {}


def _optimizers(captured: Captured) -> Iterator[Moments]:
    """Yield the first moments of each optimizer in the order of its parameters."""
    for _, node in contents_of(captured.files, captured.root):
        for state, groups in _states(node):
            yield list(_moments(dict(children(state)), groups, captured.leaves))


def _states(node: Value) -> Iterator[tuple[Value, Value]]:
    below = dict(children(node))
    if below.keys() >= {"state", "param_groups"}:
        yield below["state"], below["param_groups"]
        return
    for child in below.values():
        yield from _states(child)


def _moments(
    state: Mapping[object, Value], groups: Value, leaves: Sequence[CapturedLeaf]
) -> Iterator[tuple[str | None, CapturedLeaf]]:
    for _, group in children(groups):
        of = dict(children(group))
        numbers = [number for _, number in children(of.get("params"))]
        names = [name for _, name in children(of.get("param_names"))] or [None] * len(numbers)
        for number, name in zip(numbers, names, strict=False):
            kept = dict(children(state.get(number) if isinstance(number, int | str) else None))
            reference = tensor_reference(kept.get(FIRST_MOMENT, kept.get(MOMENTUM)))
            if reference is None:
                continue
            moment = leaves[reference[0]]
            if len(moment.shape) > 1 and moment.dtype.quantizable:
                yield (name if isinstance(name, str) else None), moment
