"""What the verbs answer that compare."""

from dataclasses import dataclass
from typing import Any

from mvcs.reports.commits import CommitInfo
from mvcs.reports.report import Report

FILE, PART = "file", "part"


@dataclass(frozen=True)
class TensorDiff(Report):
    """How one tensor differs: "added", "removed", "changed" or "retyped".

    Attributes:
        changed_fraction: share of elements that differ.
        rms_left: root mean square of the left values.
        rms_change: root mean square of the difference.
        relative: rms_change over rms_left.
        max_change: largest absolute difference.
        cosine: cosine of the angle between both.
        role: "weight", "small", "moment", "gradient" or "other".
        moved_fraction: share of elements that differ by more than a step of the quantizers they went through.
        cause: "rounding" where none does, "left out" where one side holds none of its values; else None.
    """

    path: str
    state: str
    changed_fraction: float | None = None
    rms_left: float | None = None
    rms_change: float | None = None
    relative: float | None = None
    max_change: float | None = None
    cosine: float | None = None
    role: str | None = None
    moved_fraction: float | None = None
    cause: str | None = None


@dataclass(frozen=True)
class FileChange(Report):
    """How one file, or one part of a state, differs, told by ids: "added", "removed" or "changed".

    Attributes:
        path: where it lies.
        state: what became of it.
        tensors: how many it has, or had.
        changed: how many of them differ, came or went.
        raw_bytes: bytes of its tensors and blobs.
        changed_bytes: bytes of those that differ.
        kind: "file" or "part".
    """

    path: str
    state: str
    tensors: int
    changed: int
    raw_bytes: int
    changed_bytes: int
    kind: str = FILE


@dataclass(frozen=True)
class Diff(Report):
    """How two commits, or a commit and the working files, differ; on the left may be nothing.

    Attributes:
        left: a commit; None for nothing.
        right: a commit; None for the working files.
        tensors: those that differ.
        unchanged: how many do not.
        values: numbers and texts that differ: path, left, right.
        files: files that differ beyond tensors and values, and how.
        left_layer: what is compared: "exact" values, the "value" layer of a bounded commit, or "mixed" where
            some files are compared with the one and some with the other; None for nothing.
        right_layer: likewise; "files" for the working files.
    """

    left: CommitInfo | None
    right: CommitInfo | None
    tensors: list[TensorDiff]
    unchanged: int
    values: list[tuple[str, Any, Any]]
    files: list[tuple[str, str]]
    left_layer: str | None = None
    right_layer: str | None = None
