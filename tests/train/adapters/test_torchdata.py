"""torchdata's stateful loader as the position in the data: a run goes on bit for bit within an epoch."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from mvcs.repository import Repository
from mvcs.train import Checkpointer

stateful_dataloader = pytest.importorskip("torchdata.stateful_dataloader")

# torchdata asks for a switch that torch no longer has.
pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")]


class Run:
    """A net with dropout, a schedule, a scaler, and a shuffled loader."""

    def __init__(self, workers: int, generator: str) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 40)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
        seeded = torch.Generator().manual_seed(2)
        data = TensorDataset(torch.randn(40, 3, generator=torch.Generator().manual_seed(1)))
        self.loader = stateful_dataloader.StatefulDataLoader(
            data,
            batch_size=4,
            shuffle=True,
            num_workers=workers,
            generator=seeded if generator == "own" else None,
        )

    def train(self, repo: Repository | None, until: int) -> list[bytes]:
        parts = {"scheduler": self.scheduler, "scaler": self.scaler, "loader": self.loader}
        if repo is None:
            self.loop(None, 0, until)
        else:
            with Checkpointer(
                repo, self.model, self.optimizer, **parts, every=4, step_size=0.5
            ) as checkpointer:
                self.loop(checkpointer, checkpointer.resume(), until)
        return [weight.detach().numpy().tobytes() for weight in self.model.parameters()]

    def loop(self, checkpointer: Checkpointer | None, step: int, until: int) -> None:
        while step < until:
            for (x,) in self.loader:
                loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
                self.optimizer.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.scheduler.step()
                if checkpointer is not None:
                    checkpointer.after_step(step)
                step += 1
                if step == until:
                    break


QUICK = [(0, 15, "own"), (0, 20, "global"), (2, 14, "own")]


@pytest.mark.parametrize(
    ("workers", "stop", "generator"),
    [
        pytest.param(
            workers, stop, generator, marks=[pytest.mark.slow] * ((workers, stop, generator) not in QUICK)
        )
        for generator in ("own", "global")
        for workers, stop in [(0, 8), (0, 12), (0, 15), (0, 20), (2, 14)]
    ],
)
def test_a_run_within_an_epoch_goes_on_exactly(
    tmp_path: Path, workers: int, stop: int, generator: str
) -> None:
    with Repository.init(tmp_path) as repo:
        Run(workers, generator).train(repo, stop)
        resumed = Run(workers, generator).train(repo, 27)
        assert resumed == Run(workers, generator).train(None, 27)
        assert repo.checkout()["scaler"]["scale"] > 2.0**10


def test_the_stored_state_is_one_that_the_loader_takes(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        Run(0, "own").train(repo, 8)
        run = Run(0, "own")
        run.loader.load_state_dict(repo.checkout(exact=True)["loader"])
        assert len(list(run.loader)) == 2


DATA = TensorDataset(torch.arange(40))
SAMPLERS = {
    "shuffle": lambda _: {"shuffle": True, "batch_size": 4},
    "random": lambda own: {"sampler": RandomSampler(DATA, generator=own), "batch_size": 4},
    "subset": lambda own: {"sampler": SubsetRandomSampler(range(40), generator=own), "batch_size": 4},
    "weighted": lambda own: {
        "sampler": WeightedRandomSampler([1.0] * 40, 40, generator=own),
        "batch_size": 4,
    },
    "batches": lambda own: {"batch_sampler": BatchSampler(RandomSampler(DATA, generator=own), 4, False)},
    "in order": lambda _: {"batch_size": 4},
}


def batches(repo: Repository, kind: str, workers: int, until: int) -> list[list[int]]:
    """Go on until a step, and return what each of the steps saw."""
    options = SAMPLERS[kind](torch.Generator().manual_seed(3))
    loader = stateful_dataloader.StatefulDataLoader(
        DATA, **options, num_workers=workers, generator=torch.Generator().manual_seed(2)
    )
    model, seen = nn.Linear(1, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Checkpointer(repo, model, optimizer, loader=loader, every=100) as checkpointer:
        step = checkpointer.resume()
        while step < until:
            for (batch,) in loader:
                seen.append(batch.tolist())
                checkpointer.after_step(step)
                step += 1
                if step == until:
                    break
    return seen


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_two_resumes_within_an_epoch_see_what_an_uninterrupted_run_does(
    tmp_path: Path, kind: str, workers: int
) -> None:
    with Repository.init(tmp_path / "whole") as whole, Repository.init(tmp_path / "parts") as parts:
        seen = [batch for until in (3, 6, 10, 13, 17, 23) for batch in batches(parts, kind, workers, until)]
        assert seen == batches(whole, kind, workers, 23)


def test_a_sampler_that_draws_from_a_shared_generator_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loader = stateful_dataloader.StatefulDataLoader(DATA, sampler=RandomSampler(DATA))
    with Repository.init(tmp_path) as repo:
        model = nn.Linear(1, 1)
        Checkpointer(repo, model, torch.optim.SGD(model.parameters()), loader=loader).close()
    assert "the loader's RandomSampler draws its order from a generator that others draw from" in caplog.text
