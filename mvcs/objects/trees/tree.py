"""What a commit holds: the nested structure of a state, or files, with a table of tensor leaves."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_list, recording
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.objects.trees.leaves import FileEntry, Leaf, LeafReader, LeafWriter, as_file
from mvcs.objects.trees.structure import Path, blob_reference, children_of, tensor_reference, walk_nodes
from mvcs.objects.trees.structure_check import check
from mvcs.objects.trees.unfit_paths import UnfitPath, unfit_paths


def contents_of(files: tuple[FileEntry, ...] | None, root: cbor.Value) -> Iterator[tuple[Path, cbor.Value]]:
    """Yield the content of every file with its path, or that of a state, which has none."""
    if files is None:
        yield (), root
    for entry in files or ():
        yield (entry.path,), entry.node


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
        with recording("this tree"):
            leaves = LeafWriter(self.leaves).items()
            content = self._checked_content()
            self._check_references()
        kind = "state" if self.files is None else "files"
        return cbor.array_of([cbor.dumps(kind), cbor.dumps(content), cbor.array_of(leaves)])

    def _checked_content(self) -> cbor.Value:
        if self.files is None:
            check(self.root)
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
    def decode(cls, content: bytes) -> "Tree":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a tree, or a file's path would leave the target folder.
            UnsupportedFormatError: it holds something this version does not know.
        """
        return cls._of(cbor.loads(content))

    @classmethod
    def _of(cls, value: cbor.Value) -> "Tree":
        kind, root, leaves = as_list(value, "a tree", 3)
        table = LeafReader(as_list(leaves, "a tree's leaves")).leaves()
        if kind == "state":
            check(root)
            tree = cls(table, root=root)
        elif kind == "files":
            tree = cls(table, files=tuple(as_file(entry) for entry in as_list(root, "a tree's files")))
        else:
            raise UnsupportedFormatError(f"a tree of the unknown kind {kind!r}")
        tree._check_references()
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
        for path, node in self.nodes():
            reference = tensor_reference(node)
            if reference is not None:
                yield path, reference[0]

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
        return [found for _, node in self.nodes() if (found := blob_reference(node)) is not None]

    @cached_property
    def unfit(self) -> list[UnfitPath]:
        """What keeps the files from being brought into a folder."""
        return unfit_paths(entry.path for entry in self.files or ())

    @property
    def raw_bytes(self) -> int:
        """Bytes of all tensors and blobs as handed over; aliases count once."""
        return sum(leaf.raw_bytes for leaf in self.leaves) + sum(dict(self.blobs()).values())

    def _check_references(self) -> None:
        met = 0
        for _, node in self.nodes():
            reference = tensor_reference(node)
            if reference is None:
                continue
            if reference[0] > met:
                raise CorruptionError("a tree refers to its leaves out of order")
            met = max(met, reference[0] + 1)
        if met != len(self.leaves):
            raise CorruptionError(f"a tree has {len(self.leaves)} leaves and refers to {met}")
        self._check_files()

    def _check_files(self) -> None:
        paths = [entry.path for entry in self.files or ()]
        if paths != sorted(set(paths)):
            raise CorruptionError("a tree's files are not sorted by distinct paths")
        # Sorted by their parts, a path stands right before those below it.
        parts = sorted(path.split("/") for path in paths)
        if any(below[: len(above)] == above for above, below in pairwise(parts)):
            raise CorruptionError("a tree names a path as a file and as a folder")
