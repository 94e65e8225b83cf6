"""What a bounded commit does with each leaf: decided before the first byte is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mvcs.checkpoint import CapturedLeaf, Role, path_components
from mvcs.objects import Path

SECOND_MOMENTS = frozenset({"exp_avg_sq", "max_exp_avg_sq", "square_avg"})
FIRST_MOMENT, ITS_SECOND = "exp_avg", "exp_avg_sq"
MOMENTUM = "momentum_buffer"
MEAN = "grad_avg"
VARIANCE = "running_var"


class Treatment(StrEnum):
    """What is done with a leaf.

    EXACT keeps it bit for bit. WEIGHT is up to the quantizer. FINE is a fine lattice, for tensors of one
    dimension, and VARIANCE the same for running variances, whose logarithm counts. SECOND, FIRST and MOMENTUM
    are optimizer moments: FIRST is coded over the root of the second moment beside it. COPY is a master
    weight rounded to 16 bits, and is made again from what the master restores.
    """

    EXACT = "exact"
    WEIGHT = "weight"
    FINE = "fine"
    VARIANCE = "variance"
    SECOND = "second"
    FIRST = "first"
    MOMENTUM = "momentum"
    COPY = "copy"


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
    leaves: Sequence[CapturedLeaf], kinds: Sequence[Role], copies: Mapping[int, int], *, moments: bool
) -> list[list[Planned]]:
    """Return every leaf once, in groups: a leaf, then those that refer to it.

    Args:
        leaves: what was captured.
        kinds: the role of each.
        copies: the master of each leaf that is a low-precision copy.
        moments: whether optimizer moments are to be bounded too.
    """
    places = {leaf.path: index for index, leaf in enumerate(leaves)}
    found = [
        _planned(index, leaf, kind, places, leaves, moments=moments)
        for index, (leaf, kind) in enumerate(zip(leaves, kinds, strict=True))
    ]
    for index, master in copies.items():
        # A bias and a moment may both be zeros; only a weight is a master.
        if {found[index].treatment, found[master].treatment} <= _COPIED:
            found[index] = Planned(index, Treatment.COPY, master)
    return _grouped(found)


def _planned(
    index: int,
    leaf: CapturedLeaf,
    kind: Role,
    places: dict[Path, int],
    leaves: Sequence[CapturedLeaf],
    *,
    moments: bool,
) -> Planned:
    name = path_components(leaf.path)[-1] if leaf.path else ""
    if kind is Role.WEIGHT:
        return Planned(index, Treatment.WEIGHT)
    if kind is Role.SMALL and leaf.shape:
        return Planned(index, Treatment.VARIANCE if name == VARIANCE else Treatment.FINE)
    if kind is Role.MOMENT and moments and leaf.dtype.quantizable:
        return _moment(index, leaf, name, places, leaves)
    return Planned(index, Treatment.EXACT)


def _moment(
    index: int, leaf: CapturedLeaf, name: str, places: dict[Path, int], leaves: Sequence[CapturedLeaf]
) -> Planned:
    if name in SECOND_MOMENTS:
        # RMSprop's variance is this less the mean's square, which rounding could make negative.
        centered = _beside(leaf.path, MEAN) in places
        return Planned(index, Treatment.EXACT if centered else Treatment.SECOND)
    if name == MOMENTUM:
        return Planned(index, Treatment.MOMENTUM)
    if name != FIRST_MOMENT:
        return Planned(index, Treatment.EXACT)
    second = places.get(_beside(leaf.path, ITS_SECOND))
    if second is None:
        return Planned(index, Treatment.MOMENTUM)  # such as Lion's, whose only moment is a momentum
    alike = (leaves[second].dtype, leaves[second].shape) == (leaf.dtype, leaf.shape)
    return Planned(index, Treatment.FIRST, second) if alike else Planned(index, Treatment.EXACT)


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
