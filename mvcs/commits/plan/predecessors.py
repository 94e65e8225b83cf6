"""Which file of a commit a new one continues: trainers write `step_1000.pt`, then `step_2000.pt`."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from mvcs.objects import DType, FileEntry, Path, Tree

_DIGITS = re.compile(r"[0-9]+")
# A number behind one of these words counts steps; others count parts, ranks or versions.
_STEP = re.compile(
    r"(?:^|[^a-z])(?:steps?|epochs?|iter(?:ation)?s?|updates?|checkpoints?|ckpts?)[ ._=-]*$", re.IGNORECASE
)

Signature = tuple[Path, DType, tuple[int, ...]]


@dataclass(frozen=True)
class Shape:
    """What tells of a file whether it is like another.

    Attributes:
        entry: the file.
        leaves: path behind the file's name, type and sizes of each of its tensors.
    """

    entry: FileEntry
    leaves: frozenset[Signature]


def shapes(files: Iterable[FileEntry] | None, leaves: Iterable[Signature]) -> dict[str, Shape]:
    """Return the shape of every file, from the leaves of all with their full paths."""
    found: dict[object, set[Signature]] = {}
    for path, dtype, sizes in leaves:
        found.setdefault(path[0], set()).add((path[1:], dtype, sizes))
    return {entry.path: Shape(entry, frozenset(found.get(entry.path, ()))) for entry in files or ()}


def shapes_of(tree: Tree) -> dict[str, Shape]:
    """Return the shape of every file of a commit."""
    leaves = zip(tree.leaf_paths(), tree.leaves, strict=True)
    return shapes(tree.files, ((path, leaf.dtype, leaf.shape) for path, leaf in leaves))


def predecessors(new: Mapping[str, Shape], old: Mapping[str, Shape]) -> dict[str, str]:
    """Return for each new path that has one the old file of its format that is most like it.

    That is the one with most leaves of the same name, type and sizes; of several the one whose name differs
    in numbers alone, by least; of several the last.
    """
    return {
        path: max(like, key=lambda twin: _likeness(shape, old[twin]))
        for path, shape in new.items()
        if path not in old and (like := _same_format(shape, old))
    }


def _same_format(shape: Shape, old: Mapping[str, Shape]) -> list[str]:
    twins = [path for path, other in old.items() if other.entry.format == shape.entry.format]
    # With a single one there is nothing to choose; of several, one without a common leaf is none.
    return twins if len(twins) == 1 else [path for path in twins if shape.leaves & old[path].leaves]


def _likeness(shape: Shape, other: Shape) -> tuple[int, bool, list[int], str]:
    path, twin = shape.entry.path, other.entry.path
    alike = _pattern(path) == _pattern(twin)
    apart = [-abs(one - two) for one, two in zip(_numbers(path), _numbers(twin), strict=False)]
    return len(shape.leaves & other.leaves), alike, apart if alike else [], twin


def _pattern(path: str) -> str:
    return _DIGITS.sub("#", path)


def _numbers(path: str) -> list[int]:
    return [int(digits[:18]) for digits in _DIGITS.findall(path)]


def earlier_step(path: str, others: Collection[str]) -> str | None:
    """Return the one other path that is this one at an earlier step; None for none, and for several."""
    found = [other for other in others if _is_earlier(other, path)]
    return found[0] if len(found) == 1 else None


def _is_earlier(earlier: str, later: str) -> bool:
    if earlier == later or _pattern(earlier) != _pattern(later):
        return False
    numbers = zip(_numbers(earlier), _numbers(later), _DIGITS.finditer(later), strict=True)
    changed = [(one, two, later[: match.start()]) for one, two, match in numbers if one != two]
    return bool(changed) and all(one < two and _STEP.search(before) for one, two, before in changed)
