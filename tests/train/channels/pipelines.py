"""A small pipeline that trains over a link, or without one."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.nn.functional import mse_loss

from mvcs.channels import MessageStore
from mvcs.train.channels import QuantizedLink

WIDTH = 64
BATCH = 16


def store_of(rank: int, folder: Path, bits: int = 16) -> MessageStore:
    return MessageStore(folder / f"messages-{rank}", memory=1 << 20, bits=bits)


class Pipeline:
    """Linear layers with tanh, trained on one batch over the stages of a pipeline."""

    def __init__(
        self, rank: int, schedule: Any, link: QuantizedLink | None, stages: int = 1, *, follow: bool = True
    ) -> None:
        torch.manual_seed(0)
        ranks = dist.get_world_size()
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(ranks * stages)]
        places = range(rank, ranks * stages, ranks)
        parts = [
            PipelineStage(layers[place], place, ranks * stages, torch.device("cpu"), group=link)
            for place in places
        ]
        self.rank, self.last, self.link = rank, rank == ranks - 1, link
        self.weights = [weight for place in places for weight in layers[place].parameters()]
        self.schedule = schedule(parts if stages > 1 else parts[0], n_microbatches=4, loss_fn=mse_loss)
        self.optimizer = torch.optim.SGD(self.weights, lr=0.2)
        data = torch.Generator().manual_seed(1)
        self.inputs, self.targets = torch.randn(2, 64, WIDTH, generator=data)
        if link is not None and stages > 1 and follow:
            link.follow(self.schedule)

    def step(self, ids: Iterable[int] = range(BATCH)) -> float:
        """Take a step on some samples; return the loss at the last stage."""
        ids = list(ids)
        if self.link is not None:
            self.link.samples(ids)
        losses: list[torch.Tensor] = []
        self.run(self.schedule.step, ids, losses)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(torch.stack(losses).detach().mean()) if losses else 0.0

    def run(self, call: Callable[..., Any], ids: list[int], losses: list[torch.Tensor]) -> None:
        last = {"target": self.targets[ids], "losses": losses} if self.last else {}
        call(*([self.inputs[ids]] if self.rank == 0 else []), **last)

    def values(self) -> list[list[float]]:
        return [weight.detach().flatten().tolist() for weight in self.weights]
