"""Where a commit goes, and what it is once it is durable."""

from dataclasses import dataclass

from mvcs.errors import MvcsError
from mvcs.history import Revision
from mvcs.objects import Tree
from mvcs.refs import RefRecord


@dataclass(frozen=True)
class BranchPosition:
    """Where a commit goes: its parent, and the branch that has to move.

    Attributes:
        parent: the commit it continues, or takes the place of; None for the first.
        branch: the branch; None when HEAD is detached.
        record: the newest record of the branch when the commit began; None for a new branch.
        overtaken: the branch has already moved on from the parent.
        beside: the branch's tip, when the commit continues an earlier one of its commits instead.
        ancestors: what `parent` continues, where the commit takes its place; None where it continues it.
        damage: what is wrong with the newest record of the branch, which is not moved then.
    """

    parent: Revision | None
    branch: str | None
    record: RefRecord | None
    overtaken: bool = False
    beside: Revision | None = None
    ancestors: tuple[Revision, ...] | None = None
    damage: MvcsError | None = None

    @property
    def parents(self) -> tuple[Revision, ...]:
        """The commit it continues first."""
        if self.ancestors is not None:
            return self.ancestors
        return tuple(revision for revision in (self.parent, self.beside) if revision is not None)


@dataclass(frozen=True)
class MadeCommit:
    """A commit that is durable.

    Attributes:
        revision: the commit.
        tree: what it holds.
        notes: what to tell the user.
        timings: milliseconds by name.
        branch: the branch it was published on.
    """

    revision: Revision
    tree: Tree
    notes: tuple[str, ...]
    timings: dict[str, float]
    branch: str | None = None
