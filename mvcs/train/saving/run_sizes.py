"""How small the commits of a run are beside their states, and why they are no smaller: told once a cause."""

import logging
from collections import Counter
from contextlib import suppress

from mvcs.errors import MvcsError
from mvcs.reports import Cause, CommitInfo, HistorySize
from mvcs.repository import Repository
from mvcs.restore import falls_short

_logger = logging.getLogger("mvcs.train")

_LARGEST = 2  # causes in a summary: the first commit is often one
# What may be wanted, or passes by itself, is no warning.
_EXPECTED = frozenset({Cause.NOT_BOUNDED, Cause.FIRST_COMMIT, Cause.NOT_NEAR})


class RunSizes:
    """Sums up the commits of a run, on the thread that makes them; another may ask for the text meanwhile.

    Args:
        repo: where the commits are.
        searches: whether they are bounded by an evaluation.
    """

    def __init__(self, repo: Repository, *, searches: bool) -> None:
        self._repo = repo
        self._searches = searches
        self._whole = HistorySize()
        self._short = 0
        self._cause: str | None = None
        self._bytes: Counter[str] = Counter()
        self._told: dict[str, str] = {}

    def add(self, commit: CommitInfo) -> None:
        """Count a commit in; say why it is not small, unless that was said of one before it."""
        self._whole.add(commit)
        if not falls_short(commit.raw_bytes, commit.stored_bytes):
            return
        self._short += 1
        # Of thousands of tensors it takes seconds to look at all, so the 1st, 2nd, 4th, 8th and so on are.
        if self._short & (self._short - 1) == 0:
            with suppress(MvcsError):  # the commit is made, whatever can be told of it
                self._look(commit)
        if self._cause is not None:
            self._bytes[self._cause] += commit.stored_bytes

    def _look(self, commit: CommitInfo) -> None:
        found = self._repo.show(commit.id).shortfall
        # A run that was told to end has no time to search.
        if found is None or (found.cause == Cause.NOT_BOUNDED and self._searches):
            return
        told, self._cause = f"commit {commit.short}: {found.told}", found.cause
        if found.cause not in self._told:
            _logger.log(logging.INFO if found.cause in _EXPECTED else logging.WARNING, "%s", told)
        self._told[found.cause] = told

    def __str__(self) -> str:
        """Return how small all commits are together, and why those of most bytes are no smaller."""
        whole = self._whole
        told = f"{whole}, of which the newest stay" if whole.exact_bytes else f"{whole}"
        causes = self._bytes.most_common(_LARGEST) if falls_short(whole.raw_bytes, whole.stored_bytes) else []
        return "; ".join([told, *(self._told[cause] for cause, _ in causes)])
