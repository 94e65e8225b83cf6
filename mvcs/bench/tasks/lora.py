"""Adapters of low rank beside the frozen matrices of a GPT that another run has learned."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.schedules import Constant, Schedule
from mvcs.bench.tasks.finetune import FinetuneTask

SCHEDULE = Constant(peak=1e-3, warm=15)


class Adapted(nn.Module):
    """A frozen linear layer, and a product of two thin matrices that is added (LoRA, Hu et al. 2021).

    The second one begins at zero, so at first nothing is added.
    """

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False)
        self.scale = scale
        nn.init.kaiming_uniform_(self.lora_A.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer and the adapter make of x."""
        found: Tensor = self.base_layer(x) + self.scale * self.lora_B(self.lora_A(x))
        return found


@dataclass(frozen=True, kw_only=True)
class LoraTask(FinetuneTask):
    """The same prose, learned by adapters of all matrices of attention and of the layers behind it.

    Attributes:
        rank: of the adapters.
        scale: what they give is multiplied by.
    """

    rank: int = 8
    scale: float = 2.0
    name: str = "lora"
    schedule: Schedule = SCHEDULE

    def model(self) -> nn.Module:
        """Return the base, frozen, with adapters that do nothing yet."""
        model = super().model().requires_grad_(requires_grad=False)
        for block in model.get_submodule("blocks").children():
            for name, layer in list(block.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(block, name, Adapted(layer, self.rank, self.scale))
        return model

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with AdamW on the adapters alone."""
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        return Learner(model, torch.optim.AdamW(learned, lr=self.schedule.peak, weight_decay=0.0))
