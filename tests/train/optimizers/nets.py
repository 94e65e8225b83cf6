"""A net that any optimizer trains, committed as a user would, and what of the optimizer's state came back."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mvcs import Repository
from mvcs.reports import CommitInfo
from mvcs.train import Checkpointer

STEPS = 4
Made = Callable[[nn.Module], Any]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 48))


def matrices(model: nn.Module) -> list[nn.Parameter]:
    return [one for one in model.parameters() if one.dim() == 2]


def train(model: nn.Module, optimizer: Any, steps: range) -> list[float]:
    """Train over batches that the number of a step decides; return the losses."""
    return [_step(model, optimizer, number) for number in steps]


def _step(model: nn.Module, optimizer: Any, number: int) -> float:
    x = torch.randn(32, 48, generator=torch.Generator().manual_seed(number))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - x.flip(1)).square().mean()
        torch.autograd.backward(loss)
        return loss

    if isinstance(optimizer, torch.optim.LBFGS):
        return float(optimizer.step(closure).detach())
    loss = closure()
    optimizer.step()
    return loss.item()


@dataclass(frozen=True)
class Restored:
    """What became of a bounded commit of a run.

    Attributes:
        commit: as it was reported, with its notes.
        tier: how the first and the second moment are kept, as the commit says.
        optimizer: what the commit says of it.
        rounded: the names in the optimizer's state of all tensors that came back otherwise than they went.
        kept: the names of those that came back bit for bit.
        before: losses of training on from what was handed over.
        after: losses of training on from what was restored.
        weights: the state of the optimizer and the model, as restored.
    """

    commit: CommitInfo
    tier: tuple[object, object]
    optimizer: str | None
    rounded: set[str]
    kept: set[str]
    before: list[float]
    after: list[float]
    state: dict[str, Any]


def committed(
    folder: Path, made: Made, steps: int = STEPS, inner: Sequence[str] = ("state",), **options: Any
) -> Restored:
    """Train a net, commit it bounded by the training hook, restore what stays of it, and train on.

    What is compared of the optimizer's state is what some keys lead to.
    """
    model = net()
    optimizer = made(model)
    reports: list[CommitInfo] = []
    with Repository.init(folder) as repo:
        repo.config_set("retention.exact_layers", "0")
        given = {
            "step_size": 0.01,
            "moments": "resume",
            "every": 1000,
            "on_commit": reports.append,
            **options,
        }
        with Checkpointer(repo, model, optimizer, **given, extra={"no loader": 0}) as checkpointer:
            train(model, optimizer, range(steps))
            checkpointer.after_step(steps - 1)
        whole = optimizer.state_dict()
        shown, state = repo.show(), repo.checkout()
    rounded, kept = compared(*(reduce(getitem, inner, one) for one in (whole, state["optimizer"])))
    before = train(model, optimizer, range(steps, 2 * steps))
    other = net()
    stepper = made(other)
    other.load_state_dict(state["model"])
    stepper.load_state_dict(copy.deepcopy(state["optimizer"]))
    after = train(other, stepper, range(steps, 2 * steps))
    tier = shown.quantizer["first"], shown.quantizer["second"]
    told = shown.provenance.get("optimizer")
    return Restored(reports[-1], tier, told, rounded, kept, before, after, state)


def compared(exact: dict[Any, Any], restored: dict[Any, Any]) -> tuple[set[str], set[str]]:
    """Return the names of tensors of which one was changed, and of those of which none was."""
    changed: set[str] = set()
    found: set[str] = set()
    for key, state in exact.items():
        for name, value in state.items():
            pairs = list(zip(_tensors(value), _tensors(restored[key][name]), strict=True))
            found |= {name} if pairs else set()
            changed |= {name} if any(not _same(*pair) for pair in pairs) else set()
    return changed, found - changed


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    bits = [found.contiguous().reshape(-1).view(torch.uint8) for found in (one, other)]
    return torch.equal(*bits)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _tensors(one)
