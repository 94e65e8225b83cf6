"""What a run is told about its commits: how long each took, which failed, and where it continued from."""

import logging
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from mvcs import errors
from mvcs.commits import (
    GRID_REASON,
    KEPT_EXACTLY,
    MOMENTS_REST,
    NO_SUCH_MOMENT,
    SNAP_BACK_REASON,
    WEIGHTS_REST,
)
from mvcs.errors import MvcsError
from mvcs.reports import Cause, CommitInfo, HistorySize
from mvcs.repository import Repository
from mvcs.restore import falls_short
from mvcs.train.choice.search import NO_CANDIDATE

_logger = logging.getLogger("mvcs.train")

HELD = 10_000
# of notes that concern commit after commit
_LASTING = (SNAP_BACK_REASON, GRID_REASON, NO_SUCH_MOMENT, MOMENTS_REST, WEIGHTS_REST)

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")

T = TypeVar("T")
_LARGEST = 2  # causes in a summary: the first commit is often one
# What may be wanted, or passes by itself, is no warning.
_EXPECTED = frozenset({Cause.NOT_BOUNDED, Cause.FIRST_COMMIT, Cause.NOT_NEAR})


@dataclass(frozen=True)
class Resumed:
    """Where a run continued from.

    Attributes:
        commit: the commit whose state was loaded.
        layer: "exact" or "value".
        lossy: the loaded state is not the one that was handed over.
        exact: names of the parts that are bit for bit what was handed over.
        bounded: names of the parts in which something was quantized.
        anew: names of the parts of this run that the commit has no state for.
        skipped: steps of the commits after it that hold weights alone.
        damaged: packs of its exact layer that cannot be read; the value layer was loaded in its place.
    """

    commit: CommitInfo
    layer: str
    lossy: bool
    exact: tuple[str, ...] = ()
    bounded: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    skipped: tuple[int, ...] = ()
    damaged: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = {"exact": self.exact, "bounded": self.bounded, "starting from the beginning": self.anew}
        told = "; ".join(f"{name}: {', '.join(found)}" for name, found in parts.items() if found)
        step = self.commit.step
        text = f"resumed after step {step} from the {self.layer} layer of commit {self.commit.short} ({told})"
        return f"{text}, since its exact layer is damaged" if self.damaged else text


@dataclass(frozen=True)
class Timings:
    """Where the time of one commit went, in milliseconds.

    Attributes:
        step: the step whose state was committed.
        commit: id of the commit, 64 hex digits.
        blocked_ms: training thread: gathering the state and copying it to host memory.
        queue_wait_ms: training thread: waiting, before that, for a free place in the queue.
        queued_ms: beside training: from the end of the copy to the begin of the commit.
        encode_ms: beside training: hashing, quantizing, encoding.
        write_ms: beside training: writing packs and the ref.
        processor_ms: beside training: time of the processor, on all threads that worked on it.
        search_ms: training thread: choosing how the commit is bounded, evaluations included.
        evaluations: of the whole sample, that choosing took.
    """

    step: int
    commit: str
    blocked_ms: float
    queue_wait_ms: float
    queued_ms: float
    encode_ms: float
    write_ms: float
    processor_ms: float
    search_ms: float = 0.0
    evaluations: float = 0.0


@dataclass(frozen=True)
class Failure:
    """A commit that could not be made.

    Attributes:
        step: the step whose state was not committed.
        kind: name of the error's class.
        message: what failed, on what.
        hint: what to do about it, where the error knows.
        committed: the commit was made; something that followed it failed.
    """

    step: int
    kind: str
    message: str
    hint: str | None = None
    committed: bool = False

    @classmethod
    def of(cls, step: int, error: BaseException, *, committed: bool = False) -> "Failure":
        """Describe `error` without holding on to it: its traceback would keep a whole state alive."""
        return cls(step, type(error).__name__, str(error), getattr(error, "hint", None), committed)

    def __str__(self) -> str:
        became = "was committed, but on_commit failed" if self.committed else "was not committed"
        text = f"step {self.step} {became}: {self._said}"
        return f"{text} ({self.hint})" if self.hint else text

    @property
    def _said(self) -> str:
        """What failed: others' messages mean little without the kind of error, as a key does."""
        is_ours = hasattr(errors, self.kind)
        return (
            self.message if is_ours and self.message else ": ".join(filter(None, (self.kind, self.message)))
        )


class Newest(list[T]):
    """A list of what happened in a run; of more than `HELD` things the newest are held, and all are counted.

    Attributes:
        total: how many there were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def append(self, item: T) -> None:
        """Add what happened last."""
        super().append(item)
        self.total += 1
        del self[:-HELD]

    def since(self, told: int) -> list[T]:
        """Return those after the first `told`, as far as they are held."""
        return self[max(told - self.total + len(self), 0) :] if told < self.total else []


class Unbounded:
    """Tells which commits of a run are exact, since no candidate kept the bound, and counts them."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._in_a_row = 0
        self.total = 0

    def tell(self, commit: CommitInfo, reasons: str | None) -> None:
        """Warn of a commit where its reasons are others in more than numbers; None if it is none of these."""
        if reasons is None:
            self._tell_bounded(commit)
            return
        self.total, self._in_a_row = self.total + 1, self._in_a_row + 1
        kinds = {_NUMBER.sub("#", reason.partition(":")[0]) for reason in reasons.split("; ")}
        if kinds <= self._told:
            _logger.info("commit %s: %s, as %d before it", commit.short, NO_CANDIDATE, self.total - 1)
        else:
            _logger.warning("commit %s: %s: %s", commit.short, NO_CANDIDATE, reasons)
        self._told |= kinds

    def _tell_bounded(self, commit: CommitInfo) -> None:
        if commit.bounded and self._in_a_row:
            _logger.info("commit %s: bounded again, after %d exact ones", commit.short, self._in_a_row)
            self._in_a_row = 0

    def tell_end(self, commits: int) -> None:
        """Tell how many of all commits of a run they were, where there were several."""
        if self.total > 1:
            _logger.warning("%d of %d commits are %s", self.total, commits, NO_CANDIDATE)


class Notes:
    """Tells what is to be known of the commits of a run; what concerns many of them, once in full."""

    def __init__(self) -> None:
        self._told: set[str | None] = set()
        self.of_moments: list[str] = []
        self.unbounded = Unbounded()

    def tell(self, commit: CommitInfo, notes: Iterable[str]) -> None:
        """Warn of each note of a commit.

        That progress since a lossy restore is kept, or 16-bit tensors exactly, is one of the first alone.
        So is a description of moments that are not there. Why moments are kept exactly is told once, and
        held for the summary of the run.
        """
        told = list(notes)
        begin = f"{NO_CANDIDATE}: "
        unbounded = next((note for note in told if note.startswith(begin)), None)
        self.unbounded.tell(commit, unbounded and unbounded.removeprefix(begin))
        for note in told:
            if note is unbounded:
                continue
            if KEPT_EXACTLY in note:
                if note in self.of_moments:
                    continue
                self.of_moments.append(note)
            reason = next((one for one in _LASTING if f": {one}" in note), None)
            if reason in self._told:
                what = note.partition(f": {reason}")[0]
                _logger.info("commit %s: %s, as told before", commit.short, what)
                continue
            self._told |= {reason} - {None}
            _logger.warning("commit %s: %s", commit.short, note)


def summary(
    timings: Newest[Timings],
    failures: Newest[Failure],
    skipped: Newest[int],
    not_evaluated: Newest[int],
    notes: Notes,
) -> str:
    """Return one line with the numbers of commits, the median and largest times of those held, and notes."""
    counts = f"{timings.total} committed, {failures.total} failed, {skipped.total} skipped"
    if not_evaluated:
        counts += f", {not_evaluated.total} not evaluated"
    if notes.unbounded.total:
        counts += f", {notes.unbounded.total} {NO_CANDIDATE}"
    counts += "".join(f"; {note}" for note in notes.of_moments)
    if not timings:
        return counts
    columns = {
        "blocked": [timing.blocked_ms for timing in timings],
        "queue wait": [timing.queue_wait_ms for timing in timings],
        "encode": [timing.encode_ms for timing in timings],
        "write": [timing.write_ms for timing in timings],
    }
    if any(timing.search_ms for timing in timings):
        columns["search"] = [timing.search_ms for timing in timings]
    times = (f"{name} {median(values):.1f} (max {max(values):.1f})" for name, values in columns.items())
    return f"{counts}; median ms: {', '.join(times)}"


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
