from .bounded import BoundedReport, BoundedStep, BoundedTerms, ConstantStretch, Judged
from .codecs.clock import Speed
from .codecs.codec import CodecReport, CodecRow, CodecSection, measure_codec
from .data.text import held_out_text
from .history import CommittedStep, HistoryReport, commit_all
from .replay import replay_run
from .runs.run_maker import MakeReport, make_run
from .runs.tasks import Task
from .tasks.catalog import RECIPES, task_of
from .tasks.next_byte import GptTask

__all__ = [
    "RECIPES",
    "BoundedReport",
    "BoundedStep",
    "BoundedTerms",
    "CodecReport",
    "CodecRow",
    "CodecSection",
    "CommittedStep",
    "ConstantStretch",
    "GptTask",
    "HistoryReport",
    "Judged",
    "MakeReport",
    "Speed",
    "Task",
    "commit_all",
    "held_out_text",
    "make_run",
    "measure_codec",
    "replay_run",
    "task_of",
]
