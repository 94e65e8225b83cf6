"""What `show` answers: a commit, its tensors and its classes of leaves."""

from dataclasses import dataclass, field
from typing import Any

from mvcs.reports.commits import CommitInfo
from mvcs.reports.plans import RestoreFigures
from mvcs.reports.report import Report
from mvcs.reports.shortfalls import Shortfall


@dataclass(frozen=True)
class TensorInfo(Report):
    """One tensor of a commit and how it is stored.

    Attributes:
        path: where it stands.
        dtype: its element type.
        shape: its sizes.
        role: "weight", "small", "moment", "gradient" or "other".
        value_id: id of what a checkout restores.
        exact_id: id of its exact values, where they are others.
        encoding: how its bytes are stored.
        raw_bytes: bytes in memory.
        stored_bytes: bytes of its value in packs, whichever commit wrote them.
        depth: the longest chain of deltas behind it.
        new_bytes: those of its stored bytes that this commit itself wrote.
        where: "new"; "shared" where another tensor of the commit has all its bytes; "unchanged" where an
            earlier commit wrote them; where nothing but a rule is stored that, as "constant".
        twin: the first tensor that it shares its bytes with.
        aliases: further places where the same tensor stands, as tied weights do.
    """

    path: str
    dtype: str
    shape: list[int]
    role: str
    value_id: str
    exact_id: str | None
    encoding: str
    raw_bytes: int
    stored_bytes: int
    depth: int
    new_bytes: int
    where: str
    twin: str | None = None
    aliases: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ClassInfo(Report):
    """Sizes of one class of leaves in one commit.

    Attributes:
        name: "weight", "small", "moment", "gradient", "other", "blobs" or "metadata".
        raw_bytes: as handed over.
        stored_bytes: entries of the value layer that this commit wrote.
        exact_bytes: entries of its exact layer, while it is kept.
        depth: the longest chain of deltas behind it, as far as it was looked for.
    """

    name: str
    raw_bytes: int
    stored_bytes: int
    exact_bytes: int
    depth: int = 0


@dataclass(frozen=True)
class CommitDetails(Report):
    """Everything `show` tells of a commit.

    Attributes:
        commit: the commit.
        quantizer: the settings it was rounded by; None for an exact one.
        tensors: how each is stored.
        classes: sizes by class of leaves.
        files: paths of the files it holds; None for a state.
        values: numbers and texts beside the tensors, by path.
        provenance: versions and settings that were worth keeping.
        shortfall: why it is less than 30 times smaller than its state; None where it is not, or takes little.
        restore: what restoring all of its values takes; None where that cannot be told.
        dropped: when its data were dropped and why, and whether they are there still; else empty.
    """

    commit: CommitInfo
    quantizer: dict[str, Any] | None
    tensors: list[TensorInfo]
    classes: list[ClassInfo]
    files: list[str] | None
    values: dict[str, Any]
    provenance: dict[str, Any]
    shortfall: Shortfall | None = None
    restore: RestoreFigures | None = None
    dropped: str = ""


@dataclass(frozen=True)
class FileInfo(Report):
    """One file of a commit.

    Attributes:
        path: from the top of the repository.
        format: "safetensors", "torch", "npz", "binary" or "opaque".
        bytes: of what it holds.
    """

    path: str
    format: str
    bytes: int


@dataclass(frozen=True)
class CatFile(Report):
    """One object, decoded as far as it goes."""

    kind: str
    id: str
    size: int
    value: Any
    content: bytes
