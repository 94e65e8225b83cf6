"""A small run and evaluations of it, at the top of a module so that a child process finds them."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from mvcs import Repository
from mvcs.train import Checkpointer

BATCHES = 20


def make() -> nn.Module:
    torch.manual_seed(3)
    middle = nn.Linear(32, 32)
    return nn.Sequential(
        nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), middle, nn.Dropout(0.3), middle, nn.Linear(32, 1)
    )


def make_other() -> nn.Module:
    return nn.Linear(12, 1)


def make_nothing() -> nn.Module:
    raise RuntimeError("no such model")


class Run:
    """Trains on data in random order, drawing from every global generator."""

    def __init__(self) -> None:
        random.seed(1)
        np.random.seed(2)  # noqa: NPY002 - the generator users' old code draws from
        self.model = make()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(256, 12, generator=generator)
        self.y = self.x.sin().sum(1, keepdim=True)

    def step(self) -> None:
        # The gradients of a step stay until the next one, as in most loops.
        self.optimizer.zero_grad()
        rows = torch.randperm(256)[:32]
        noise = random.random() * 1e-2 + np.random.rand() * 1e-2  # noqa: NPY002 - see above
        (self.model(self.x[rows] + noise) - self.y[rows]).square().mean().backward()
        self.optimizer.step()

    def bits(self) -> list[tuple[str, bytes]]:
        """Every bit of the model, the gradients and the optimizer, the modes and what is drawn next."""
        state = self.optimizer.state_dict()["state"]
        tensors = dict(self.model.state_dict())
        tensors |= {f"{name}.grad": value.grad for name, value in self.model.named_parameters()}
        tensors |= {f"{index}.{key}": value for index, item in state.items() for key, value in item.items()}
        found = [(name, value.numpy().tobytes()) for name, value in tensors.items()]
        modes = [f"{module.training}" for module in self.model.modules()]
        drawn = [str(random.getstate()), str(np.random.get_state()), str(torch.get_rng_state().tolist())]  # noqa: NPY002
        return [*found, ("modes", "".join(modes).encode()), ("generators", "".join(drawn).encode())]


def train(repo: Repository, run: Run, steps: int, **settings: Any) -> Checkpointer:
    """Train on from the newest commit, and commit every fifth step unless told otherwise."""
    settings = {"every": 5, "evaluate": batches, **settings}
    with Checkpointer(repo, run.model, run.optimizer, **settings) as checkpointer:
        start = checkpointer.resume()
        for step in range(start, start + steps):
            run.step()
            checkpointer.after_step(step)
    assert checkpointer.failures == []
    return checkpointer


def undisturbed(steps: int) -> list[tuple[str, bytes]]:
    """What a run that is neither committed nor evaluated is after so many steps, to the last bit."""
    run = Run()
    for _ in range(steps):
        run.step()
    return run.bits()


def measured(model: nn.Module, state: dict[str, torch.Tensor]) -> float:
    """The metric of all batches for a state; the model keeps it."""
    model.load_state_dict(state)
    with torch.no_grad():
        pairs = list(batches(model))
    return sum(total for total, _ in pairs) / sum(count for _, count in pairs)


def data(index: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(16, 12, generator=torch.Generator().manual_seed(1000 + index))
    return x, x.sin().sum(1, keepdim=True)


def _sum(model: nn.Module, index: int) -> float:
    x, y = data(index)
    return float((model(x) - y).square().sum())


def number(model: nn.Module) -> torch.Tensor:
    model.eval()
    return torch.tensor(sum(_sum(model, index) for index in range(BATCHES)) / (16 * BATCHES))


def batches(model: nn.Module) -> Iterator[tuple[float, int]]:
    model.eval()
    for index in range(BATCHES):
        yield _sum(model, index), 16


def easy(model: nn.Module) -> Iterator[tuple[float, int]]:
    """Tells a loss of which next to nothing is the model's: every candidate keeps a bound."""
    for total, count in batches(model):
        yield total + 1e4 * count, count


def low_bits(model: nn.Module) -> Iterator[tuple[float, int]]:
    """Minds any rounding, in each batch more than in the one before: no candidate keeps a bound."""
    bits = torch.cat([each.detach().reshape(-1) for each in model.parameters()]).view(torch.int32)
    rounded = float((bits % 64 == 0).double().mean())
    for index, (total, count) in enumerate(batches(model)):
        yield total + index * rounded * count, count


def in_training_mode(model: nn.Module) -> Iterator[tuple[float, int]]:
    """Forgets eval(): running statistics move, dropout draws, and so does everything else."""
    model.train()
    for index in range(BATCHES):
        random.random()
        np.random.rand()  # noqa: NPY002 - see above
        yield _sum(model, index), 16


def with_gradients(model: nn.Module) -> float:
    """Looks for the worst inputs, and leaves gradients everywhere."""
    x, y = data(0)
    x.requires_grad_()
    with torch.enable_grad():
        (model(x) - y).square().sum().backward()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return float((model(x + 0.01 * x.grad.sign()) - y).square().mean())


def in_half(model: nn.Module) -> float:
    """Changes the type of every parameter and buffer."""
    x, y = data(0)
    return float((model.eval().to(torch.bfloat16)(x.bfloat16()) - y).square().mean())


def raises(model: nn.Module) -> float:
    model.eval()
    torch.rand(3)
    raise ValueError("no such file")


def raises_later(model: nn.Module) -> Iterator[tuple[float, int]]:
    yield from list(batches(model))[:3]
    raise OSError("the data is gone")


def gives_nan(_model: nn.Module) -> float:
    torch.rand(3)
    return float("nan")


def gives_nothing(_model: nn.Module) -> None:
    torch.rand(3)


def is_random(_model: nn.Module) -> float:
    return float(np.random.default_rng().random()) + 1


def trains(model: nn.Module) -> float:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.enable_grad():
        for index in range(3):
            x, y = data(index)
            (model(x) - y).square().mean().backward()
            optimizer.step()
    return 1.0


def trains_by_hand(model: nn.Module) -> float:
    for parameter in model.parameters():
        parameter.data.mul_(1.001)
    return 1.0


def trains_and_hides_it(model: nn.Module) -> float:
    try:
        return trains(model)
    except Exception:  # noqa: BLE001 - as careless code does
        return 1.0


_ways = iter([raises, raises_later, trains, number])


def fails_in_three_ways(model: nn.Module) -> object:
    return next(_ways)(model)


def dies_later(model: nn.Module) -> Iterator[tuple[float, int]]:
    yield from list(batches(model))[:3]
    os._exit(9)


def dies_once(model: nn.Module) -> float:
    died = Path("died")
    if not died.exists():
        died.touch()
        os._exit(7)
    return float(number(model))


def threads_and_process(_model: nn.Module) -> Iterator[tuple[float, int]]:
    yield torch.get_num_threads(), 1
    yield os.getpid(), 1
