"""What `checkout_plan` answers: what a restore will read and how long that takes, before it does."""

import datetime as dt
from dataclasses import dataclass, field

from mvcs.reports.commits import CommitInfo
from mvcs.reports.report import Report


@dataclass(frozen=True)
class RestoreFigures(Report):
    """What restoring a whole commit reads, of its value layer.

    Attributes:
        requests: ranges of packs, footers and descriptions included.
        read_bytes: bytes of these.
        depth: the longest chain of deltas behind any of it, as it lies now.
        seconds: how long it takes here; None where this machine was not measured.
    """

    requests: int
    read_bytes: int
    depth: int
    seconds: float | None = None


@dataclass(frozen=True)
class CheckoutPlan(Report):
    """What a checkout of a commit will read.

    Attributes:
        commit: the commit.
        layer: "exact" or "value".
        target: where it would be written; None in place, or for a state in memory.
        raw_bytes: of what comes.
        requests: ranges of packs that are read, footers and descriptions included.
        read_bytes: bytes of these.
        entries: that are decoded.
        depth: the longest chain of deltas behind any of it.
        seconds: of the processor that it takes here, but for writing files; None where this machine was not
            measured.
        measured: when it was.
        written: files that would be written in place.
        unchanged: those that are already as they come back.
        checked_bytes: of `read_bytes`, what is read to see that files which go are stored.
    """

    commit: CommitInfo
    layer: str
    target: str | None
    raw_bytes: int
    requests: int
    read_bytes: int
    entries: int
    depth: int
    seconds: float | None = None
    measured: dt.datetime | None = None
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    checked_bytes: int = 0
