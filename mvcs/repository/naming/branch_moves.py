"""A branch that goes to another commit: alone, or with the files of the folder behind it."""

from dataclasses import dataclass, replace

from mvcs.history.graph import Revision
from mvcs.refs import HEADS, RefRecord
from mvcs.refs.refstore import Change
from mvcs.reports.files import ResetReport
from mvcs.reports.values import CheckoutReport
from mvcs.repository.session import Session
from mvcs.repository.worktree.checkout import move_to
from mvcs.repository.worktree.interrupted_moves import PULL, RESET, InterruptedMove, refuse_unfinished
from mvcs.repository.worktree.whereabouts import head_to_leave
from mvcs.restore.reading import parts_of


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
        change = Change(self.after.id, self.after.written.pack, self.session.author, self.action)
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


def reset(session: Session, revision: Revision, rev: str, *, hard: bool, force: bool) -> ResetReport:
    """Move the branch HEAD is on, or HEAD itself where it is on none; the reflog keeps where it was.

    Args:
        session: the repository.
        revision: where to.
        rev: how that was named.
        hard: whether the files follow.
        force: whether what is stored nowhere may be lost by it.

    Raises:
        ConflictError: that would be lost, another writer moved the branch, or a pull was stopped.
    """
    before, branch = head_to_leave(session, forced=force or not hard), session.branch
    if not hard:
        refuse_unfinished(session, before)
    record = None if branch is None else session.head_record(branch)
    move, moves = None, before is None or before.id != revision.id
    if branch is not None and moves:
        move = BranchMove(session, branch, record, before, revision, f"reset: moving to {rev}", RESET)
    files = None
    if hard and move is not None:
        files = move.with_files(force=force)
    elif hard:
        files = move_to(session, revision, branch, exact=False, force=force)
    elif move is not None:
        move.alone()
    elif moves:
        session.set_head(revision.id.hex(), f"reset: moving to {rev}")
    left = before.id if before is not None else record.target if record is not None else None
    parts = parts_of(session.reader(), revision)
    return ResetReport(session.info(revision), branch, left.hex() if left and moves else None, files, parts)
