"""The last step of a commit: its branch moves to it, or another branch keeps it."""

from dataclasses import dataclass, replace

from mvcs.commits.branch_errors import DamagedBranchError, LostRaceError, SetBackError
from mvcs.commits.position import BranchPosition, MadeCommit
from mvcs.errors import ConflictError
from mvcs.objects import Commit, ObjectId
from mvcs.refs import CONFLICT, HEADS, GoingError, RefChange, RefStore, RolledBackError, update_behind

CONFLICT_DIGITS = 8


@dataclass(frozen=True)
class Publication:
    """Moves branches to commits that are durable.

    Attributes:
        refs: of the store that has them.
    """

    refs: RefStore

    def publish(self, made: MadeCommit, position: BranchPosition, author: str) -> MadeCommit:
        """Move the branch to a commit that was made.

        Raises:
            ConflictError: the branch moved meanwhile; the commit is on the branch that its `branch` names.
            CorruptionError: the branch is damaged or was set back; the commit is kept in the same way.
            GoingError: packs that the commit needs are being deleted; nothing names it.
        """
        commit, written = made.revision.commit, made.revision.written
        verb = "commit" if position.ancestors is None else "commit (amend)"
        action, exact = f"{verb}: {reflog_message(commit)}", frozenset(written.exact_packs)
        change = RefChange(made.revision.id, written.pack, author, action, exact=exact)
        if position.branch is None:
            return made
        try:
            if position.damage is None and self._moved(position.branch, position, change):
                return replace(made, branch=position.branch)
        except RolledBackError as error:
            raise SetBackError(error, self._keep_beside(position.branch, change), made) from error
        name = self._keep_beside(position.branch, change)
        if position.damage is not None:
            raise DamagedBranchError(position.damage, name, made)
        raise LostRaceError(position.branch, name, made)

    def _keep_beside(self, branch: str, change: RefChange) -> str:
        target = change.target or ObjectId(b"")
        name = f"{branch}{CONFLICT}{target.hex()[:CONFLICT_DIGITS]}"
        self.refs.update(HEADS, name, self.refs.newest(HEADS, name), change)
        return name

    def _moved(self, branch: str, position: BranchPosition, change: RefChange) -> bool:
        if position.overtaken:
            return False
        try:
            update_behind(self.refs, HEADS, branch, position.record, change)
        except GoingError:
            raise  # the commit itself is to be made again
        except ConflictError:
            return False
        return True


def reflog_message(commit: Commit) -> str:
    """Return what the reflog says of a commit: its message, else its step."""
    step = "(no message)" if commit.step is None else f"step {commit.step}"
    return commit.message.partition("\n")[0][:72] or step
