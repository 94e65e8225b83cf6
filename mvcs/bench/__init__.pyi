from .bounded import BoundedReport, BoundedStep, BoundedTerms, Judged
from .codecs.clock import Speed
from .codecs.codec import CodecReport, CodecRow, CodecSection, measure_codec
from .history import CommittedStep, HistoryReport, commit_all
from .replay import replay_run
from .runs.cnn import CnnTask
from .runs.gpt import GptTask
from .runs.images import fashion_mnist
from .runs.run_maker import MakeReport, make_run
from .runs.tasks import Task
from .runs.text import held_out_text

__all__ = [
    "BoundedReport",
    "BoundedStep",
    "BoundedTerms",
    "CnnTask",
    "CodecReport",
    "CodecRow",
    "CodecSection",
    "CommittedStep",
    "GptTask",
    "HistoryReport",
    "Judged",
    "MakeReport",
    "Speed",
    "Task",
    "commit_all",
    "fashion_mnist",
    "held_out_text",
    "make_run",
    "measure_codec",
    "replay_run",
]
