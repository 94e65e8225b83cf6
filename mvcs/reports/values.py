"""What the verbs answer: plain values that render themselves as JSON."""

import dataclasses
import datetime as dt
import math
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mvcs.objects import ABBREVIATED, BOUNDED

KEPT, DROPPED, SAME, DAMAGED = "kept", "dropped", "same", "damaged"
NOT_MEASURED = "not measured"
FILE, PART = "file", "part"


class Report:
    """Gives every report the same JSON form: its fields by name."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `json.dumps` takes; NaN and infinities become text."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every report is a dataclass
        return {item.name: as_json(getattr(self, item.name)) for item in fields}


def as_json(value: Any) -> Any:  # noqa: ANN401, PLR0911 - one return for each kind of field
    """Return `value` as JSON has it."""
    if isinstance(value, Report):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, pathlib.Path) else value


@dataclass(frozen=True)
class TensorError(Report):
    """How far off a tensor is.

    Attributes:
        tensor: where it stands.
        relative: root of the squared errors over the squared values.
    """

    tensor: str
    relative: float


@dataclass(frozen=True)
class CommitInfo(Report):
    """A commit as people and scripts see it.

    Attributes:
        id: 64 hexadecimal digits.
        parents: ids.
        step: optimizer step, or None.
        metrics: by name, those of later notes included.
        exactness: "exact" or "bounded".
        degradation: measured relative loss of quality, "not measured", or None for an exact commit.
        raw_bytes: bytes of the state as handed over.
        stored_bytes: all bytes the commit added, but its exact layer, as first written.
        exact_bytes: bytes of its exact layer; 0 for an exact commit.
        depth: the longest chain of deltas a restore follows, as first written.
        message: what the author says of it.
        author: who made it.
        time: when, UTC.
        lineage_exact: False when it or an ancestor continued from a lossily restored state, None when nothing
            tells.
        restored_from: the bounded commit it continued from, when that was lossy.
        exact_layer: "kept" or "dropped"; "same" for an exact commit; "damaged" where details were looked at
            and cannot be read.
        errors: measured numeric errors by leaf class.
        worst: the tensor outside of optimizers that is off most, in units of its own values; None where
            nothing is quantized or its writer did not tell.
        worst_moment: the same of an optimizer's moments that are not left out.
        left_out: classes of leaves that are left out on purpose, as "first moment".
        notes: what the user should know of how it was made.
        timings: milliseconds of its making, by name; empty for commits read back.
        weights_only: it holds a model without what resuming needs beside it.
        kept: the parent's files that it has as they were, where it was just made of files.
        left: the parent's files that it does not have, likewise.
        added: files that it has and the parent does not, likewise.
        moved: those of the parent's files that it has under another name, with that name.
        run: id of the run of a training hook that made it.
        amends: id of the commit whose place it took, where it was just made so.
        not_evaluated: why its quality could not be measured; None where it was, or was not to be.
    """

    id: str
    parents: list[str]
    step: int | None
    metrics: dict[str, float]
    exactness: str
    degradation: float | str | None
    raw_bytes: int
    stored_bytes: int
    exact_bytes: int
    depth: int
    message: str
    author: str
    time: dt.datetime
    lineage_exact: bool | None = True
    restored_from: str | None = None
    exact_layer: str = SAME
    errors: dict[str, dict[str, float]] = field(default_factory=dict)
    worst: TensorError | None = None
    worst_moment: TensorError | None = None
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    weights_only: bool = False
    run: str | None = None
    not_evaluated: str | None = None
    kept: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    amends: str | None = None

    @property
    def short(self) -> str:
        """The abbreviated id."""
        return self.id[:ABBREVIATED]

    def __repr__(self) -> str:
        said = [repr(self.message.partition("\n")[0])] if self.message else []
        step = [] if self.step is None else [f"step {self.step}"]
        metrics = [f"{name} {value:g}" for name, value in self.metrics.items()]
        return f"<CommitInfo {', '.join([self.short, *step, *metrics, self.exactness, *said])}>"

    @property
    def bounded(self) -> bool:
        """Whether some leaf is quantized."""
        return self.exactness == BOUNDED


@dataclass(frozen=True)
class Restored(Report):
    """A state that came back, and how exact it is.

    Attributes:
        state: the nested state.
        commit: where it comes from.
        layer: "exact" (all leaves) or "value".
        lossy: whether the state differs from the one that was handed over.
        damaged: packs of the exact layer that cannot be read, which is why the values came back.
    """

    state: Any = field(repr=False)
    commit: CommitInfo
    layer: str
    lossy: bool
    damaged: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CheckoutReport(Report):
    """What an in-place checkout did.

    Attributes:
        commit: where HEAD stands now; None before the first commit.
        written: files that were not as the commit restores them.
        removed: files that the commit before had and this one has not.
        layer: what was restored; None when the files were left alone.
        branch: the branch HEAD is on now; None when it is detached.
        unchanged: files that were left alone, since they were as the commit restores them.
        upstream: what a branch follows that was made of a branch of a remote.
        parts: names at the top of the state that the commit holds, which writes no file; None for files.
    """

    commit: CommitInfo | None
    written: list[str]
    removed: list[str]
    layer: str | None
    branch: str | None
    unchanged: list[str] = field(default_factory=list)
    upstream: str | None = None
    parts: list[str] | None = None


@dataclass(frozen=True)
class ExportReport(Report):
    """What a checkout to somewhere else wrote.

    Attributes:
        commit: where it comes from.
        target: the file or folder.
        tensors: how many.
        bytes: of what was written.
        left_out: values that the format cannot hold.
        layer: what was restored, "exact" or "value".
        format: of the file; "folder" for one.
        files: how many.
    """

    commit: CommitInfo
    target: str
    tensors: int
    bytes: int
    left_out: list[str]
    layer: str
    format: str
    files: int


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
        role: "weight", "small", "moment" or "other".
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


@dataclass(frozen=True)
class CatFile(Report):
    """One object, decoded as far as it goes."""

    kind: str
    id: str
    size: int
    value: Any
    content: bytes


def as_utc(microseconds: int) -> dt.datetime:
    """Return a time stored in objects and records as a datetime."""
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    try:
        return start + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return start
