"""Small GPTs whose weights are bfloat16: beside float32 masters, or alone."""

from dataclasses import dataclass

from torch import nn

from mvcs.bench.runs.learner import Learner, MasterLearner, masters_of
from mvcs.bench.runs.schedules import Schedule
from mvcs.bench.runs.tasks import SampleSizes
from mvcs.bench.tasks.gpt import SMALL, SMALL_SAMPLES, SMALL_SCHEDULE, Gpt, GptTask, Sizes


@dataclass(frozen=True, kw_only=True)
class PureBf16Task(GptTask):
    """Weights, gradients and moments are bfloat16 and rounded to the nearest: small updates are lost."""

    sizes: Sizes = SMALL
    name: str = "bf16-pure"
    schedule: Schedule = SMALL_SCHEDULE
    sample_sizes: SampleSizes = SMALL_SAMPLES

    def model(self) -> nn.Module:
        """Return a new model of bfloat16 weights."""
        return Gpt(self.sizes).bfloat16()


@dataclass(frozen=True, kw_only=True)
class Bf16Task(PureBf16Task):
    """The model computes with bfloat16 weights; the optimizer moves float32 masters, which are rounded."""

    name: str = "bf16"

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with masters, and the optimizer of these."""
        masters = masters_of(model)
        return MasterLearner(model, masters, self.optimizer(masters))
