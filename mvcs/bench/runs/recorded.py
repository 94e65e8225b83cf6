"""Recorded checkpoints loaded back into a model and what learns it."""

from pathlib import Path

from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.run_maker import load_checkpoint
from mvcs.errors import FileFormatError

_OPTIMIZERS = ("optimizer", "opt")


def load_recorded(path: Path, learner: Learner) -> None:
    """Load a file with the keys "model", "optimizer" (or "opt") and those of further parts.

    Raises:
        FileFormatError: it is not a checkpoint of such a model.
    """
    state = load_checkpoint(path)
    found = [state[name] for name in _OPTIMIZERS if name in state]
    if "model" not in state or not found:
        raise FileFormatError(
            f"'{path}' does not hold a model and its optimizer",
            hint="record both state dicts, as 'mvcs bench make' does",
        )
    try:
        learner.load_state_dict(state | {"optimizer": found[0]})
    except (RuntimeError, ValueError, KeyError) as error:
        raise FileFormatError(f"'{path}' is not a checkpoint of this task's model: {error}") from error
