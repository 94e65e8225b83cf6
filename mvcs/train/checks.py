"""What a training hook can be given: what cannot be meant is refused before the first step."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn

from mvcs.errors import UsageError
from mvcs.repository import Repository


def check_parts(repo: object, model: object, optimizer: object, scheduler: object) -> None:
    """Refuse parts that stand in one another's place, and classes in the place of their instances.

    Raises:
        UsageError: the repository is not open, or a part is of another kind.
    """
    if not isinstance(repo, Repository):
        hint = "open it first: mvcs.open_or_init('runs/gpt')"
        raise UsageError(f"the repository cannot be a '{type(repo).__name__}'", hint=hint)
    order = (
        "the order is Checkpointer(repo, model, optimizer, scheduler); name the others, as in loader=loader"
    )
    _check_made(model=model, optimizer=optimizer, scheduler=scheduler)
    if isinstance(optimizer, nn.Module):
        raise UsageError("the optimizer cannot be a model", hint=order)
    if isinstance(scheduler, Iterable | nn.Module | torch.optim.Optimizer):
        raise UsageError(f"the scheduler cannot be a '{type(scheduler).__name__}'", hint=order)


def _check_made(**parts: object) -> None:
    for name, part in parts.items():
        if isinstance(part, type):
            made = {"optimizer": "model.parameters(), ...", "scheduler": "optimizer, ..."}.get(name, "...")
            hint = f"make one first, and pass it: {name} = {part.__name__}({made})"
            raise UsageError(f"the {name} cannot be the class '{part.__name__}'", hint=hint)


def check_extra(extra: object) -> None:
    """Refuse further parts that have no names.

    Raises:
        UsageError: they are no mapping.
    """
    if extra is not None and not (
        isinstance(extra, Mapping) and all(isinstance(name, str) for name in extra)
    ):
        raise UsageError(f"extra cannot be {extra!r}", hint="name each part, as in extra={'ema': ema}")


def check_flags(**flags: object) -> None:
    """Refuse flags that are neither true nor false.

    Raises:
        UsageError: one is something else.
    """
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise UsageError(f"{name} cannot be {flag!r}", hint="use True or False")


def check_functions(functions: Mapping[str, object], on_commit: object) -> None:
    """Refuse what cannot be called.

    Raises:
        UsageError: one of them is something else.
    """
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise UsageError(f"{name} cannot be {function!r}", hint="pass a function, without calling it")
    several = isinstance(on_commit, Sequence) and all(map(callable, on_commit))
    if not (callable(on_commit) or several):
        raise UsageError(f"on_commit cannot be {on_commit!r}", hint="pass a function, or several in a list")
