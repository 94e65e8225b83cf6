from .bench_run import MethodsReport, names_of, run_methods
from .bounded import BoundedReport, BoundedStep, BoundedTerms, ConstantStretch, Judged
from .channels import ChannelsPlan, ChannelsReport, LinkSpeed, channels_task, run_channels
from .codecs.clock import Speed
from .codecs.codec import CodecReport, CodecRow, CodecSection, measure_codec
from .comparison import Terms
from .data.text import held_out_text
from .experiments import Options, PaperReport, run_experiment
from .history import CommittedStep, HistoryReport, commit_all
from .judges import FunctionJudge, TaskJudge
from .replay import replay_run
from .results import ComparisonReport, Result, RunResults
from .runs.recorded_state import RecordedRun
from .runs.run_maker import MakeReport, make_run
from .runs.tasks import Task
from .tasks.catalog import RECIPES, task_of
from .tasks.next_byte import GptTask

__all__ = [
    "RECIPES",
    "BoundedReport",
    "BoundedStep",
    "BoundedTerms",
    "ChannelsPlan",
    "ChannelsReport",
    "CodecReport",
    "CodecRow",
    "CodecSection",
    "CommittedStep",
    "ComparisonReport",
    "ConstantStretch",
    "FunctionJudge",
    "GptTask",
    "HistoryReport",
    "Judged",
    "LinkSpeed",
    "MakeReport",
    "MethodsReport",
    "Options",
    "PaperReport",
    "RecordedRun",
    "Result",
    "RunResults",
    "Speed",
    "Task",
    "TaskJudge",
    "Terms",
    "channels_task",
    "commit_all",
    "held_out_text",
    "make_run",
    "measure_codec",
    "names_of",
    "replay_run",
    "run_channels",
    "run_experiment",
    "run_methods",
    "task_of",
]
