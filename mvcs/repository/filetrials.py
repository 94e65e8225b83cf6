"""Files tried out before their commit: a trial, and what tells that they are still those that were tried."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mvcs.checkpoint.captured import Captured
from mvcs.errors import ConflictError
from mvcs.quantize.config import QuantizerConfig
from mvcs.repository.trials import Trial
from mvcs.search import Evaluation


@dataclass(frozen=True)
class FilesTrial:
    """A trial of files, which a commit of the same files can be held to.

    Attributes:
        trial: what settings would make of them.
        parent: the commit that theirs would continue, in hexadecimal; "" for none.
        looked: size in bytes and modification time in nanoseconds of each file, by its path in the commit.
        stored: tells how many bytes a commit with some settings would take that records an evaluation, its
            exact layer left out: it is made and kept nowhere.
    """

    trial: Trial
    parent: str
    looked: Mapping[str, tuple[int, int]]
    stored: Callable[[QuantizerConfig, Evaluation], int]

    @property
    def captured(self) -> Captured:
        """The files, taken apart."""
        return self.trial.captured

    def require_same(self, looked: Mapping[str, tuple[int, int]]) -> None:
        """Refuse other files than those that were tried.

        Raises:
            ConflictError: one was written, added or removed since.
        """
        changed = sorted(
            path for path in {*looked, *self.looked} if looked.get(path) != self.looked.get(path)
        )
        if changed:
            raise ConflictError(
                f"'{changed[0]}' changed since it was tried: what was measured is not what is there",
                hint="try again when nobody writes to it",
            )
