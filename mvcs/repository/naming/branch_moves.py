"""A branch that goes to another commit: alone, or with the files of the folder behind it."""

from dataclasses import dataclass, replace

from mvcs.history import Revision
from mvcs.refs import HEADS, RefChange, RefRecord, update_behind
from mvcs.reports import CheckoutReport
from mvcs.repository.session import Session
from mvcs.repository.worktree.checkout import move_to
from mvcs.repository.worktree.interrupted_moves import PULL, InterruptedMove


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
        change = RefChange(self.after.id, self.after.written.pack, self.session.author, self.action)
        update_behind(self.session.refs, HEADS, self.branch, self.record, change)

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
