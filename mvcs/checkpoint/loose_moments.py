"""Moments that stand in the groups of no optimizer: what their names, or nothing, tells of them."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from mvcs.checkpoint.optimizers import Parameter
from mvcs.checkpoint.roles import Role
from mvcs.checkpoint.standing import GROUPS, MOMENT_NAMES, Standing, path_components, standings_of
from mvcs.checkpoint.state.captured import Captured, CapturedLeaf
from mvcs.objects import Path, element_count

_NO_GROUP = (-1, -1)
Place = tuple[bool, tuple[object, ...]]


def loose_parameters(
    captured: Captured, kinds: Sequence[Role], grouped: Collection[Parameter]
) -> list[Parameter]:
    """Return the moments that `optimizer_parameters` does not know of, by what they may belong to.

    Args:
        captured: the state or files.
        kinds: the role of each leaf.
        grouped: what it returned.
    """
    covered = {index for one in grouped for index in _leaves_of(one)}
    loose = [index for index, kind in enumerate(kinds) if kind is Role.MOMENT and index not in covered]
    # Most states have none: then nothing is walked once more.
    standings = standings_of(captured) if loose else {}
    found: dict[Place, dict[str, int]] = defaultdict(dict)
    for index in loose:
        leaf, named = captured.leaves[index], standings.get(index) is Standing.STATE
        if named or _is_kept(leaf):
            parent, name = _own_name(leaf.path) if named else _likely_name(leaf.path)
            found[named, parent][name] = index
    kin = frozenset(name for (named, _), leaves in found.items() if not named for name in leaves)
    return [_parameter(place, leaves, kin) for place, leaves in found.items()]


def _parameter(place: Place, leaves: dict[str, int], kin: frozenset[str]) -> Parameter:
    named, parent = place
    key = ".".join(map(str, parent))
    return Parameter(key, _NO_GROUP, {}, leaves, is_named=named, kin=frozenset() if named else kin)


def _leaves_of(parameter: Parameter) -> Iterator[int]:
    yield from parameter.leaves.values()
    for found in parameter.nested.values():
        yield from found


def _is_kept(leaf: CapturedLeaf) -> bool:
    """Tell whether a leaf is more than a counter or a setting."""
    return element_count(leaf.shape) != 1 and GROUPS not in leaf.path


def _own_name(path: Path) -> tuple[tuple[object, ...], str]:
    """Return what a tensor is called, and what stands before that; a key may hold several parts."""
    parts = path_components(path)
    return tuple(parts[:-1]), parts[-1] if parts else ""


def _likely_name(path: Path) -> tuple[tuple[object, ...], str]:
    """Return what in a path is most likely the name of a moment, and the rest: the last that is no number."""
    parts = path_components(path)
    words = [at for at, part in enumerate(parts) if not part.isdigit()]
    moments = [at for at in words if parts[at] in MOMENT_NAMES]
    at = (moments or words or [len(parts) - 1])[-1]
    return (at, *parts[:at], *parts[at + 1 :]), parts[at] if parts else ""
