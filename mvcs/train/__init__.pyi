from . import channels
from .checkpointer import Checkpointer
from .evaluation.call_evaluate import called
from .evaluation.evaluator import Evaluator
from .probing import Probe, ProbeEvery, probe, probe_commit
from .saving.report import Failure, Resumed, Timings
from .sensitivity import Sensitivity
from .state.stateful import Stateful
from .tuning import Budget, Candidate, ChosenStep, TuneReport, tune_files

__all__ = [
    "Budget",
    "Candidate",
    "Checkpointer",
    "ChosenStep",
    "Evaluator",
    "Failure",
    "Probe",
    "ProbeEvery",
    "Resumed",
    "Sensitivity",
    "Stateful",
    "Timings",
    "TuneReport",
    "called",
    "channels",
    "probe",
    "probe_commit",
    "tune_files",
]
