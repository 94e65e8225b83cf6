"""What a run is told about its commits: how long each took, and which failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


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
    """

    step: int
    commit: str
    blocked_ms: float
    queue_wait_ms: float
    queued_ms: float
    encode_ms: float
    write_ms: float


@dataclass(frozen=True)
class Failure:
    """A commit that could not be made.

    Attributes:
        step: the step whose state was not committed.
        kind: name of the error's class.
        message: what failed, on what.
        hint: what to do about it, where the error knows.
    """

    step: int
    kind: str
    message: str
    hint: str | None = None

    @classmethod
    def of(cls, step: int, error: BaseException) -> "Failure":
        """Describe `error` without holding on to it: its traceback would keep a whole state alive."""
        return cls(step, type(error).__name__, str(error), getattr(error, "hint", None))

    def __str__(self) -> str:
        text = f"step {self.step} was not committed: {self.message or self.kind}"
        return f"{text} ({self.hint})" if self.hint else text


def summary(timings: Sequence[Timings], failures: Sequence[Failure], skipped: Sequence[int]) -> str:
    """Return one line with the numbers of commits and the median and largest times."""
    counts = f"{len(timings)} committed, {len(failures)} failed, {len(skipped)} skipped"
    if not timings:
        return counts
    columns = {
        "blocked": [timing.blocked_ms for timing in timings],
        "queue wait": [timing.queue_wait_ms for timing in timings],
        "encode": [timing.encode_ms for timing in timings],
        "write": [timing.write_ms for timing in timings],
    }
    times = (f"{name} {median(values):.1f} (max {max(values):.1f})" for name, values in columns.items())
    return f"{counts}; median ms: {', '.join(times)}"
