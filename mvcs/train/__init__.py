"""How a running training loop hands over its state without waiting for it to be written."""

from mvcs.train.checkpointer import Checkpointer
from mvcs.train.report import Failure, Resumed, Timings
from mvcs.train.stateful import Stateful

__all__ = ["Checkpointer", "Failure", "Resumed", "Stateful", "Timings"]
