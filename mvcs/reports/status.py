"""What `status` answers."""

from dataclasses import dataclass, field

from mvcs.reports.commits import CommitInfo
from mvcs.reports.report import Report


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
