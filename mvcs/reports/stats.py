"""What `stats` answers: where the bytes of a store are, what restores cost, and what could be freed."""

from dataclasses import dataclass, field

from mvcs.objects import ABBREVIATED
from mvcs.reports.commits import KEPT, CommitInfo
from mvcs.reports.report import Report, as_ratio, as_size


@dataclass(frozen=True)
class ClassSize(Report):
    """What one class of leaves takes in all commits.

    Attributes:
        name: "weight", "small", "moment", "gradient", "other", "blobs", "elsewhere" (of commits that no ref
            leads to), or "metadata".
        raw_bytes: as handed over, of each commit anew.
        stored_bytes: of the value layer.
        exact_bytes: of exact layers that are there.
    """

    name: str
    raw_bytes: int
    stored_bytes: int
    exact_bytes: int


@dataclass(frozen=True)
class EncodingSize(Report):
    """What entries of one encoding take, of both layers.

    Attributes:
        name: the encoding.
        entries: how many.
        raw_bytes: what they decode to.
        stored_bytes: what they take.
    """

    name: str
    entries: int
    raw_bytes: int
    stored_bytes: int


@dataclass(frozen=True)
class BranchSize(Report):
    """What the commits of a branch take.

    Attributes:
        name: the branch.
        commits: how many lead to its tip.
        raw_bytes: of these, as handed over, but for those whose data were dropped.
        stored_bytes: of these, both layers.
        alone_bytes: of those of them that are on no other branch.
    """

    name: str
    commits: int
    raw_bytes: int
    stored_bytes: int
    alone_bytes: int


@dataclass(frozen=True)
class Bin(Report):
    """How many commits have a figure from `low` up to `high`, the last not included."""

    low: int
    high: int
    commits: int


@dataclass(frozen=True)
class CommitSize(Report):
    """What one commit takes, and what restoring it does.

    Attributes:
        id: the commit.
        step: of the run, if it has one.
        message: its first line.
        raw_bytes: as handed over.
        stored_bytes: of its packs of the value layer, as they are now.
        exact_bytes: of those of its exact layer.
        depth: the longest chain of deltas behind it.
        requests: ranges that are read for its value layer, its packs' footers not counted.
        read_bytes: bytes of these.
        seconds: that restoring it takes here, where this machine was measured.
    """

    id: str
    step: int | None
    message: str
    raw_bytes: int
    stored_bytes: int
    exact_bytes: int
    depth: int
    requests: int
    read_bytes: int
    seconds: float | None = None

    @property
    def short(self) -> str:
        """The abbreviated id."""
        return self.id[:ABBREVIATED]


@dataclass(frozen=True)
class MonthSize(Report):
    """What was added in a month, and what everything up to its end takes today.

    Attributes:
        month: as "2026-01", in UTC.
        commits: made in it.
        added_bytes: of these, both layers.
        stored_bytes: of all up to its end.
        price: of keeping these for a month; None where no price was given.
    """

    month: str
    commits: int
    added_bytes: int
    stored_bytes: int
    price: float | None = None


@dataclass(frozen=True)
class Freeable(Report):
    """Bytes that could go; None where nobody can tell.

    Attributes:
        gc: of what nothing needs, once what is condemned has waited.
        waiting: of what nothing needs, and is too young.
        retention: that applying the rules would give back; None where that was not asked, or cannot be told.
        compact: that `compact` would save under today's limits, below zero where shorter chains take more;
            None likewise.
    """

    gc: int | None
    waiting: int | None
    retention: int | None = None
    compact: int | None = None


@dataclass(frozen=True)
class StoreStats(Report):
    """What a store holds, and where its bytes are.

    Attributes:
        commits: that branches, tags, what is known of remotes, or HEAD lead to.
        raw_bytes: of these, as handed over, but for those whose data were dropped.
        stored_bytes: of all packs and manifests.
        value_bytes: of the packs of value layers of these commits, and their manifests.
        exact_bytes: of the packs of their exact layers.
        leant_bytes: of packs of commits that nothing leads to any more, on which these lean.
        unused_bytes: of that, what none of them needs.
        unreached_bytes: of all else: what only a reflog leads to, or nothing, and superseded records of
            manifests.
        classes: of leaves.
        encodings: those that occur.
        branches: by name.
        depths: how many commits are how deep.
        restores: how many commits read how many bytes.
        largest: the ten commits that take most.
        dearest: the ten that cost most to restore.
        shared_bytes: that would be stored once more if each commit stored all that it holds.
        freeable: what could go.
        months: in which commits were made.
        price: of a GB for a month, where one was given.
        monthly: what keeping everything costs in a month, at that price.
        notes: what could not be looked at.
        dropped: of how many commits the data were dropped. What is there of them until `gc` deletes it
            counts among `unreached_bytes`.
    """

    commits: int
    raw_bytes: int
    stored_bytes: int
    value_bytes: int
    exact_bytes: int
    unreached_bytes: int
    classes: list[ClassSize]
    encodings: list[EncodingSize]
    branches: list[BranchSize]
    depths: list[Bin]
    restores: list[Bin]
    largest: list[CommitSize]
    dearest: list[CommitSize]
    shared_bytes: int
    freeable: Freeable
    months: list[MonthSize]
    price: float | None = None
    monthly: float | None = None
    notes: list[str] = field(default_factory=list)
    dropped: int = 0
    leant_bytes: int = 0
    unused_bytes: int = 0


@dataclass
class HistorySize:
    """Sums over commits, as each was first written.

    Attributes:
        commits: how many.
        raw_bytes: of their states as handed over.
        stored_bytes: all that they added, but exact layers.
        exact_bytes: of the exact layers that they had when they were added here.
    """

    commits: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    exact_bytes: int = 0

    def add(self, info: CommitInfo) -> None:
        """Count a commit in."""
        self.commits += 1
        self.raw_bytes += info.raw_bytes
        self.stored_bytes += info.stored_bytes
        self.exact_bytes += info.exact_bytes if info.exact_layer == KEPT else 0

    def __str__(self) -> str:
        """Return it as "stored 1.2 MB of 56 MB (47x), beside exact layers of 3.4 MB"."""
        ratio = as_ratio(self.raw_bytes, self.stored_bytes)
        told = f"stored {as_size(self.stored_bytes)} of {as_size(self.raw_bytes)} ({ratio})"
        return f"{told}, beside exact layers of {as_size(self.exact_bytes)}" if self.exact_bytes else told
