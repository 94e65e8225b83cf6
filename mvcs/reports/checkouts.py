"""What `status`, and verbs that write files, answer."""

from dataclasses import dataclass, field

from mvcs.reports.commits import CommitInfo
from mvcs.reports.report import Report


@dataclass(frozen=True)
class CheckoutReport(Report):
    """What an in-place checkout did.

    Attributes:
        commit: where HEAD stands now; None before the first commit.
        written: files that were not as the commit restores them.
        removed: files that the commit before had and this one has not.
        layer: what was restored; None when the files were left alone.
        branch: the branch HEAD is on now; None when it is detached.
        unchanged: files that were left alone, since they were as the commit restores them.
        upstream: what a branch follows that was made of a branch of a remote.
        parts: names at the top of the state that the commit holds, which writes no file; None for files.
    """

    commit: CommitInfo | None
    written: list[str]
    removed: list[str]
    layer: str | None
    branch: str | None
    unchanged: list[str] = field(default_factory=list)
    upstream: str | None = None
    parts: list[str] | None = None


@dataclass(frozen=True)
class ExportReport(Report):
    """What a checkout to somewhere else wrote.

    Attributes:
        commit: where it comes from.
        target: the file or folder.
        tensors: how many.
        bytes: of what was written.
        left_out: values that the format cannot hold.
        layer: what was restored, "exact" or "value".
        format: of the file; "folder" for one.
        files: how many.
    """

    commit: CommitInfo
    target: str
    tensors: int
    bytes: int
    left_out: list[str]
    layer: str
    format: str
    files: int


@dataclass(frozen=True)
class RestoreReport(Report):
    """What restoring some files in place did.

    Attributes:
        commit: where they came from.
        written: files that were not as the commit restores them.
        unchanged: files that were left alone, since they were.
        layer: what was restored.
    """

    commit: CommitInfo
    written: list[str]
    unchanged: list[str]
    layer: str


@dataclass(frozen=True)
class ResetReport(Report):
    """What a reset did.

    Attributes:
        commit: where HEAD stands now.
        branch: the branch that moved; None when HEAD is detached.
        left: the commit it stood on before; None when it did not move.
        files: what became of the files; None when they were left alone.
        parts: names at the top of the state that the commit holds; None for files.
    """

    commit: CommitInfo
    branch: str | None
    left: str | None
    files: CheckoutReport | None
    parts: list[str] | None = None


@dataclass(frozen=True)
class FileStatus(Report):
    """One file of the working folder: "modified", "deleted", "untracked" or "unmodified"."""

    path: str
    state: str


@dataclass(frozen=True)
class Status(Report):
    """Where the working folder stands.

    Attributes:
        branch: the branch HEAD is on; None when it is detached.
        head: its commit; None before the first, and where it cannot be read.
        entries: files.
        problems: what went wrong lately, and what is damaged.
        remote: how many commits the branch is ahead of and behind what it follows, as last seen.
        upstream: what it follows, such as "origin/main".
        unreadable: the commit, or the branch's record, is damaged; files are compared with the last known.
        parts: names at the top of the state that its commit holds; None for files.
        others: files that are no checkpoints, and that the commit does not hold; a commit of the whole folder
            takes them too. A hidden folder, which is not looked into, ends in a slash.
        conflicts: branches of commits that could not go on this one, as another writer was first.
        room: bytes that packs take, and that `store.max_bytes` allows; None without a limit.
        compacting: commits that a compaction in the background looked at, and of how many; None for none.
        refused: why a commit of the whole folder is refused, by the files and folders that it is refused for.
        damaged: whether HEAD's commit, or what leads to it, cannot be read; `problems` say what.
    """

    branch: str | None
    head: CommitInfo | None
    entries: list[FileStatus]
    problems: list[str]
    remote: tuple[int, int] | None = None
    upstream: str | None = None
    unreadable: bool = False
    parts: list[str] | None = None
    others: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    room: tuple[int, int] | None = None
    compacting: tuple[int, int] | None = None
    damaged: bool = False
