"""What a commit holds: the nested structure of a state, or files, with a table of tensor leaves."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.memory import no_collections
from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_list, recording
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.objects.trees.leaves import FileEntry, Leaf, LeafReader, LeafWriter, as_file
from mvcs.objects.trees.structure import Path, children_of
from mvcs.objects.trees.structure_check import References
from mvcs.objects.trees.unfit_paths import UnfitPath, unfit_paths
from mvcs.objects.trees.walks import walk_nodes, walk_tensors

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
            content = self._content()
            self._check()
        kind = "state" if self.files is None else "files"
        return cbor.array_of([cbor.dumps(kind), cbor.dumps(content), cbor.array_of(leaves)])

    def _content(self) -> cbor.Value:
        if self.files is None:
            return self.root
        files: list[cbor.Value] = [
            [entry.path, entry.format.value, entry.node, entry.header] for entry in self.files
        ]
        for entry in files:
            as_file(entry)
        return files

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
        for path, content in contents_of(self.files, self.root):
            yield from walk_tensors(content, path)

    def leaf_paths(self) -> list[Path]:
        """Return for each leaf the path where it is met first."""
        return self._leaf_paths

    @cached_property
    def _leaf_paths(self) -> list[Path]:
        paths: dict[int, Path] = {}
        for path, index in self.tensor_paths():
            paths.setdefault(index, path)
        return [paths[index] for index in range(len(self.leaves))]

    def blobs(self) -> list[tuple[ObjectId, int]]:
        """Return id and length of every blob the tree refers to, in order."""
        return self._references.blobs

    @cached_property
    def unfit(self) -> list[UnfitPath]:
        """What keeps the files from being brought into a folder."""
        return unfit_paths(entry.path for entry in self.files or ())

    @property
    def raw_bytes(self) -> int:
        """Bytes of all tensors and blobs as handed over; aliases count once."""
        return sum(leaf.raw_bytes for leaf in self.leaves) + sum(dict(self.blobs()).values())

    @cached_property
    def _references(self) -> References:
        """What its structures refer to, of which all are checked."""
        found = References()
        for node in [self.root] if self.files is None else _nodes_of(self.files):
            found.add(node)
        return found

    def _check(self) -> None:
        if self._references.leaves != len(self.leaves):
            raise CorruptionError(
                f"a tree has {len(self.leaves)} leaves and refers to {self._references.leaves}"
            )
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
