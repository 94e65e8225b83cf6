"""What a commit holds: the structure of a state, or files, with a table of tensor leaves; and parts of it."""

import marshal
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.memory import no_collections
from mvcs.objects import cbor
from mvcs.objects.cbor import Value
from mvcs.objects.checked_fields import as_list, recording
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.objects.trees.leaves import FileEntry, Leaf, LeafReader, LeafWriter, as_file
from mvcs.objects.trees.paths import UnfitPath, unfit_paths
from mvcs.objects.trees.structure import (
    NodeTag,
    Path,
    References,
    children_of,
    renumber,
    tensor_reference,
    walk_nodes,
    walk_tensors,
)

MAX_FILES, MAX_FOLDERS = 1 << 17, 1 << 17


def contents_of(files: tuple[FileEntry, ...] | None, root: cbor.Value) -> Iterator[tuple[Path, cbor.Value]]:
    """Yield the content of every file with its path, or that of a state, which has none."""
    if files is None:
        yield (), root
    for entry in files or ():
        yield (entry.path,), entry.node


def _nodes_of(files: tuple[FileEntry, ...]) -> Iterator[cbor.Value]:
    for entry in files:
        yield entry.header
        yield entry.node


def _check_folders(parts: list[list[str]]) -> None:
    """Count the folders that sorted paths lie in: each has those that the path before it has not."""
    count, before = 0, list[str]()
    for path in parts:
        shared = next((n for n, (one, two) in enumerate(zip(before, path, strict=False)) if one != two), 0)
        count += len(path) - 1 - min(shared, len(path) - 1)
        before = path
    if count > MAX_FOLDERS:
        raise CorruptionError(f"a tree has files in {count} folders, more than {MAX_FOLDERS}")


_FEWER = "long lists of numbers fit in as arrays or tensors, and many small tensors stacked to one"

_NO_REFERENCES = 2  # a version of marshal in which equal values have equal bytes


@dataclass(frozen=True)
class Structure:
    """What a tree holds beside its leaves; trees that are alike share it, with what was worked out of it."""

    root: cbor.Value
    files: tuple[FileEntry, ...] | None

    def is_same(self, other: "Structure") -> bool:
        """Tell whether it is another; 1 and True are not the same here, which Python says are equal."""
        if self is other:
            return True
        one, two = (marshal.dumps(each.content(), _NO_REFERENCES) for each in (self, other))
        return one == two

    def content(self) -> Any:  # noqa: ANN401 - nested values
        """Return it as it is encoded."""
        if self.files is None:
            return self.root
        return [[entry.path, entry.format.value, entry.node, entry.header] for entry in self.files]

    @cached_property
    def encoded(self) -> bytes:
        """The same, encoded."""
        for entry in self.content() if self.files else ():
            as_file(entry)
        return cbor.dumps(self.content())

    @cached_property
    def references(self) -> References:
        """What is referred to, of which all is checked."""
        found = References()
        for node in [self.root] if self.files is None else _nodes_of(self.files):
            found.add(node)
        return found

    def tensor_paths(self) -> Iterator[tuple[Path, int]]:
        """Yield every path where a tensor stands, with its leaf."""
        for path, content in contents_of(self.files, self.root):
            yield from walk_tensors(content, path)

    @cached_property
    def leaf_paths(self) -> list[Path]:
        """The path where each leaf is met first."""
        paths: dict[int, Path] = {}
        for path, index in self.tensor_paths():
            paths.setdefault(index, path)
        return [paths[index] for index in range(len(paths))]


@dataclass(frozen=True)
class Tree:
    """The content of a commit: either the structure of one state, or files.

    Attributes:
        leaves: every tensor once, in the order it is first met; aliases refer to the same leaf.
        root: the structure of a state handed over in Python; None for files.
        files: the committed files, sorted by path; empty for a state.
    """

    leaves: tuple[Leaf, ...]
    root: cbor.Value = None
    files: tuple[FileEntry, ...] | None = None

    def encode(self) -> bytes:
        """Return the canonical content.

        Raises:
            UsageError: it would be refused when it is read.
        """
        with recording("this tree", hint=_FEWER):
            leaves = LeafWriter(self.leaves).items()
            content = self.structure.encoded
            self._check()
        kind = "state" if self.files is None else "files"
        return cbor.array_of([cbor.dumps(kind), content, cbor.array_of(leaves)])

    @property
    def id(self) -> ObjectId:
        """The tree's id."""
        return object_id(Kind.TREE, self.encode())

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "Tree":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a tree, or a file's path would leave the target folder.
            UnsupportedFormatError: it holds something this version does not know.
        """
        with no_collections():
            return cls._of(cbor.loads(content))

    @classmethod
    def _of(cls, value: cbor.Value) -> "Tree":
        kind, root, leaves = as_list(value, "a tree", 3)
        table = LeafReader(as_list(leaves, "a tree's leaves")).leaves()
        if kind == "state":
            tree = cls(table, root=root)
        elif kind == "files":
            tree = cls(table, files=tuple(as_file(entry) for entry in as_list(root, "a tree's files")))
        else:
            raise UnsupportedFormatError(f"a tree of the unknown kind {kind!r}")
        tree._check()
        return tree

    def is_like(self, other: "Tree") -> bool:
        """Tell whether all but the leaves is the same; what was worked out of that is shared then."""
        if not self.structure.is_same(other.structure):
            return False
        vars(self)["structure"] = other.structure
        return True

    @cached_property
    def structure(self) -> Structure:
        """All but the leaves."""
        return Structure(self.root, self.files)

    @property
    def parts(self) -> list[str] | None:
        """The keys at the top of a state, as text; None for files."""
        return [str(key) for key, _ in children_of(self.root)] if self.files is None else None

    def nodes(self) -> Iterator[tuple[Path, cbor.Value]]:
        """Yield every node with its path; the path of a file's node starts with the file's path."""
        if self.files is None:
            yield from walk_nodes(self.root)
            return
        for entry in self.files:
            if entry.header is not None:
                yield (entry.path,), entry.header
            yield from walk_nodes(entry.node, (entry.path,))

    def tensor_paths(self) -> Iterator[tuple[Path, int]]:
        """Yield every path where a tensor stands, with its leaf; those that are tied have one leaf."""
        return self.structure.tensor_paths()

    def leaf_paths(self) -> list[Path]:
        """Return for each leaf the path where it is met first."""
        return self.structure.leaf_paths

    def blobs(self) -> list[tuple[ObjectId, int]]:
        """Return id and length of every blob the tree refers to, in order."""
        return self.structure.references.blobs

    @cached_property
    def unfit(self) -> list[UnfitPath]:
        """What keeps the files from being brought into a folder."""
        return unfit_paths(entry.path for entry in self.files or ())

    @property
    def raw_bytes(self) -> int:
        """Bytes of all tensors and blobs as handed over; aliases count once."""
        return sum(leaf.raw_bytes for leaf in self.leaves) + sum(dict(self.blobs()).values())

    def _check(self) -> None:
        count = self.structure.references.leaves
        if count != len(self.leaves):
            raise CorruptionError(f"a tree has {len(self.leaves)} leaves and refers to {count}")
        self._check_files()

    def _check_files(self) -> None:
        paths = [entry.path for entry in self.files or ()]
        if len(paths) > MAX_FILES:
            raise CorruptionError(f"a tree has {len(paths)} files, more than {MAX_FILES}")
        if paths != sorted(set(paths)):
            raise CorruptionError("a tree's files are not sorted by distinct paths")
        # Sorted by their parts, a path stands right before those below it.
        parts = sorted(path.split("/") for path in paths)
        _check_folders(parts)
        if any(below[: len(above)] == above for above, below in pairwise(parts)):
            raise CorruptionError("a tree names a path as a file and as a folder")


def part_of(tree: Tree, paths: Collection[str]) -> Tree:
    """Return the tree of some of a tree's files."""
    return _numbered((entry, tree) for entry in tree.files or () if entry.path in paths)


def renamed_files(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Return the tree of some of a tree's files, by their paths, under other ones."""
    files = [replace(entry, path=names[entry.path]) for entry in tree.files or () if entry.path in names]
    return _numbered((entry, tree) for entry in sorted(files, key=lambda entry: entry.path))


def joined_trees(one: Tree, other: Tree) -> Tree:
    """Return the tree of the files of two trees, which have no path in common."""
    found = [(entry, tree) for tree in (one, other) for entry in tree.files or ()]
    return _numbered(sorted(found, key=lambda pair: pair[0].path))


def _numbered(files: Iterable[tuple[FileEntry, Tree]]) -> Tree:
    """Number leaves anew through all files, in the order in which they are met."""
    met: dict[tuple[int, int], int] = {}
    leaves: list[Leaf] = []
    entries = []
    for entry, tree in files:

        def number(index: int, tree: Tree = tree) -> int:
            new = met.setdefault((id(tree), index), len(leaves))
            if new == len(leaves):
                leaves.append(tree.leaves[index])
            return new

        entries.append(replace(entry, node=renumber(entry.node, number)))
    return Tree(tuple(leaves), files=tuple(entries))


def is_in_the_way(path: str, others: Collection[str]) -> bool:
    """Tell whether a path names a folder that one of the others needs as a file, or the other way round."""
    above = {str(parent) for parent in PurePosixPath(path).parents}
    return any(other in above or other.startswith(f"{path}/") for other in others)


def is_inside(path: str, folder: str) -> bool:
    """Tell whether a path is a folder's, or the folder itself."""
    return folder in (".", path) or path.startswith(f"{folder}/")


def files_in(tree: Tree, names: Collection[str]) -> list[str]:
    """Return the paths of a tree's files that were named, or lie in a folder that was."""
    paths = [entry.path for entry in tree.files or ()]
    return [path for path in paths if any(is_inside(path, name) for name in names)]


def narrowed_tree(tree: Tree, names: Collection[str]) -> Tree:
    """Return the tree of the files that are named or lie in named folders, or of such parts of a state."""
    if tree.files is not None:
        return part_of(tree, files_in(tree, names))
    if "." in names:
        return tree
    kept: list[Value] = [[key, node] for key, node in children_of(tree.root) if str(key) in names]
    return _with_root(tree, [int(NodeTag.DICT), kept])


def part_alone(tree: Tree, name: str) -> Tree | None:
    """Return what stands under a key of a state, or under several joined by dots, as a state of its own.

    None where there is no such key; and where several lead to a single tensor, which no state is.
    """
    node, rest = tree.root, name
    while rest:
        below = [(str(key), child) for key, child in children_of(node)]
        # A key may hold dots, so the longest that fits is taken.
        fits = [found for found in below if f"{rest}.".startswith(f"{found[0]}.")]
        if not fits:
            return None
        key, node = max(fits, key=lambda found: len(found[0]))
        if rest != name and tensor_reference(node) is not None:
            return None
        rest = rest[len(key) + 1 :]
    return _with_root(tree, node)


def _with_root(tree: Tree, root: Value) -> Tree:
    """Number the leaves anew that a part of a state's structure holds."""
    met: dict[int, int] = {}
    new = renumber(root, lambda index: met.setdefault(index, len(met)))
    return Tree(tuple(tree.leaves[index] for index in met), root=new)
