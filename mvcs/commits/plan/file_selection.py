"""Which files of the commit before a new one keeps, by their ids, and which leave it."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from mvcs.checkpoint import Captured
from mvcs.delta import ElementFormat
from mvcs.errors import CorruptionError, NotFoundError, UsageError
from mvcs.history import Revision
from mvcs.objects import (
    Blob,
    DType,
    FileEntry,
    Kind,
    Leaf,
    Path,
    QuantizedTensor,
    Tree,
    acting_paths,
    is_in_the_way,
    is_inside,
    joined_trees,
)
from mvcs.progress import SILENT
from mvcs.restore import Reading, open_reading
from mvcs.store import EntryBase, Near, ObjectStore, ObjectWriter, pack_path

_DIGITS = re.compile(r"[0-9]+")
# A number behind one of these words counts steps; others count parts, ranks or versions.
_STEP = re.compile(
    r"(?:^|[^a-z])(?:steps?|epochs?|iter(?:ation)?s?|updates?|checkpoints?|ckpts?)[ ._=-]*$", re.IGNORECASE
)
Signature = tuple[Path, DType, tuple[int, ...]]
_COMPANY = "kept"


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


@dataclass(frozen=True)
class KeptFiles:
    """Some files of a commit, or its state, for one that continues it or takes its place.

    Attributes:
        tree: these files, or the state.
        parent: the commit that has them.
        names: what it calls those that have another name now, by that name.
    """

    tree: Tree
    parent: Revision
    names: Mapping[str, str] = field(default_factory=dict)

    def beside(self, stored: Tree) -> Tree:
        """Return the tree of these files and of what was stored; of a state that is kept, which is alone."""
        return self.tree if self.tree.files is None else joined_trees(stored, self.tree)

    @property
    def lossy(self) -> list[Leaf]:
        """The leaves that have an exact layer apart."""
        return [leaf for leaf in self.tree.leaves if leaf.original is not None]

    def hold(self, store: ObjectStore, writer: ObjectWriter) -> None:
        """Have the commit that is written need what the files need.

        Raises:
            CorruptionError: something of them is missing or damaged.
        """
        try:
            for leaf in self.tree.leaves:
                writer.hold(leaf.value_chunks())
            for identifier in dict(self.tree.blobs()):
                blob = Blob.decode(store.read(Kind.BLOB, identifier))
                writer.hold([identifier, *blob.chunks])
        except (CorruptionError, NotFoundError) as error:
            raise CorruptionError(
                f"a file of HEAD cannot be kept: {error.message}",
                hint="name every file to take it from the folder, or with --only leave out the others",
            ) from error

    def write_exact(self, store: ObjectStore, writer: ObjectWriter) -> bool:
        """Write the exact layer of these files once more, since it goes with its commit.

        Args:
            store: a view of the store for this reading.
            writer: of the new commit's exact layer.

        Returns:
            Whether the parent's exact layer has all of it; what was written in vain is removed.
        """
        try:
            reading = open_reading(store, self.parent, SILENT, exact=True)
            for leaf in self.lossy:
                _write_leaf(reading, leaf, writer)
        except (CorruptionError, NotFoundError):
            for name in writer.packs:
                store.backend.delete(pack_path(name, exact=True))
            return False
        return True


def _write_leaf(reading: Reading, leaf: Leaf, writer: ObjectWriter) -> None:
    store, value = reading.store, leaf.tensor
    element = ElementFormat.of(leaf.dtype.itemsize, leaf.dtype.kind)
    for index, chunk in enumerate(store.chunks(leaf, exact=True)):
        near = None
        if isinstance(value, QuantizedTensor):
            near = Near(EntryBase(leaf.value, index), partial(store.restored_chunk, value, index))
        writer.put_chunk(chunk, element, near, company=_COMPANY)
