"""What came out of a loop of trials: how often each thing happened, and what must never happen."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts by name.

    Attributes:
        seen: what happened.
        broken: promises that were broken, each with enough to repeat the trial.
        slowest: seconds of the processor that the slowest command took.
    """

    seen: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def note(self, name: str, count: int = 1) -> None:
        """Count something that may happen."""
        self.seen[name] += count

    def fail(self, what: str) -> None:
        """Take down a broken promise."""
        self.broken.append(what)

    def check(self, holds: bool, what: str) -> None:
        """Take down a broken promise unless it holds."""
        if not holds:
            self.fail(what)
