"""How a run ends: which step was its last, and whether that one is safe."""

from collections.abc import Mapping
from typing import NamedTuple


class Done(NamedTuple):
    """A step that a run has done, and the numbers told with it."""

    step: int
    metrics: Mapping[str, float] | None


class LastStep:
    """The last step a run has told of, and whether its whole state is committed."""

    def __init__(self) -> None:
        self._done: Done | None = None
        self._committed: int | None = None

    def done(self, step: int, metrics: Mapping[str, float] | None) -> None:
        """Take note of a step, or of a state that is saved after it."""
        self._done = Done(step, metrics)

    def committed(self, step: int) -> None:
        """Take note of a commit of a whole state; on the thread that commits."""
        self._committed = step

    @property
    def owed(self) -> Done | None:
        """The last step, if its whole state is in no commit; asked when nothing is on its way."""
        return None if self._done is None or self._done.step == self._committed else self._done
