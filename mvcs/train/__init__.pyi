from .checkpointer import Checkpointer
from .evaluation.evaluator import Evaluator
from .probes.commit_probes import probe_commit
from .probes.probe import Probe, probe
from .probes.probe_every import ProbeEvery
from .saving.report import Failure, Resumed, Timings
from .state.stateful import Stateful
from .tune.report import Candidate, ChosenStep, TuneReport
from .tune.tuning import Budget, tune_files

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
    "Stateful",
    "Timings",
    "TuneReport",
    "probe",
    "probe_commit",
    "tune_files",
]
