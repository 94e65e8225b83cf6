"""A branch moved forward to what it follows, when nothing is lost by it."""

from dataclasses import dataclass

from mvcs.errors import ConflictError
from mvcs.history import Revision
from mvcs.refs import HEADS
from mvcs.remotes import ahead_behind
from mvcs.reports import CheckoutReport
from mvcs.repository.naming.branch_moves import BranchMove
from mvcs.repository.session import Session
from mvcs.repository.sharing.upstreams import Upstream
from mvcs.repository.worktree.checkout import move_to
from mvcs.repository.worktree.interrupted_moves import InterruptedMove


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
    ours = session.graph.load(record.target, record.pack) if record and record.target else None
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
