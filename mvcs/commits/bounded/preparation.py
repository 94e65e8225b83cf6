"""A bounded commit made ready: all that is known before its first leaf is stored."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from numpy.typing import ArrayLike

from mvcs.checkpoint import CapturedLeaf, Role
from mvcs.commits.before.earlier_weights import EarlierWeights, Momentum, WeightHistory
from mvcs.commits.before.parent import ParentCodes, frozen_steps
from mvcs.commits.before.snap_back import SnapBack, guard_of
from mvcs.commits.bounded.groups import BoundedGroups, Refinement
from mvcs.commits.leaves.coded_tensor import Coder, Surroundings
from mvcs.commits.leaves.stored_tree import BoundedLeaves, ExactLeaves
from mvcs.commits.leaves.tensor_errors import TensorErrors
from mvcs.commits.plan.treatments import MomentKinds, MomentTiers
from mvcs.commits.quantizers.chosen import Codings, MomentCodings
from mvcs.commits.quantizers.leaf_values import first_moments
from mvcs.commits.request import ALL, Mechanisms
from mvcs.history import Revision
from mvcs.inshrinkerator import importance_of
from mvcs.objects import Path
from mvcs.quantize import WIDE_DTYPE, LatticeConfig, MomentsConfig, QuantizerConfig, out_of_range
from mvcs.store import ObjectWriter

_CODED = frozenset({Role.WEIGHT, Role.SMALL, Role.MOMENT})
_NEGLIGIBLE: Final = 0.01  # of the values that are not zero


@dataclass(frozen=True)
class Preparation:
    """What bounded commits of one state have in common, whatever their settings are.

    Attributes:
        keeper: stores leaves exactly, knows what they are to each other, and the parent's.
        history: weights of earlier commits.
        parent: the commit that it is stored near.
        restored_from: the bounded commit whose value layer the state continued from.
        importance: scores of weights, where settings want some.
        max_tensor_error: how far off a tensor may be, over the root mean square of its values.
        mechanisms: that are at work.
        parts: see `CommitRequest`.
    """

    keeper: ExactLeaves
    history: WeightHistory
    parent: Revision | None
    restored_from: Revision | None
    importance: Mapping[str, ArrayLike]
    max_tensor_error: float
    mechanisms: Mechanisms = ALL
    parts: Mapping[Path, str] | None = None

    def groups(self, config: QuantizerConfig, exact: ObjectWriter | None = None) -> BoundedGroups:
        """Look at the whole state for what its tensors have in common, and return what stores it.

        Args:
            config: the settings.
            exact: takes the exact layer; None where none is kept.
        """
        anatomy, writer = self.keeper.anatomy, self.keeper.writer
        kinds = MomentKinds.of(
            anatomy.optimizers, config.moments, self.parent.commit if self.parent else None
        )
        tiers = self._tiers(config.moments, kinds)
        config = replace(config, moments=tiers.shared)
        bounded, parents = BoundedLeaves(writer, exact), ParentCodes(self.keeper.store)
        moments = MomentCodings(config, parents, writer, leant_on=bounded.keeps_exact)
        scores = importance_of(config, self.importance, first_moments(anatomy))
        codings = Codings(config, parents, moments, scores, self.parts)
        outside = self._prepared(codings)
        errors = TensorErrors(self.max_tensor_error, config.pruned_power)
        guard = self._guard()
        refinement = Refinement(Coder(parents, self._surroundings(config, tiers)), codings, errors, guard)
        return BoundedGroups(codings, refinement, bounded, self.keeper, kinds, tiers, outside)

    def _tiers(self, moments: MomentsConfig, kinds: MomentKinds) -> MomentTiers:
        """Return what is kept of moments: as it is asked for, or by each optimizer."""
        found = MomentTiers(moments)
        if moments.is_auto:
            anatomy, bound = self.keeper.anatomy, moments.max_degradation
            found = MomentTiers.chosen(anatomy.optimizers, anatomy.large_optimizers, kinds.described, bound)
        return found if self.mechanisms.carried_momentum else found.without_carrying()

    def _prepared(self, codings: Codings) -> frozenset[Path]:
        """Show codings the weights, each with the parent's; return the tensors that no coding fits."""
        anatomy, bases = self.keeper.anatomy, self.keeper.bases
        leaves = zip(anatomy.captured.leaves, anatomy.roles, strict=True)
        outside = beyond(leaf for leaf, role in leaves if role in _CODED)
        weights = [leaf for leaf in anatomy.weights if leaf.path not in outside]
        before = self.parent.commit if self.parent else None
        if isinstance(codings.config, LatticeConfig):
            codings.frozen = self._frozen
            # What is measured by itself has steps of its own, and what is not is exact.
            codings.averages = anatomy.averages if self.parts is None else {}
        codings.prepare(((leaf, bases.find(leaf)) for leaf in weights), before)
        return outside

    @cached_property
    def _frozen(self) -> Mapping[Path, int]:
        """The weights that did not change since the parent, the same for all settings.

        Where none did, and where an optimizer has moments of one, it is settings that may have changed.
        """
        anatomy, bases = self.keeper.anatomy, self.keeper.bases
        trained = {
            anatomy.captured.leaves[one.weight].path for one in anatomy.parameters if one.weight is not None
        }
        weights = [(leaf, bases.find(leaf)) for leaf in anatomy.weights if leaf.path not in trained]
        found = frozen_steps(weights, ParentCodes(self.keeper.store), self._earlier, self._guard())
        return found if len(found) < len(anatomy.weights) else {}

    def _guard(self) -> SnapBack | None:
        return guard_of(self.keeper.store, self.history.graph, self.restored_from, self.parent)

    def _surroundings(self, config: QuantizerConfig, tiers: MomentTiers) -> Surroundings:
        momentum = Momentum(self.keeper.anatomy, tiers, self.keeper.store.memory) if tiers.carries else None
        return Surroundings(self._earlier if config.hysteresis else None, momentum)

    @cached_property
    def _earlier(self) -> EarlierWeights | None:
        """Where moves are measured from, the same for all settings."""
        return self.history.before(self.keeper.anatomy, self.restored_from, self.parent)


def beyond(leaves: Iterable[CapturedLeaf]) -> frozenset[Path]:
    """Return the paths of those of which float32 would restore zeros or infinities: no coding fits them."""
    return frozenset(leaf.path for leaf in leaves if leaf.dtype.name == WIDE_DTYPE and _is_beyond(leaf))


def _is_beyond(leaf: CapturedLeaf) -> bool:
    found = [out_of_range(part) for part in leaf.views()]
    outside, whole = (sum(counts) for counts in zip(*found, strict=True)) if found else (0, 0)
    return outside > _NEGLIGIBLE * whole
