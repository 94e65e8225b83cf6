"""A branch that goes to another commit: alone, or with the files of the folder behind it."""

from dataclasses import dataclass, replace

from mvcs.errors import ConflictError
from mvcs.history import Revision
from mvcs.refs import HEADS, RefChange, RefRecord
from mvcs.remotes import ahead_behind
from mvcs.reports import CheckoutReport
from mvcs.repository.session import Session
from mvcs.repository.sharing.upstreams import Upstream
from mvcs.repository.worktree.checkout import move_to
from mvcs.repository.worktree.whereabouts import PULL, InterruptedMove


@dataclass(frozen=True)
class BranchMove:
    """Where a branch goes.

    Attributes:
        session: the repository.
        branch: its name.
        record: its newest record, which must still be that when it moves; None for a new branch.
        before: the commit it stands on; None for none.
        after: the commit it goes to.
        action: what the reflog says.
        verb: what moves it.
    """

    session: Session
    branch: str
    record: RefRecord | None
    before: Revision | None
    after: Revision
    action: str
    verb: str = PULL

    def alone(self) -> None:
        """Move the branch.

        Raises:
            ConflictError: another writer was first; nothing changed.
        """
        change = RefChange(self.after.id, self.session.author, self.action)
        self.session.refs.update(HEADS, self.branch, self.record, change)

    def with_files(self, *, force: bool = False) -> CheckoutReport:
        """Move the branch, and then files and HEAD; an interruption between the two is remembered.

        Raises:
            ConflictError: something that is stored nowhere would be lost, or another writer was first.
        """

        def move() -> None:
            before = None if self.before is None else self.before.id
            begun = InterruptedMove(self.branch, before, self.after.id, self.verb)
            earlier = InterruptedMove.of(self.session, self.before)
            if earlier is not None:
                begun = replace(begun, before=earlier.before)
            begun.begin(self.session)
            self.alone()

        return move_to(self.session, self.after, self.branch, exact=False, force=force, agreed=move)


@dataclass(frozen=True)
class Forwarded:
    """What became of a branch.

    Attributes:
        files: what was restored in the folder; None where the files stayed.
        moved: whether it was behind.
    """

    files: CheckoutReport | None
    moved: bool


def forward(session: Session, branch: str, upstream: Upstream, theirs: Revision) -> Forwarded:
    """Move a branch to a commit of its remote, and then files and HEAD when HEAD is on it.

    Raises:
        ConflictError: both sides have commits the other lacks.
    """
    record = session.refs.newest(HEADS, branch)
    ours = session.graph.load(record.target) if record and record.target else None
    followed = branch == session.branch and session.place.top is not None
    if ours is not None and session.graph.is_ancestor(theirs.id, ours):
        stopped = followed and InterruptedMove.of(session, ours)
        files = move_to(session, ours, branch, exact=False, force=False) if stopped else None
        return Forwarded(files, moved=False)
    if ours is not None and not session.graph.is_ancestor(ours.id, theirs):
        raise _diverged(session, branch, upstream, ours, theirs)
    going = BranchMove(session, branch, record, ours, theirs, f"pull: {upstream.remote}")
    if followed:
        return Forwarded(going.with_files(), moved=True)
    going.alone()
    return Forwarded(None, moved=True)


def _diverged(
    session: Session, branch: str, upstream: Upstream, ours: Revision, theirs: Revision
) -> ConflictError:
    ahead, behind = ahead_behind(session.graph, ours, theirs)
    return ConflictError(
        f"'{branch}' and '{upstream.name}' have diverged: {ahead} and {behind} commits that the other lacks",
        hint=f"to take theirs and keep yours beside: 'mvcs branch my-{branch}', then "
        f"'mvcs reset --hard {upstream.name}'; to put yours in the place of theirs: "
        f"'mvcs push --force {upstream.remote} {branch}'",
    )
