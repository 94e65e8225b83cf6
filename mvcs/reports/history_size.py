"""How much smaller commits are, together, than the states that they stand for."""

from dataclasses import dataclass

from mvcs.reports.commits import KEPT, CommitInfo
from mvcs.reports.figures import as_ratio, as_size


@dataclass
class HistorySize:
    """Sums over commits, as each was first written.

    Attributes:
        commits: how many.
        raw_bytes: of their states as handed over.
        stored_bytes: all that they added, but exact layers.
        exact_bytes: of the exact layers that they had when they were added here.
    """

    commits: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    exact_bytes: int = 0

    def add(self, info: CommitInfo) -> None:
        """Count a commit in."""
        self.commits += 1
        self.raw_bytes += info.raw_bytes
        self.stored_bytes += info.stored_bytes
        self.exact_bytes += info.exact_bytes if info.exact_layer == KEPT else 0

    def __str__(self) -> str:
        """Return it as "stored 1.2 MB of 56 MB (47x), beside exact layers of 3.4 MB"."""
        ratio = as_ratio(self.raw_bytes, self.stored_bytes)
        told = f"stored {as_size(self.stored_bytes)} of {as_size(self.raw_bytes)} ({ratio})"
        return f"{told}, beside exact layers of {as_size(self.exact_bytes)}" if self.exact_bytes else told
