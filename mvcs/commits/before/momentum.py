"""What momentum would still do to weights, carried into them by commits that leave it out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.moment_tiers import MomentTiers
from mvcs.memory import Budget, Use
from mvcs.objects import Path, chunk_elements, column_count, element_count, row_count
from mvcs.quantize import (
    CARRIED_MOMENT,
    LEADING_DIRECTIONS,
    Floats,
    Halves,
    UpdateRule,
    from_upper_halves,
    remove_leading_directions,
    to_float32,
    upper_halves,
)


@dataclass
class Momentum:
    """Where the first moments of a state would still take its weights if all further gradients were zero.

    That is where weights have to start for the steps after a restore without first moments to lead to the
    same place: the auxiliary iterate of momentum methods (Ghadimi, Feyzmahdavian and Johansson 2015, section
    3). Along the leading directions of an update gradients would bring weights back, so these are left out.
    Safe to use from several threads, as long as each takes tensors of its own.

    Attributes:
        anatomy: the state.
        tiers: whose first moments are carried.
        memory: what moves may take, 2 bytes a weight; of more none is told.
    """

    anatomy: Anatomy
    tiers: MomentTiers
    memory: Budget
    _moves: dict[Path, Halves | None] = field(default_factory=dict)

    def chunk(self, leaf: CapturedLeaf, index: int) -> Floats | None:
        """Return what is added to one chunk of a weight: float32 [n]; None where nothing tells it."""
        if leaf.path not in self._moves:
            self._moves[leaf.path] = self._move(leaf)
        found, run = self._moves[leaf.path], chunk_elements(leaf.dtype)
        return None if found is None else from_upper_halves(found[index * run : (index + 1) * run])

    def __post_init__(self) -> None:
        """Hold nothing yet."""
        self._room = self.memory.hold(Use.MOMENTUM)

    @cached_property
    def _of_weights(self) -> dict[Path, tuple[UpdateRule, dict[str, CapturedLeaf]]]:
        leaves, found = self.anatomy.captured.leaves, {}
        for one, rule in ((state.parameter, state.rule) for state in self.anatomy.optimizers):
            carries = self.tiers[one.any_leaf].first == CARRIED_MOMENT
            if not carries or one.weight is None or rule is None or one.settings.get("maximize"):
                continue
            moments = {name: leaves[one.leaves[name]] for name in rule.moments if name in one.leaves}
            if len(moments) == len(rule.moments) and _alike(leaves[one.weight], list(moments.values())):
                found[leaves[one.weight].path] = rule, moments
        values = sum(element_count(next(iter(moments.values())).shape) for _, moments in found.values())
        return found if self._room.resize(2 * values) else {}

    def _move(self, leaf: CapturedLeaf) -> Halves | None:
        if leaf.path not in self._of_weights:
            return None
        rule, moments = self._of_weights[leaf.path]
        with np.errstate(all="ignore"):
            moves = _updates(rule, moments).reshape(leaf.shape[0], -1)
            moves *= np.float32(-1 / (1 - rule.persistence))
        if not remove_leading_directions(moves):
            return None
        return upper_halves(moves.reshape(-1).view(np.uint8), "float32")


def _alike(weight: CapturedLeaf, moments: Sequence[CapturedLeaf]) -> bool:
    """Tell whether moments are those of a large matrix, and of one type, as those are that are left out."""
    kinds = {one.dtype for one in moments}
    shapes = {one.shape for one in (weight, *moments)}
    large = min(row_count(weight.shape), column_count(weight.shape)) > LEADING_DIRECTIONS
    return large and len(shapes) == len(kinds) == 1 and moments[0].dtype.quantizable


def _updates(rule: UpdateRule, moments: dict[str, CapturedLeaf]) -> Floats:
    """Return the next update of a whole parameter, without what decay adds to it."""
    names = list(moments)
    parts = zip(*(leaf.views() for leaf in moments.values()), strict=True)
    kinds = [leaf.dtype.name for leaf in moments.values()]
    found = []
    for chunk in parts:
        values = {name: to_float32(part, kind) for name, part, kind in zip(names, chunk, kinds, strict=True)}
        found.append(rule.update(values))
    return np.concatenate(found)
