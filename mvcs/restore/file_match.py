"""Whether a file in the folder is one that a commit holds, and in which of its layers."""

import pathlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest

from mvcs.checkpoint import Captured, CapturedLeaf, capture_files, compresses_otherwise
from mvcs.errors import ConflictError, CorruptionError, MvcsError, NotFoundError
from mvcs.objects import (
    ExactTensor,
    FileEntry,
    FileFormat,
    Kind,
    Leaf,
    ObjectId,
    Tree,
    cbor,
    object_id,
    renumber,
    tensor_reference,
    walk_nodes,
)
from mvcs.restore.open_commit import EXACT_LAYER, Reading

_LAID_OUT = (FileFormat.TORCH, FileFormat.NPZ, FileFormat.BINARY)


@dataclass(frozen=True)
class FileMatch:
    """A file beside a committed one of the same structure.

    A file without quantized leaves is the same in both layers.

    Attributes:
        pairs: each leaf of the file with the committed one.
        reading: the commit.
    """

    pairs: list[tuple[CapturedLeaf, Leaf]]
    reading: Reading

    @classmethod
    def of(cls, path: pathlib.Path, entry: FileEntry, reading: Reading) -> "FileMatch | None":
        """Look at a file; None where it cannot be read, or differs in more than values."""
        try:
            found_before = [path] if entry.format is FileFormat.OPAQUE else []
            captured = capture_files([path], path.parent, {path: entry.path}, found_before, any_names=True)
        except MvcsError:
            return None
        pairs = _pairs(captured, entry, reading)
        return None if pairs is None else cls(pairs, reading)

    @cached_property
    def exact(self) -> bool:
        """Whether the file is what was handed over to the commit."""
        return self._all(lambda found, leaf: exact_tensor(found) == leaf.handed_over)

    @cached_property
    def value(self) -> bool:
        """Whether the file is what the commit restores without its exact layer."""
        return self._all(self._equals_value)

    @property
    def either(self) -> bool:
        """Whether the file is the committed one."""
        return self.exact or self.value

    def equals(self, layer: str) -> bool:
        """Tell whether the file is what a layer holds."""
        return self.exact if layer == EXACT_LAYER else self.value

    def _all(self, alike: Callable[[CapturedLeaf, Leaf], bool]) -> bool:
        try:
            return all(alike(found, leaf) for found, leaf in self.pairs)
        except ConflictError:
            return False  # a file that is being written is none that is stored

    def _equals_value(self, found: CapturedLeaf, leaf: Leaf) -> bool:
        if leaf.original is None:
            return exact_tensor(found) == leaf.tensor
        pairs = zip_longest(found.views(), self.reading.store.chunks(leaf))
        return all(mine == theirs for mine, theirs in pairs)


def _pairs(captured: Captured, entry: FileEntry, reading: Reading) -> list[tuple[CapturedLeaf, Leaf]] | None:
    (twin,), tree = captured.files or (), reading.tree
    # The layout of other values has other checksums; an earlier version wrote none.
    has_none = entry.header is None or is_lossy(entry, tree)
    if entry.format in _LAID_OUT and (has_none or _is_uncompressed(captured, entry, reading)):
        twin = replace(twin, header=entry.header)
    (mine, left), (theirs, right) = _structure(twin), _structure(entry)
    if mine != theirs:
        return None
    pairs = [(captured.leaves[one], tree.leaves[other]) for one, other in zip(left, right, strict=True)]
    same = all((found.dtype, found.shape) == (leaf.dtype, leaf.shape) for found, leaf in pairs)
    return pairs if same else None


def _is_uncompressed(captured: Captured, entry: FileEntry, reading: Reading) -> bool:
    """Tell whether an npz file is uncompressed as its committed arrays are where zlib gives other bytes."""
    (twin,) = captured.files or ()
    if twin.format is not entry.format or entry.format is not FileFormat.NPZ or twin.header == entry.header:
        return False
    if any(leaf.deflated for leaf in captured.leaves):
        return False
    with suppress(CorruptionError, NotFoundError):
        return compresses_otherwise(entry, reading.content)
    return False


def _structure(entry: FileEntry) -> tuple[bytes, list[int]]:
    """Return all of a file but the content of its leaves, the same in any tree, and its leaves in order."""
    met: dict[int, int] = {}
    node = renumber(entry.node, lambda index: met.setdefault(index, len(met)))
    return cbor.dumps([entry.format.value, entry.header, node]), list(met)


def leaves_of(entry: FileEntry, tree: Tree) -> list[Leaf]:
    """Return the leaves of one file."""
    met = dict.fromkeys(found[0] for _, node in walk_nodes(entry.node) if (found := tensor_reference(node)))
    return [tree.leaves[index] for index in met]


def is_lossy(entry: FileEntry, tree: Tree) -> bool:
    """Tell whether the values of a file are not all that was handed over."""
    return any(leaf.original is not None for leaf in leaves_of(entry, tree))


def content_key(entry: FileEntry, tree: Tree, layer: str) -> tuple[bytes, list[ObjectId]]:
    """Return what is equal for two committed files, in one commit or two, only if they restore the same."""
    structure, met = _structure(entry)
    leaves = [tree.leaves[index] for index in met]
    return structure, [leaf.exact_id if layer == EXACT_LAYER else leaf.value for leaf in leaves]


def exact_tensor(leaf: CapturedLeaf) -> ExactTensor:
    """Return what a captured leaf is when it is stored exactly."""
    chunks = (object_id(Kind.CHUNK, part) for part in leaf.views())
    return ExactTensor(leaf.dtype, leaf.shape, tuple(chunks))
