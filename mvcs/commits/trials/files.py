"""Files tried out before their commit: a trial, and what tells that they are still those that were tried."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mvcs.checkpoint import Captured, Stamp
from mvcs.commits.trials.lattice_steps import LatticeTrial
from mvcs.errors import ConflictError
from mvcs.objects import Path
from mvcs.quantize import QuantizerConfig
from mvcs.search import Evaluation


@dataclass(frozen=True)
class FilesTrial:
    """A trial of files, which a commit of the same files can be held to.

    Attributes:
        trial: what settings would make of them.
        parent: the commit that theirs would continue, in hexadecimal; "" for none.
        stored: tells how many bytes a commit with some settings would take that records an evaluation, its
            exact layer left out: it is made and kept nowhere.
        parts: see `CommitRequest`.
    """

    trial: LatticeTrial
    parent: str
    stored: Callable[[QuantizerConfig, Evaluation], int]
    parts: Mapping[Path, str] | None = None

    @property
    def captured(self) -> Captured:
        """The files, taken apart."""
        return self.trial.captured

    def require_same(self, captured: Captured) -> None:
        """Refuse other files than those that were tried.

        Raises:
            ConflictError: one was written, added or removed since.
        """
        tried, now = _stamps(self.captured), _stamps(captured)
        changed = sorted(path for path in {*tried, *now} if tried.get(path) != now.get(path))
        if changed:
            raise ConflictError(
                f"'{changed[0]}' changed since it was tried: what was measured is not what is there",
                hint="try again when nobody writes to it",
            )


def _stamps(captured: Captured) -> dict[str, Stamp]:
    return {path: file.stamp for path, file in captured.origins.items()}
