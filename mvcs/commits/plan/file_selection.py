"""Which files of the commit before a new one keeps, and which leave it."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from mvcs.checkpoint import Captured
from mvcs.commits.plan.predecessors import earlier_step, predecessors, shapes, shapes_of
from mvcs.errors import UsageError
from mvcs.objects import Tree, acting_paths, is_in_the_way, is_inside


@dataclass(frozen=True)
class Selection:
    """What becomes of the files of the commit before.

    Attributes:
        kept: those that stay as they are.
        left: those that the new commit does not have.
        notes: why, where a new file takes an old one's place.
    """

    kept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SelectionRules:
    """What decides it.

    Attributes:
        before: the tree of the commit before.
        captured: the files that are taken from the folder.
        named: what the user named, by its path in the commit; whether it is a folder.
        elsewhere: paths of files that were committed from outside the folder.
        stored: paths of files that lie in a store, and were committed before those were left out.
    """

    before: Tree
    captured: Captured
    named: Mapping[str, bool]
    elsewhere: Collection[str]
    stored: Collection[str] = ()

    def of(self, *, only: bool, replaces: bool) -> Selection:
        """Return what becomes of the other files.

        Args:
            only: the commit holds what was named and nothing else.
            replaces: what was named takes the place of what it is stored near.

        Raises:
            UsageError: with `replaces`, HEAD has nothing like something that was named.
        """
        taken = {entry.path for entry in self.captured.files or ()}
        rest = [entry.path for entry in self.before.files or () if entry.path not in taken]
        if only:
            return Selection(left=tuple(rest))
        places = self._replaced(rest) if replaces else self._earlier_steps(rest)
        gone = {path for path in rest if self._is_gone(path) or is_in_the_way(path, taken)}
        gone.update(acting_paths(rest), set(self.stored).intersection(rest))
        leaving = gone | {path for path in rest if any(is_inside(path, old) for old in places)}
        notes = tuple(f"'{new}' takes the place of '{old}'" for old, new in places.items())
        kept = tuple(path for path in rest if path not in leaving)
        return Selection(kept, tuple(path for path in rest if path in leaving), notes)

    def _is_gone(self, path: str) -> bool:
        """Tell whether a file would have been found in a folder that was named."""
        folders = [name for name, is_folder in self.named.items() if is_folder]
        return path not in self.elsewhere and any(is_inside(path, folder) for folder in folders)

    def _new(self) -> dict[str, bool]:
        """Return what was named that the commit before does not know, not even in part."""
        old = [entry.path for entry in self.before.files or ()]
        return {
            name: is_folder
            for name, is_folder in self.named.items()
            if not any(is_inside(path, name) for path in old)
        }

    def _earlier_steps(self, rest: Collection[str]) -> dict[str, str]:
        """Return which files and folders stand for an earlier step of something new, with the new one."""
        found = {}
        for name, is_folder in self._new().items():
            depth = len(PurePosixPath(name).parts)
            old = earlier_step(name, {_cut(path, depth) for path in rest} if is_folder else rest)
            if old is not None:
                found[old] = name
        return found

    def _replaced(self, rest: Collection[str]) -> dict[str, str]:
        """Return which files and folders something new is stored near, with the new one."""
        leaves = ((leaf.path, leaf.dtype, leaf.shape) for leaf in self.captured.leaves)
        old = {path: shape for path, shape in shapes_of(self.before).items() if path in rest}
        twins = predecessors(shapes(self.captured.files, leaves), old)
        found: dict[str, str] = {}
        for name, is_folder in self._new().items():
            inside = {path: twin for path, twin in twins.items() if is_inside(path, name)}
            if not inside:
                raise UsageError(f"HEAD has nothing that is like '{name}'", hint="leave out --replace")
            place = _folder_of(name, inside) if is_folder else None
            found |= {twin: path for path, twin in inside.items()} if place is None else {place: name}
        return found


def _cut(path: str, depth: int) -> str:
    return "/".join(path.split("/")[:depth])


def _folder_of(name: str, twins: Mapping[str, str]) -> str | None:
    """Return the folder that has the twins of a new folder's files; None where that would be too much."""
    folders = Counter(
        twin.removesuffix(inner).rstrip("/")
        for path, twin in twins.items()
        if twin.endswith(inner := path.removeprefix(name))
    )
    found = folders.most_common(1)
    return found[0][0] if found and found[0][0] and not is_inside(name, found[0][0]) else None
