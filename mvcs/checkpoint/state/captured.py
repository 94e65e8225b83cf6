"""What was handed over, taken apart: leaves that are read on demand, a structure, and blobs."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from mvcs.errors import ConflictError, CorruptionError, StateError
from mvcs.objects import (
    BLOB_CHUNK_BYTES,
    INLINE_BYTES,
    MAX_DIMENSIONS,
    Blob,
    DType,
    FileEntry,
    Kind,
    NodeTag,
    ObjectId,
    Path,
    TensorFlag,
    Value,
    as_shape,
    chunk_elements,
    element_count,
    object_id,
    path_text,
)

if TYPE_CHECKING:
    from mvcs.checkpoint.state.stamped import StampedFile


class Source(ABC):
    """Where the bytes of a leaf come from.

    What is stored has to be what was hashed, and others may write while a commit reads: what goes into an
    object is read through `parts`, each of which is memory of its own. What only statistics are made of may
    be looked at where it lies.
    """

    @abstractmethod
    def read(self) -> memoryview:
        """Return all of the content as contiguous little-endian bytes; it may be what was handed over."""

    def part(self, start: int, length: int) -> memoryview:
        """Return `length` bytes from `start`, or what is left; it may be what was handed over."""
        return self.read()[start : start + length]

    def parts(self, length: int, *, own: bool = True) -> Iterator[memoryview]:
        """Yield the content in runs of `length` bytes, each read when its turn comes.

        Args:
            length: of all but the last.
            own: whether each is memory that nobody else writes; it may be what was handed over otherwise.
        """
        data = self.read()
        for start in range(0, len(data), length):
            part = data[start : start + length]
            yield np.array(part).data if own else part


class BlobSource(Protocol):
    """Where the bytes of a blob come from."""

    @property
    def length(self) -> int:
        """Number of bytes."""
        ...

    def read(self) -> memoryview:
        """Return all of the content."""
        ...

    def parts(self, length: int) -> Iterator[memoryview]:
        """Yield the content in runs, as `Source.parts` does."""
        ...


@dataclass(frozen=True)
class Memory(Source):
    """A source that already is bytes."""

    data: bytes

    @property
    def length(self) -> int:
        """Number of bytes."""
        return len(self.data)

    def read(self) -> memoryview:
        """Return the bytes."""
        return memoryview(self.data)


@dataclass(frozen=True)
class CapturedLeaf:
    """One tensor as it was handed over.

    Attributes:
        path: where it was met first; starts with the file's path when it comes from a file.
        dtype: its element type.
        shape: its sizes.
        source: gives its content, row-major and little-endian.
        verbatim: whether its file could not be written with other values.
        deflated: whether its file has it compressed, which one with other values has not.
    """

    path: Path
    dtype: DType
    shape: tuple[int, ...]
    source: Source
    verbatim: bool = False
    deflated: bool = False

    @property
    def raw_bytes(self) -> int:
        """Bytes of the tensor in memory."""
        return element_count(self.shape) * self.dtype.itemsize

    def chunks(self) -> Iterator[memoryview]:
        """Yield the content on the chunk grid, each chunk in memory that nobody else writes.

        Raises:
            ConflictError: it is not as long as it was, or was written while it was read.
        """
        return self._parts(own=True)

    def views(self) -> Iterator[memoryview]:
        """Yield the same to look at; it may be what was handed over, and change meanwhile."""
        return self._parts(own=False)

    def _parts(self, *, own: bool) -> Iterator[memoryview]:
        left = self.raw_bytes
        for part in self.source.parts(chunk_elements(self.dtype) * self.dtype.itemsize, own=own):
            left -= part.nbytes
            yield part
        if left:
            raise ConflictError(f"{path_text(self.path)}: its size changed while it was read")


@dataclass(frozen=True)
class Captured:
    """Everything a commit will hold, before anything is stored.

    Attributes:
        leaves: every tensor once, in the order it is first met.
        root: the structure of a state; None for files.
        files: the files, sorted by path; None for a state.
        blobs: the content of every blob that the structure or the files refer to.
        notes: what a person should know, such as a file kept without being understood.
        origins: the files as they were before they were read, by their paths in the commit.
        restored: the commit whose value layer a file says it was restored from, by its path.
    """

    leaves: tuple[CapturedLeaf, ...]
    root: Value = None
    files: tuple[FileEntry, ...] | None = None
    blobs: Mapping[ObjectId, BlobSource] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    origins: Mapping[str, "StampedFile"] = field(default_factory=dict)
    restored: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Make sure, once everything was read, that every file is still the one that was looked at.

        Raises:
            ConflictError: one is not; the error names it.
        """
        for file in self.origins.values():
            file.check()

    @property
    def raw_bytes(self) -> int:
        """Bytes of all tensors and blobs; aliases count once."""
        return sum(leaf.raw_bytes for leaf in self.leaves) + sum(blob.length for blob in self.blobs.values())


class Found(NamedTuple):
    """A tensor met in a state.

    Attributes:
        dtype: its element type.
        shape: its sizes.
        source: gives its content.
        flags: how it is handed back.
        identity: equal for two tensors that are one piece of memory, read the same way.
    """

    dtype: DType
    shape: tuple[int, ...]
    source: Source
    flags: TensorFlag
    identity: object


class Collector:
    """Numbers leaves and names blobs while states or files are taken apart."""

    def __init__(self) -> None:
        self.leaves: list[CapturedLeaf] = []
        self.blobs: dict[ObjectId, BlobSource] = {}
        self.restored: dict[str, str] = {}
        self._known: dict[object, int] = {}

    def mark(self) -> tuple[int, frozenset[ObjectId]]:
        """Return where the collection stands, for `undo`."""
        return len(self.leaves), frozenset(self.blobs)

    def undo(self, mark: tuple[int, frozenset[ObjectId]]) -> None:
        """Forget what was collected since `mark`."""
        count, blobs = mark
        del self.leaves[count:]
        self.blobs = {identifier: source for identifier, source in self.blobs.items() if identifier in blobs}
        self._known = {identity: index for identity, index in self._known.items() if index < count}

    def tensor(self, found: Found, path: Path) -> Value:
        """Return a reference to the leaf of `found`, a new one unless its memory was met before.

        Raises:
            StateError: it has more dimensions or elements than format 1 holds.
        """
        _check_tensor_limits(path, found.shape)
        index = self._known.setdefault(found.identity, len(self.leaves))
        if index == len(self.leaves):
            self.leaves.append(CapturedLeaf(path, found.dtype, found.shape, found.source))
        return [int(NodeTag.TENSOR), index, int(found.flags)]

    def blob(self, source: BlobSource, tag: NodeTag = NodeTag.BLOB_BYTES) -> Value:
        """Return a reference to the blob of this content."""
        identifier = blob_id(source.parts(BLOB_CHUNK_BYTES))
        self.blobs.setdefault(identifier, source)
        return [int(tag), identifier, source.length]

    def bytes_node(self, data: bytes) -> Value:
        """Return `data` itself when it is short, a reference to its blob otherwise."""
        return data if len(data) <= INLINE_BYTES else self.blob(Memory(data))

    def text_node(self, text: str) -> Value:
        """Return `text` itself when it is short, a reference to the blob of its UTF-8 otherwise."""
        encoded = text.encode("utf-8", "surrogatepass")
        return text if len(encoded) <= INLINE_BYTES else self.blob(Memory(encoded), NodeTag.BLOB_TEXT)


def blob_id(parts: Iterable[memoryview]) -> ObjectId:
    """Return the id of a blob of this content, handed over on the blob grid, without storing it."""
    length, chunks = 0, []
    for part in parts:
        length += part.nbytes
        chunks.append(object_id(Kind.CHUNK, part))
    return Blob(length, tuple(chunks)).id


_PLAIN = "leave it out of the state, or hand over plain containers, numbers, text and tensors"


def refuse(path: Path, what: str, hint: str = _PLAIN) -> StateError:
    """Return the error for something at `path` that cannot be stored."""
    return StateError(f"{path_text(path) or 'the state'}: {what} cannot be stored", hint=hint)


def _check_tensor_limits(path: Path, shape: tuple[int, ...]) -> None:
    if len(shape) > MAX_DIMENSIONS:
        raise refuse(path, f"a tensor of {len(shape)} dimensions")
    try:
        as_shape(list(shape))
    except CorruptionError:
        raise refuse(path, f"a tensor of the shape {list(shape)}") from None
