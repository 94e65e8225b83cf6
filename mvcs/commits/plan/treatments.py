"""What a bounded commit does with each leaf: decided before the first byte is stored."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mvcs.checkpoint import MODEL, CapturedLeaf, Moment, Role, path_components
from mvcs.commits.plan.moment_kinds import MomentKinds, MomentTiers
from mvcs.objects import Path

FIRST_MOMENT, ITS_SECOND = "exp_avg", "exp_avg_sq"
MOMENTUM = "momentum_buffer"
VARIANCE = "running_var"


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
    if role is Role.MOMENT and moments is not None and leaf.dtype.quantizable and not _is_evaluated(leaf):
        return moments.planned(index)
    return Planned(index, Treatment.EXACT)


def _is_evaluated(leaf: CapturedLeaf) -> bool:
    """Tell whether an evaluation may see a leaf: candidates have its own values where it is a moment."""
    return leaf.path[:1] == (MODEL,)


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
