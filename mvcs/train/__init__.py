"""How a running training loop hands over its state without waiting for it to be written."""

from mvcs.train.checkpointer import Checkpointer
from mvcs.train.evaluating import Evaluator
from mvcs.train.probe_every import ProbeEvery
from mvcs.train.probing import Probe, probe
from mvcs.train.report import Failure, Resumed, Timings
from mvcs.train.stateful import Stateful

__all__ = [
    "Checkpointer",
    "Evaluator",
    "Failure",
    "Probe",
    "ProbeEvery",
    "Resumed",
    "Stateful",
    "Timings",
    "probe",
]
