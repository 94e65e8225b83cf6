"""What fsck, repair, retention and compaction found, did, or would do."""

import datetime as dt
from dataclasses import dataclass, field

from mvcs.objects import ABBREVIATED
from mvcs.reports.report import Report

FULL, PACKS, QUICK = "full", "packs", "quick"


@dataclass(frozen=True)
class Problem(Report):
    """One thing fsck found wrong.

    Attributes:
        kind: what kind of thing it is.
        subject: which one; the path of a pack, with all that cannot be read on its account.
        message: what is wrong with it.
        hint: what to do next.
        objects: ids of the objects that cannot be read because of it, in hexadecimal.
    """

    kind: str
    subject: str
    message: str
    hint: str | None = None
    objects: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LookReport(Report):
    """Packs that no commit and no fsck of this clone has looked at since a time; at none where it is None.

    What was written or fetched later was looked at then.
    """

    folder: str
    packs: int
    bytes: int
    since: dt.datetime | None


@dataclass(frozen=True)
class SampleReport(Report):
    """Packs of which a check took a part in turn.

    Attributes:
        packs: how many were read.
        bytes: of these.
        done: the part of all bytes that this round has seen, from 0 to 1.
        begun: when this round began.
        since: since when every pack was read in turn; None before the first round has ended.
    """

    packs: int
    bytes: int
    done: float
    begun: dt.datetime
    since: dt.datetime | None


@dataclass(frozen=True)
class FsckReport(Report):
    """What fsck found.

    Attributes:
        ok: whether nothing is wrong.
        objects: how many there are, as footers say; of a sample those in it.
        bytes: of the packs that hold these.
        problems: what is wrong.
        notes: what is worth knowing but not wrong.
        looks: looks of this clone before this one.
        sample: what it read where it read a part.
        level: "full"; "packs" where bytes were compared with checksums and nothing was decoded; "quick" where
            no contents were read.
    """

    ok: bool
    objects: int
    bytes: int
    problems: list[Problem]
    notes: list[str] = field(default_factory=list)
    looks: list[LookReport] = field(default_factory=list)
    sample: SampleReport | None = None
    level: str = FULL


@dataclass(frozen=True)
class Mended(Report):
    """A file of the store that was damaged or missing and is good again, or would be.

    Attributes:
        path: where it lies.
        how: what made it good.
        bytes: its size.
        whole: whether it is as it was, byte for byte; otherwise what could be read of it can be read again.
    """

    path: str
    how: str
    bytes: int
    whole: bool = True


@dataclass(frozen=True)
class Loss(Report):
    """What a commit no longer restores.

    Attributes:
        commit: its id in hexadecimal.
        message: the first line of its message.
        layer: `value`, or `exact` where only the values as they were handed over are lost.
        tensors: the paths of lost tensors, and files; the first ones where there are many.
        count: how many there are; all of the commit where nothing tells.
    """

    commit: str
    message: str
    layer: str
    tensors: list[str]
    count: int | None


@dataclass(frozen=True)
class NewestWhole(Report):
    """The newest commit of a branch whose values restore.

    Attributes:
        branch: its name.
        commit: the commit's id in hexadecimal; None where no commit of the branch restores.
        step: its step, if it has one.
        message: the first line of its message.
        exact: whether nothing else of it is lost, such as exact values beside rounded ones.
        tip: whether the branch stands on it.
    """

    branch: str
    commit: str | None = None
    step: int | None = None
    message: str = ""
    exact: bool = True
    tip: bool = True


@dataclass(frozen=True)
class RepairReport(Report):
    """What a repair did, or would do.

    Attributes:
        executed: whether anything was changed.
        mended: what is good again.
        aside: what was moved aside before, below `.mvcs`.
        problems: what is still wrong.
        losses: what commits no longer restore on that account.
        commits: how many commits branches, tags and HEAD lead to, but for those whose data were dropped.
        notes: what is worth knowing but not wrong.
        whole: the ids of those commits that restore whole.
        newest: where something is lost, the newest commit of each branch whose values restore.
        given_up: the ids of those whose data or exact layer is given up for lost from now on.
    """

    executed: bool
    mended: list[Mended]
    aside: list[str]
    problems: list[Problem]
    losses: list[Loss]
    commits: int
    notes: list[str] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)
    newest: list[NewestWhole] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong any more."""
        return not self.problems


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
        written: bytes that are stored again first, for commits that stay.
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


@dataclass(frozen=True)
class CompactReport(Report):
    """What storing commits again did, or would do.

    Attributes:
        executed: whether it was done.
        commits: commits that refs, pins and HEAD lead to.
        chosen: how many of them were to be stored again.
        rewritten: commits whose data lie in other packs now.
        encoded: chunks that were encoded again; all others were taken over as they were, or stayed.
        packs: packs that were written.
        bytes: their bytes.
        before: bytes of the packs that value layers needed before.
        after: bytes of those that they need now.
        notes: what is worth knowing.
        store_bytes: of packs of values and of exact layers: before, afterwards, and once `gc` was there.
        sole_writer: whether nothing says that others write to the store, so that `gc` need not wait.
    """

    executed: bool
    commits: int
    chosen: int
    rewritten: int
    encoded: int
    packs: int
    bytes: int
    before: int
    after: int
    notes: list[str] = field(default_factory=list)
    store_bytes: dict[str, list[int]] = field(default_factory=dict)
    sole_writer: bool = False
