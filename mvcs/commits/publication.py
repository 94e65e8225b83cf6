"""The last step of a commit: its branch moves to it, or another branch keeps it."""

from dataclasses import dataclass, replace

from mvcs.commits.request import BranchPosition, MadeCommit
from mvcs.errors import ConflictError, CorruptionError, MvcsError
from mvcs.objects import Commit, ObjectId
from mvcs.refs import CONFLICT, HEADS, GoingError, RefChange, RefStore, RolledBackError
from mvcs.reports import CommitInfo

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
        change = RefChange(made.revision.id, author, action, exact=exact)
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
            self.refs.update(HEADS, branch, position.record, change)
        except GoingError:
            raise  # the commit itself is to be made again
        except ConflictError:
            return False
        return True


def reflog_message(commit: Commit) -> str:
    """Return what the reflog says of a commit: its message, else its step."""
    step = "(no message)" if commit.step is None else f"step {commit.step}"
    return commit.message.partition("\n")[0][:72] or step


class KeptBesideError(MvcsError):
    """A branch could not be moved to a commit that is durable; the commit was kept on a branch of its own.

    Attributes:
        made: the commit.
        branch: the branch that keeps it.
        commit: the commit as a report, once it is known.
    """

    def __init__(self, message: str, hint: str | None, kept: str, made: MadeCommit) -> None:
        """Name the branch that keeps the commit."""
        super().__init__(f"{message}; this commit was kept as branch '{kept}'", hint=hint)
        self.made = made
        self.branch = kept
        self.commit: CommitInfo | None = None


class LostRaceError(KeptBesideError, ConflictError):
    """Another writer moved the branch first."""

    def __init__(self, wanted: str, kept: str, made: MadeCommit) -> None:
        """Name the branch that moved as well."""
        hint = f"compare with 'mvcs diff {wanted} {kept}', or continue there with 'mvcs switch {kept}'"
        super().__init__(f"'{wanted}' was moved by another writer", hint, kept, made)


class SetBackError(KeptBesideError, RolledBackError):
    """The branch lost records that were seen here."""

    def __init__(self, error: RolledBackError, kept: str, made: MadeCommit) -> None:
        """Say what was lost as well."""
        super().__init__(error.message, error.hint, kept, made)


class DamagedBranchError(KeptBesideError, CorruptionError):
    """The newest record of the branch cannot be read."""

    def __init__(self, error: MvcsError, kept: str, made: MadeCommit) -> None:
        """Say what is wrong with it as well."""
        super().__init__(error.message, f"continue there with 'mvcs switch {kept}'", kept, made)
