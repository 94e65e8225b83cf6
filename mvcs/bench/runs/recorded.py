"""Recorded checkpoints loaded back into a model and its optimizer."""

from pathlib import Path

import torch
from torch import nn

from mvcs.bench.runs.run_maker import load_checkpoint
from mvcs.errors import FileFormatError

_OPTIMIZERS = ("optimizer", "opt")


def load_recorded(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Load a file with the keys "model" and "optimizer" (or "opt"), as runs write it.

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
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(found[0])
    except (RuntimeError, ValueError, KeyError) as error:
        raise FileFormatError(f"'{path}' is not a checkpoint of this task's model: {error}") from error
