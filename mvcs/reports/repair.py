"""What a repair answers."""

from dataclasses import dataclass, field

from mvcs.reports.fsck import Problem
from mvcs.reports.report import Report


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
    """

    branch: str
    commit: str | None = None
    step: int | None = None
    message: str = ""
    exact: bool = True


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

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong any more."""
        return not self.problems
