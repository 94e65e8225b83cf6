"""What is kept of moments: a tier for each optimizer of a state, or one for all."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mvcs.checkpoint import Moment
from mvcs.commits.plan.optimizer_states import OptimizerState
from mvcs.objects import TIERS_KEY
from mvcs.quantize import ABSENT_MOMENT, CARRIED_MOMENT, MomentsConfig, cheapest_tier


@dataclass(frozen=True)
class MomentTiers:
    """How exactly the moments of a state are kept.

    Attributes:
        shared: of all moments that `leaves` does not have; a commit records it in its quantizer.
        leaves: of tensors in an optimizer's state, by the number of the leaf.
        told: the tier of each optimizer by its name, where they differ.
    """

    shared: MomentsConfig
    leaves: Mapping[int, MomentsConfig] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def chosen(
        cls,
        states: Sequence[OptimizerState],
        large: Sequence[OptimizerState],
        described: Mapping[str, Moment],
        max_degradation: float | None,
    ) -> "MomentTiers":
        """Choose the cheapest tier of each optimizer that an accepted degradation allows.

        Args:
            states: of all parameters in their optimizers.
            large: those of them that decide what the commit says of all: the most demanding one counts.
            described: what the user says of tensors, by their names.
            max_degradation: see `mvcs.quantize.cheapest_tier`.
        """
        counted = [one.tier_class(described) for one in large]
        classes = [one for one in counted if one is not None]
        shared = MomentsConfig.EXACT if counted and not classes else cheapest_tier(classes, max_degradation)
        leaves: dict[int, MomentsConfig] = {}
        told: dict[str, str] = {}
        for one in states:
            kind = one.tier_class(described)
            if kind is not None:
                tier = cheapest_tier([kind], max_degradation)
                leaves.update(dict.fromkeys(one.parameter.leaves.values(), tier))
                told.setdefault(one.name or kind, tier.name)
        return cls(shared, leaves, told if len(set(told.values())) > 1 else {})

    def without_carrying(self) -> "MomentTiers":
        """Return the same with first moments left out where weights would carry them."""
        leaves = {index: _absent(tier) for index, tier in self.leaves.items()}
        return replace(self, shared=_absent(self.shared), leaves=leaves)

    def __getitem__(self, index: int) -> MomentsConfig:
        """Return the tier of a leaf."""
        return self.leaves.get(index, self.shared)

    @property
    def carries(self) -> bool:
        """Whether weights carry any first moment."""
        return any(tier.first == CARRIED_MOMENT for tier in (self.shared, *self.leaves.values()))

    def to_fields(self) -> dict[str, str]:
        """Return what a commit records: nothing where all optimizers have one tier."""
        return {TIERS_KEY: json.dumps(self.told, sort_keys=True, separators=(",", ":"))} if self.told else {}


def _absent(tier: MomentsConfig) -> MomentsConfig:
    return replace(tier, first=ABSENT_MOMENT) if tier.first == CARRIED_MOMENT else tier
