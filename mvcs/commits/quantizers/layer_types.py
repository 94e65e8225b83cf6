"""Which weights are of one layer type: by name, shape and scale, and by what the parent had in one."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from mvcs.checkpoint import CapturedLeaf, layer_type
from mvcs.objects import Commit, Path
from mvcs.quantize import Scale

PROVENANCE: Final = "layer types"
SPAN: Final = 4.0  # the largest scale over the smallest, of tensors that become one type
STAYS: Final = 8.0  # of those that stay one
_NUMBER = re.compile(r" \([0-9]+\)$")
_NONE = -1  # of a tensor of zeros, whose scale is not known yet


@dataclass(frozen=True)
class Weighed:
    """A weight, its scale, whether the parent has it in codes, whether it is frozen, and its part."""

    leaf: CapturedLeaf
    scale: Scale
    was_coded: bool
    is_frozen: bool = False
    part: str | None = None


@dataclass(frozen=True)
class LayerTypes:
    """The layer types of the weights of one commit.

    Attributes:
        names: the type of each weight; of a name that several types share, they are numbered.
        scales: of each type.
        told: what the next commit has to know: by name, which of its types each tensor is of, in order.
    """

    names: Mapping[Path, str] = field(default_factory=dict)
    scales: Mapping[str, Scale] = field(default_factory=dict)
    told: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, weights: Iterable[Weighed], before: Commit | None) -> "LayerTypes":
        """Sort weights by type.

        Args:
            weights: in their order.
            before: the parent; tensors that it had in one type stay in one as long as that fits.
        """
        known, kinds = remembered(before), defaultdict(list)
        for weight in weights:
            kinds[layer_type(weight.leaf.path, weight.leaf.shape)].append(weight)
        told = {kind: _groups(found, _before(kind, found, known)) for kind, found in kinds.items()}
        names, scales = {}, defaultdict(list)
        for kind, found in kinds.items():
            for weight, group in zip(found, told[kind], strict=True):
                name = numbered(kind, group) if max(told[kind]) > 0 else kind
                names[weight.leaf.path] = name
                scales[name].append(weight.scale)
        totals = {name: Scale.total(found) for name, found in scales.items()}
        return cls(names, totals, {kind: groups for kind, groups in told.items() if max(groups) > 0})

    def to_fields(self) -> dict[str, str]:
        """Return what a commit records: nothing where every name is of one type."""
        return {PROVENANCE: json.dumps(self.told, sort_keys=True, separators=(",", ":"))} if self.told else {}

    def __getitem__(self, leaf: CapturedLeaf) -> str:
        """Return the type of a weight; of one that was not sorted, its name alone."""
        return self.names.get(leaf.path) or layer_type(leaf.path, leaf.shape)


def numbered(name: str, group: int) -> str:
    """Return the name of one of several types that share a name; tensors of zeros are of the first."""
    return f"{name} ({max(group, 0) + 1})"


def unnumbered(name: str) -> str:
    """Return the name that a type shares with others."""
    return _NUMBER.sub("", name)


def remembered(before: Commit | None) -> Mapping[str, Sequence[int]]:
    """Read what `to_fields` gave, from a commit that may be hostile; nothing of it is an error."""
    found = {} if before is None else before.table(PROVENANCE)
    return {
        name: groups
        for name, groups in found.items()
        if isinstance(groups, list)
        and all(type(group) is int and _NONE <= group < len(groups) for group in groups)
    }


def _before(name: str, found: Sequence[Weighed], known: Mapping[str, Sequence[int]]) -> Sequence[int]:
    """Return the groups that tensors of a name were in; -1 for all where the parent does not tell."""
    if not any(weight.was_coded for weight in found):
        return [_NONE] * len(found)
    told = known.get(name, [0] * len(found))
    return told if len(told) == len(found) else [_NONE] * len(found)


def _groups(found: Sequence[Weighed], before: Sequence[int]) -> list[int]:
    """Return groups of tensors of one name: of one number of dimensions, and of scales that are alike.

    Frozen ones have groups of their own: their steps stay when others change. So have those of each part that
    is measured by itself.
    """
    numbers, begun = [_NONE] * len(found), 0
    kinds = [(len(weight.leaf.shape), weight.is_frozen, weight.part) for weight in found]
    for kind in dict.fromkeys(kinds):
        places = [at for at, own in enumerate(kinds) if own == kind]
        own = grouped([found[at].scale.rms for at in places], [before[at] for at in places])
        for at, group in zip(places, own, strict=True):
            numbers[at] = group if group == _NONE else begun + group
        begun = max(numbers) + 1
    return numbers


def grouped(scales: Sequence[float], before: Sequence[int]) -> list[int]:
    """Return groups of tensors whose scales are alike, numbered in the order of their first tensors.

    Args:
        scales: of each tensor, none below zero; zero for one that has none yet.
        before: the group that each was in, -1 for none. It stays there as long as the scales of that group
            are within a factor of 8; others join a group, or begin one, within a factor of 4.

    Returns:
        a number for each; -1 for a tensor that has no scale yet.
    """
    places = {index: math.log2(scale) for index, scale in enumerate(scales) if 0 < scale < math.inf}
    kept: dict[int, list[int]] = defaultdict(list)
    for index in places:
        if before[index] != _NONE:
            kept[before[index]].append(index)
    groups = [_staying(group, places) for group in kept.values()]
    loose = sorted(places.keys() - {index for group in groups for index in group}, key=lambda at: places[at])
    rest = [index for index in loose if not _joined(index, groups, places)]
    return _numbered([*groups, *_cut(rest, places)], len(scales))


def _staying(group: list[int], places: Mapping[int, float]) -> list[int]:
    """Return a group without those that left it: the farthest from its middle first."""
    group = sorted(group, key=lambda at: places[at])
    while places[group[-1]] - places[group[0]] > math.log2(STAYS):
        middle = places[group[len(group) // 2]]
        group.pop(0 if middle - places[group[0]] > places[group[-1]] - middle else -1)
    return group


def _joined(index: int, groups: list[list[int]], places: Mapping[int, float]) -> bool:
    """Add a tensor to the group that it lies nearest to; false if it fits none."""
    near = []
    for group in groups:
        found = [places[at] for at in group]
        if max(*found, places[index]) - min(*found, places[index]) <= math.log2(SPAN):
            near.append((abs(math.fsum(found) / len(found) - places[index]), group[0], group))
    if near:
        min(near)[2].append(index)
    return bool(near)


def _cut(found: list[int], places: Mapping[int, float]) -> list[list[int]]:
    """Cut tensors, sorted by scale, where the gaps between them are largest, until all of each are alike."""
    done, left = [], [found] if found else []
    while left:
        part = left.pop()
        if places[part[-1]] - places[part[0]] <= math.log2(SPAN):
            done.append(part)
            continue
        gaps = [places[after] - places[one] for one, after in pairwise(part)]
        at = gaps.index(max(gaps)) + 1
        left += [part[:at], part[at:]]
    return done


def _numbered(groups: list[list[int]], count: int) -> list[int]:
    numbers = [_NONE] * count
    for number, group in enumerate(sorted(groups, key=min)):
        for index in group:
            numbers[index] = number
    return numbers
