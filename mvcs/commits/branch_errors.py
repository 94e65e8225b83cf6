"""Why a commit that is durable is not on the branch it was made for, and which branch keeps it."""

from mvcs.commits.position import MadeCommit
from mvcs.errors import ConflictError, CorruptionError, MvcsError
from mvcs.refs import RolledBackError
from mvcs.reports import CommitInfo


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
