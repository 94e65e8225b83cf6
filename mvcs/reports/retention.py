"""What the verbs of retention answer: rules and pins, and what becomes of each commit."""

import datetime as dt
from dataclasses import dataclass, field

from mvcs.objects import ABBREVIATED
from mvcs.reports.report import Report


@dataclass(frozen=True)
class RuleInfo(Report):
    """A rule in force.

    Attributes:
        layer: "data" or "exact layer".
        keeps: what it keeps, in words.
    """

    layer: str
    keeps: str


@dataclass(frozen=True)
class PinInfo(Report):
    """A commit that is pinned.

    Attributes:
        commit: its id.
        reason: why.
    """

    commit: str
    reason: str

    @property
    def short(self) -> str:
        """The abbreviated id."""
        return self.commit[:ABBREVIATED]


@dataclass(frozen=True)
class RetentionShown(Report):
    """What a store keeps of old commits.

    Attributes:
        rules: those in force; without any of a layer nothing of it is dropped by rules.
        pins: commits that keep everything.
        exact_layers: how many exact layers a branch keeps where no rule is about them.
        set_by: who set the rules; None where there are none.
        set_at: when.
        dropped: how many commits' data were dropped so far.
        notes: what a person should know.
        remote: whose store it is; None for this one.
    """

    rules: list[RuleInfo]
    pins: list[PinInfo]
    exact_layers: int
    set_by: str | None = None
    set_at: dt.datetime | None = None
    dropped: int = 0
    notes: list[str] = field(default_factory=list)
    remote: str | None = None


@dataclass(frozen=True)
class PlannedCommit(Report):
    """What becomes of a layer of a commit.

    Attributes:
        name: what the commit is called, such as "main@1200".
        commit: its id.
        step: its step, or None.
        layer: "data" or "exact layer".
        keeps: whether it stays.
        reasons: why, or why not.
        author: who made the commit.
    """

    name: str
    commit: str
    step: int | None
    layer: str
    keeps: bool
    reasons: list[str]
    author: str

    @property
    def short(self) -> str:
        """The abbreviated id."""
        return self.commit[:ABBREVIATED]


@dataclass(frozen=True)
class RetentionApplied(Report):
    """What applying the rules does, or has done.

    Attributes:
        executed: whether it was done.
        remote: the remote whose store it is about; None for this one.
        dropped: what goes, the newest commits first.
        kept: what stays.
        bytes: bytes that go; of data with the next `mvcs gc` past its grace. In a dry run about so many: a
            pack of the same objects has not always the same length.
        layer_bytes: of these, bytes of exact layers, which go at once.
        store_bytes: of packs of values and of exact layers: before, afterwards, and once `gc` was there.
        sole_writer: whether nothing says that others write to the store, so that `gc` need not wait.
        written: bytes that are stored anew first, for commits that stay.
        notes: what a person should know, what others lose among it.
    """

    executed: bool
    remote: str | None
    dropped: list[PlannedCommit]
    kept: list[PlannedCommit]
    bytes: int
    written: int = 0
    notes: list[str] = field(default_factory=list)
    layer_bytes: int = 0
    store_bytes: dict[str, list[int]] = field(default_factory=dict)
    sole_writer: bool = False
