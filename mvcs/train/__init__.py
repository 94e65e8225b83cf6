"""How a running training loop hands over its state without waiting for it to be written."""

from mvcs.train.checkpointer import Checkpointer, Resumed
from mvcs.train.parts import Stateful
from mvcs.train.report import Failure, Timings

__all__ = ["Checkpointer", "Failure", "Resumed", "Stateful", "Timings"]
