"""A state or files taken apart: leaves are numbered, blobs named, and what cannot be stored is refused."""

from collections.abc import Iterable
from dataclasses import dataclass

from mvcs.checkpoint.state.captured import BlobSource, CapturedLeaf, Memory, Source
from mvcs.errors import CorruptionError, StateError
from mvcs.objects import (
    BLOB_CHUNK_BYTES,
    INLINE_BYTES,
    MAX_DIMENSIONS,
    MAX_INTEGER_BYTES,
    Blob,
    DType,
    Kind,
    NodeTag,
    ObjectId,
    Path,
    TensorFlag,
    Value,
    as_shape,
    object_id,
    path_text,
)


@dataclass(frozen=True)
class Found:
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


def check_integer(path: Path, value: int) -> None:
    """Refuse an integer that is longer than format 1 holds.

    Raises:
        StateError: it is.
    """
    if value.bit_length() > 8 * MAX_INTEGER_BYTES:
        raise refuse(path, f"an integer of {value.bit_length()} bits")
