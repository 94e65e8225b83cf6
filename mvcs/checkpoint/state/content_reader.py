"""What writers of files read: leaves and blobs of one tree, checked against the lengths the tree gives."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mvcs.errors import CorruptionError
from mvcs.objects import ObjectId, Tree, Value, as_bytes, blob_reference

Buffer = bytes | bytearray | memoryview
LeafBytes = Callable[[int], Buffer]
BlobBytes = Callable[[ObjectId, int], Buffer]
BlobPieces = Callable[[ObjectId, int], Iterator[Buffer]]


@dataclass(frozen=True)
class ContentReader:
    """Reads the content of one tree.

    Attributes:
        tree: whose leaves and blobs are read.
        leaves: gives the bytes of a leaf by its index.
        blobs: gives the bytes of a blob by id and length.
        pieces: gives the same piece by piece, for what need not fit into memory.
        restored: the commit, in hexadecimal, whose value layer the leaves are of; None for an exact layer.
    """

    tree: Tree
    leaves: LeafBytes
    blobs: BlobBytes
    pieces: BlobPieces
    restored: str | None = None

    def restored_from(self, indices: Iterable[int]) -> str | None:
        """Return `restored` if some of these leaves are not what was handed over."""
        leaves = self.tree.leaves
        return self.restored if any(leaves[index].exact is not None for index in indices) else None

    def leaf(self, index: int) -> memoryview:
        """Return the bytes of a leaf.

        Raises:
            CorruptionError: their number is not that of the leaf's shape.
        """
        data = memoryview(self.leaves(index)).cast("B")
        expected = self.tree.leaves[index].raw_bytes
        if data.nbytes != expected:
            raise CorruptionError(f"leaf {index} has {data.nbytes} bytes where {expected} belong")
        return data

    def blob(self, identifier: ObjectId, length: int) -> memoryview:
        """Return the bytes of a blob.

        Raises:
            CorruptionError: their number is not the blob's length.
        """
        data = memoryview(self.blobs(identifier, length)).cast("B")
        if data.nbytes != length:
            raise CorruptionError(f"a blob of {length} bytes has {data.nbytes}")
        return data

    def bytes_of(self, node: Value) -> bytes:
        """Return bytes that stand in a tree themselves or as a blob."""
        reference = blob_reference(node)
        return as_bytes(node, "bytes in a tree") if reference is None else bytes(self.blob(*reference))
