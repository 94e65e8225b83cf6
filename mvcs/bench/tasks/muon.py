"""A small GPT with two optimizers: Muon for its hidden matrices, AdamW for the rest."""

from dataclasses import dataclass

import torch
from torch import nn

from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.schedules import Schedule
from mvcs.bench.runs.tasks import SampleSizes
from mvcs.bench.tasks.gpt import SMALL, SMALL_SAMPLES, SMALL_SCHEDULE, GptTask, Sizes
from mvcs.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class MuonTask(GptTask):
    """Next-byte prediction; updates of matrices are orthogonal (Muon, Jordan 2024)."""

    sizes: Sizes = SMALL
    name: str = "muon"
    schedule: Schedule = SMALL_SCHEDULE
    sample_sizes: SampleSizes = SMALL_SAMPLES

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with Muon, and with AdamW as "adamw".

        Raises:
            UsageError: this torch has no Muon.
        """
        if not hasattr(torch.optim, "Muon"):
            raise UsageError(f"torch {torch.__version__} has no Muon", hint="install torch 2.9 or later")
        hidden = [one for name, one in model.named_parameters() if _is_hidden(name, one)]
        others = [one for name, one in model.named_parameters() if not _is_hidden(name, one)]
        rate = self.schedule.peak
        # Scaled like this, updates of both are of one size, and one rate suits both.
        muon = torch.optim.Muon(hidden, lr=rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
        adamw = torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
        return Learner(model, muon, {"adamw": adamw})


def _is_hidden(name: str, parameter: nn.Parameter) -> bool:
    return name.startswith("blocks.") and parameter.dim() == 2
