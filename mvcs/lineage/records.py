"""What the index is told, as plain values: commits with their tensors and encodings, refs, notes."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from mvcs.objects import Commit, ObjectId


class EncodingRecord(NamedTuple):
    """How one chunk lies in the store.

    Attributes:
        chunk: id of the chunk.
        encoding: name of the encoding.
        stored_bytes: bytes in the pack.
        raw_bytes: bytes of the decoded chunk.
        depth: deltas between the chunk and its snapshot; 0 for a snapshot.
        pack: content name of the pack, in hexadecimal.
    """

    chunk: ObjectId
    encoding: str
    stored_bytes: int
    raw_bytes: int
    depth: int
    pack: str


@dataclass(frozen=True)
class TensorRecord:
    """One tensor of a commit.

    Attributes:
        path: where it is in the state, as people read it; None where the first parent's row of this position
            has it, with dtype, shape and role. Then that is so of all tensors of the commit.
        dtype: name of the element type.
        shape: its sizes.
        role: its leaf class, or None when the commit does not tell.
        value: id of the tensor the commit restores.
        exact: id of the tensor as it was handed over, when `value` is quantized; None otherwise.
        chunks: its encodings, in the order of the chunks.
    """

    path: str | None
    dtype: str
    shape: tuple[int, ...]
    role: str | None
    value: ObjectId
    exact: ObjectId | None
    chunks: tuple[EncodingRecord, ...]


@dataclass(frozen=True)
class CommitRecord:
    """One commit with its sizes as first written.

    Attributes:
        id: the commit's id.
        commit: its content.
        raw_bytes: bytes of the state as handed over.
        stored_bytes: bytes the commit added, without its exact layer.
        exact_bytes: bytes of its exact layer; 0 for an exact commit.
        depth: the longest chain of deltas a restore follows.
        tensors: its tensors, in the order of the tree, without those of `kept`.
        kept: positions of tensors of which the first parent's rows tell all that there is to tell.
    """

    id: ObjectId
    commit: Commit
    raw_bytes: int
    stored_bytes: int
    exact_bytes: int
    depth: int
    tensors: tuple[TensorRecord, ...]
    kept: frozenset[int] = frozenset()


@dataclass(frozen=True)
class RefRecord:
    """The newest known record of a ref.

    Attributes:
        kind: "heads" or "tags".
        name: the ref's name.
        target: what it names; None when the ref was deleted.
        number: number of the record, counting up from 1.
    """

    kind: Literal["heads", "tags"]
    name: str
    target: ObjectId | None
    number: int


@dataclass(frozen=True)
class NoteRecord:
    """Metrics learned after a commit was made.

    Attributes:
        id: the note's id.
        target: the commit.
        metrics: name and value.
        author: who added them.
        time: microseconds since 1970-01-01 UTC.
    """

    id: ObjectId
    target: ObjectId
    metrics: tuple[tuple[str, float], ...]
    author: str
    time: int


@dataclass(frozen=True)
class RebuildReport:
    """What a rebuilt index holds.

    Attributes:
        commits: number of commits.
        tensors: number of distinct tensors as stored; a tensor that commits share counts once.
    """

    commits: int
    tensors: int
