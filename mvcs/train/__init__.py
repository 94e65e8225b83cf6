"""How a running training loop hands over its state without waiting for it to be written."""

from mvcs.train.checkpointer import Checkpointer
from mvcs.train.evaluation.evaluator import Evaluator
from mvcs.train.probes.probe import Probe, probe
from mvcs.train.probes.probe_every import ProbeEvery
from mvcs.train.saving.report import Failure, Resumed, Timings
from mvcs.train.state.stateful import Stateful

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
