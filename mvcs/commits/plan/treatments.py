"""What a bounded commit does with each leaf: decided before the first byte is stored."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from mvcs.checkpoint import MODEL, CapturedLeaf, Moment, Role, path_components
from mvcs.commits.plan.anatomy import OptimizerState
from mvcs.errors import some_of
from mvcs.objects import TIERS_KEY, Commit, Path
from mvcs.quantize import ABSENT_MOMENT, CARRIED_MOMENT, MomentsConfig, cheapest_tier

FIRST_MOMENT, ITS_SECOND = "exp_avg", "exp_avg_sq"
MOMENTUM = "momentum_buffer"
VARIANCE = "running_var"
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
    found = {} if before is None else before.table(PROVENANCE)
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


class Treatment(StrEnum):
    """What is done with a leaf.

    EXACT keeps it bit for bit. WEIGHT is up to the quantizer. FINE is a fine lattice, for tensors of one
    dimension, and VARIANCE the same for running variances, whose logarithm counts. SECOND, FIRST and MOMENTUM
    are optimizer moments, and so is ITERATE, which weights are an average of. FIRST is coded over the root of
    the second moment beside it. COPY is a master weight rounded to 16 bits, and is made again from what the
    master restores.
    """

    EXACT = "exact"
    WEIGHT = "weight"
    FINE = "fine"
    VARIANCE = "variance"
    SECOND = "second"
    FIRST = "first"
    MOMENTUM = "momentum"
    ITERATE = "iterate"
    COPY = "copy"


_OF_MOMENTS = {
    Moment.SECOND: Treatment.SECOND,
    Moment.MOMENTUM: Treatment.MOMENTUM,
    Moment.WEIGHT: Treatment.FINE,
    Moment.EXACT: Treatment.EXACT,
}
_WEIGHTS = frozenset({Moment.WEIGHT, Moment.ITERATE})  # not moments, though an optimizer keeps them
_COPIED = frozenset({Treatment.WEIGHT, Treatment.FINE})


@dataclass(frozen=True)
class Planned:
    """One leaf and what is done with it.

    Attributes:
        index: the leaf's number.
        treatment: what is done.
        source: the leaf this one refers to and that is stored before it: for FIRST the second moment,
            for COPY the master.
    """

    index: int
    treatment: Treatment
    source: int | None = None


def plan(
    leaves: Sequence[CapturedLeaf],
    roles: Sequence[Role],
    copies: Mapping[int, int],
    kinds: MomentKinds,
    tiers: MomentTiers,
    is_free: Callable[[CapturedLeaf], bool] = lambda _: True,
) -> list[list[Planned]]:
    """Return every leaf once, in groups: a leaf, then those that refer to it.

    Args:
        leaves: what was captured.
        roles: of each.
        copies: the master of each leaf that is a low-precision copy.
        kinds: what optimizer moments are.
        tiers: which of them are to be bounded too.
        is_free: tells of a leaf that is no moment whether it may be rounded.
    """
    places = {leaf.path: index for index, leaf in enumerate(leaves)}
    moments = _Moments(leaves, places, kinds, is_free)
    found = [
        _planned(index, leaf, role, moments if tiers[index].rounds else None)
        if role is Role.MOMENT or is_free(leaf)
        else Planned(index, Treatment.EXACT)
        for index, (leaf, role) in enumerate(zip(leaves, roles, strict=True))
    ]
    for index, master in copies.items():
        # A bias and a moment may both be zeros; only a weight is a master.
        if {found[index].treatment, found[master].treatment} <= _COPIED:
            found[index] = Planned(index, Treatment.COPY, master)
    return _grouped(found)


def _planned(index: int, leaf: CapturedLeaf, role: Role, moments: "_Moments | None") -> Planned:
    if role is Role.WEIGHT:
        return Planned(index, Treatment.WEIGHT)
    if role is Role.SMALL and leaf.shape:
        return Planned(index, Treatment.VARIANCE if _name(leaf) == VARIANCE else Treatment.FINE)
    # Of what an evaluation may see, candidates have a moment's own values.
    is_evaluated = leaf.path[:1] == (MODEL,)
    if role is Role.MOMENT and moments is not None and leaf.dtype.quantizable and not is_evaluated:
        return moments.planned(index)
    return Planned(index, Treatment.EXACT)


@dataclass(frozen=True)
class _Moments:
    """The moments among the leaves of a state."""

    leaves: Sequence[CapturedLeaf]
    places: Mapping[Path, int]
    kinds: MomentKinds
    is_free: Callable[[CapturedLeaf], bool]

    def planned(self, index: int) -> Planned:
        """Return what is done with a moment."""
        kind, leaf = self._kind(index), self.leaves[index]
        if kind in _WEIGHTS and not (_name(leaf) in self.kinds.described or self.is_free(leaf)):
            return Planned(index, Treatment.EXACT)
        if kind is Moment.ITERATE:
            return Planned(index, Treatment.ITERATE if len(leaf.shape) > 1 else Treatment.FINE)
        if kind is not Moment.FIRST:
            return Planned(index, _OF_MOMENTS[kind])
        seconds = [other for other in self._beside(index) if self._kind(other) is Moment.SECOND]
        if not seconds:
            return Planned(index, Treatment.MOMENTUM)
        alike = (other for other in seconds if _alike(self.leaves[other], leaf))
        second = next(alike, None)
        return Planned(index, Treatment.EXACT) if second is None else Planned(index, Treatment.FIRST, second)

    def _kind(self, index: int) -> Moment:
        return self.kinds.leaves.get(index, Moment.EXACT)

    def _beside(self, index: int) -> Iterator[int]:
        """Yield the leaves of the same parameter: the second moment that others go by first."""
        path = self.leaves[index].path
        names = (ITS_SECOND, *self.kinds.seconds)
        found = (self.places.get(_beside(path, name)) for name in names)
        yield from (other for other in found if other is not None)


def _alike(one: CapturedLeaf, other: CapturedLeaf) -> bool:
    return (one.dtype, one.shape) == (other.dtype, other.shape)


def _name(leaf: CapturedLeaf) -> str:
    return path_components(leaf.path)[-1] if leaf.path else ""


def _beside(path: Path, name: str) -> Path:
    """Return the path of the leaf called `name` beside one; a key may hold several parts, joined by dots."""
    last = str(path[-1]).rpartition(".")
    return (*path[:-1], f"{last[0]}.{name}" if last[1] else name)


def _grouped(found: Sequence[Planned]) -> list[list[Planned]]:
    groups = {item.index: [item] for item in found if item.source is None}
    for item in found:
        if item.source is not None:
            groups[item.source].append(item)
    return list(groups.values())
