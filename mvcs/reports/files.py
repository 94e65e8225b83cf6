"""What the verbs answer that bring files back or list them."""

from dataclasses import dataclass

from mvcs.reports.values import CheckoutReport, CommitInfo, Report


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
class FileInfo(Report):
    """One file of a commit.

    Attributes:
        path: from the top of the repository.
        format: "safetensors", "torch", "npz" or "opaque".
        bytes: of what it holds.
    """

    path: str
    format: str
    bytes: int
