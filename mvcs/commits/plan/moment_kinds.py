"""What every moment of a state is, and what of it the user described."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mvcs.checkpoint import Moment
from mvcs.commits.plan.optimizer_states import OptimizerState
from mvcs.errors import some_of
from mvcs.objects import TIERS_KEY, Commit
from mvcs.quantize import ABSENT_MOMENT, CARRIED_MOMENT, MomentsConfig, cheapest_tier

PROVENANCE: Final = "moment kinds"
NO_SUCH_MOMENT: Final = "no optimizer's state has a tensor of that name"  # in notes
_COUNTERS: Final = frozenset({"step", "mu_product"})
_NAMED = 12


@dataclass(frozen=True)
class MomentKinds:
    """What the moments of a state are.

    Attributes:
        leaves: what moments are, by the number of the leaf; those it does not have are kept exactly.
        described: what the user says of tensors, by their names.
        notes: why moments are kept exactly though they were not to be.
    """

    leaves: Mapping[int, Moment] = field(default_factory=dict)
    described: Mapping[str, Moment] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> list[str]:
        """The names that are described as second moments."""
        return [name for name, kind in self.described.items() if kind is Moment.SECOND]

    @classmethod
    def of(
        cls, states: Sequence[OptimizerState], config: MomentsConfig, before: Commit | None = None
    ) -> "MomentKinds":
        """Tell what the moments of all states are.

        Args:
            states: of all parameters in their optimizers.
            config: what is asked for; what it describes takes the place of what `before` does.
            before: the parent, whose description goes on.
        """
        described = _remembered(before) if config.kinds is None else dict(config.kinds)
        moments = {name: Moment(kind) for name, kind in described.items()}
        leaves = dict(pair for one in states for pair in one.moments(moments))
        notes = dict.fromkeys(one.doubt(moments) for one in states) if config.rounds else {}
        mistaken = None if config.kinds is None else _mistaken(states, dict(config.kinds))
        return cls(leaves, moments, tuple(note for note in (*notes, mistaken) if note is not None))

    def to_fields(self) -> dict[str, str]:
        """Return what a commit records: nothing where nothing is described."""
        if not self.described:
            return {}
        return {PROVENANCE: json.dumps(self.described, sort_keys=True, separators=(",", ":"))}


def _mistaken(states: Sequence[OptimizerState], described: Mapping[str, str]) -> str | None:
    """Return a note on names that are described and nowhere to be found, such as misspelt ones."""
    found = {name for one in states for name in one.parameter.names}
    # Counters are not among the names found; they are kept exactly anyway, as such a description says.
    counters = {name for name in described if name in _COUNTERS and described[name] == Moment.EXACT}
    missing = described.keys() - found - counters
    if not missing or not found:
        return None
    there = some_of(sorted(found), _NAMED)
    return f"moments of {some_of(sorted(missing), _NAMED)}: {NO_SUCH_MOMENT}; there are {there}"


def _remembered(before: Commit | None) -> dict[str, str]:
    """Return what a commit, which may be hostile, says of moments."""
    text = dict(before.provenance).get(PROVENANCE) if before is not None else None
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return {}
    return {name: kind for name, kind in found.items() if isinstance(kind, str) and kind in set(Moment)}


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
