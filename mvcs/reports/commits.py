"""What the verbs answer of a commit, and the state that comes back of it."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from mvcs.objects import ABBREVIATED, BOUNDED
from mvcs.reports.report import Report

# What became of the exact layer of a commit; SAME where it has no other one.
KEPT, DROPPED, SAME, DAMAGED = "kept", "dropped", "same", "damaged"
NOT_MEASURED = "not measured"


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
        data_dropped: whether its data were dropped on purpose. Once `gc` has deleted them it can be
            looked at, and not restored.
        data_left: whether data of it that were dropped are there until then. Verbs that open a commit look
            for them; a log does not, and says False.
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
    data_dropped: bool = False
    data_left: bool = False
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
