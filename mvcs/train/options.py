"""The options of a `Checkpointer`: each is declared once, in a group, and each group becomes a value.

`Checkpointer` documents them. It and the adapters take all of them as flat keywords.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Annotated, Any, Literal, TypedDict, TypeVar, cast, get_args

import torch
from torch import nn

from mvcs.errors import UsageError, no_option, one_of, whole
from mvcs.refs import refuse_ambiguous
from mvcs.reports import CommitInfo
from mvcs.repository import Repository
from mvcs.train.choice.search import BoundingOptions
from mvcs.train.saving.cadence import Cadence, Clock, EverySteps, cadence_of

Message = Callable[[int, Mapping[str, float]], str]
OnCommit = Callable[[CommitInfo], object]
OnFull = Literal["wait", "skip"]

_Group = TypeVar("_Group")
_Init = TypeVar("_Init", bound=Callable[..., None])


@dataclass(frozen=True)
class Default:
    """What an option is where it is not given; where its type has none beside it, that is None."""

    value: object


class PartsOptions(TypedDict, total=False):
    """What is saved beside the parts that every run has."""

    extra: Mapping[str, object] | None


class CadenceOptions(TypedDict, total=False):
    """When a run commits."""

    every: int | None
    seconds: float | None
    overhead: float | None
    weights_every: int | None


class DeliveryOptions(TypedDict, total=False):
    """How what was handed over becomes a commit: on which branch, behind how many others, who hears of it."""

    branch: str | None
    queue: Annotated[int, Default(1)]
    on_full: Annotated[OnFull, Default("wait")]
    message: Message | None
    on_commit: Annotated[OnCommit | Sequence[OnCommit], Default(())]


class ProcessOptions(TypedDict, total=False):
    """What of the process takes part: its random generators, its end, its clock."""

    rng: Annotated[bool, Default(True)]
    final: Annotated[bool, Default(True)]
    clock: Annotated[Clock, Default(perf_counter)]


class CheckpointerOptions(
    PartsOptions, CadenceOptions, DeliveryOptions, ProcessOptions, BoundingOptions, total=False
):
    """What a `Checkpointer` takes beside the parts of a run; see there."""


@dataclass(frozen=True)
class Process:
    """What of the process takes part.

    Attributes:
        rng: whether the global random generators are saved and restored.
        final: whether the last step is committed at the end.
        clock: what time it is, in seconds.
    """

    rng: bool
    final: bool
    clock: Clock

    @classmethod
    def of(cls, options: CheckpointerOptions) -> "Process":
        """Take its options out of all.

        Raises:
            UsageError: one is of another kind.
        """
        given = filled(ProcessOptions, options)
        for name in ("rng", "final"):
            if not isinstance(given[name], bool):
                raise UsageError(f"{name} cannot be {given[name]!r}", hint="use True or False")
        check_functions({"clock": given["clock"]}, ())
        return cls(**given)


@dataclass(frozen=True)
class Delivery:
    """How what was handed over becomes a commit.

    Attributes:
        branch: where it goes; None for HEAD's.
        places: most snapshots in host memory at once.
        waits: whether the training waits for a place, or leaves a commit out.
        message: gives the message from step and metrics.
        on_commit: are called with every commit that is durable.
    """

    branch: str | None
    places: int
    waits: bool
    message: Message
    on_commit: tuple[OnCommit, ...]

    @classmethod
    def of(cls, options: CheckpointerOptions) -> "Delivery":
        """Take its options out of all.

        Raises:
            UsageError: the queue has no places, or there is no such word, function or branch.
        """
        given = filled(DeliveryOptions, options)
        branch, on_commit = given["branch"], given["on_commit"]
        places = whole("queue", given["queue"], "give room for 1 or more snapshots, a whole number")
        one_of("on_full", given["on_full"], get_args(OnFull))
        _check_branch(branch)
        check_functions({"message": given["message"]}, on_commit)
        called = (on_commit,) if callable(on_commit) else tuple(on_commit)
        message = given["message"] or (lambda _step, _metrics: "")
        return cls(branch, places, given["on_full"] == "wait", message, called)


@dataclass(frozen=True)
class Cadences:
    """When a run commits.

    Attributes:
        states: its whole state.
        weights: the model alone; None for never.
    """

    states: Cadence
    weights: EverySteps | None

    @classmethod
    def of(cls, options: CheckpointerOptions, clock: Clock) -> "Cadences":
        """Take its options out of all.

        Raises:
            UsageError: one is out of range, or excludes another.
        """
        given = filled(CadenceOptions, options)
        states = cadence_of(given["every"], given["seconds"], given["overhead"], clock)
        every = given["weights_every"]
        return cls(states, None if every is None else EverySteps(every, "weights_every"))

    @property
    def interval(self) -> int | None:
        """How many steps lie between whole states, where that is known."""
        return self.states.every if isinstance(self.states, EverySteps) else None


def _check_branch(branch: object) -> None:
    if branch is None:
        return
    if not isinstance(branch, str):
        raise UsageError(f"branch cannot be {branch!r}", hint="give a branch's name")
    try:
        refuse_ambiguous(branch)
    except UsageError as error:
        raise UsageError(f"branch cannot be {branch!r}", hint=error.hint) from error


def filled(group: type[_Group], given: Mapping[str, object]) -> _Group:
    """Return the options of a group, each as given or by its default."""
    found = {name: given.get(name, default) for name, default in defaults(group).items()}
    return cast("_Group", found)


def defaults(group: type[object]) -> dict[str, object]:
    """Return what the options of a group are where they are not given, in their order."""
    hints = group.__annotations__
    return {
        name: next((one.value for one in getattr(hint, "__metadata__", ()) if isinstance(one, Default)), None)
        for name, hint in hints.items()
    }


def _bare(hint: Any) -> object:  # noqa: ANN401 - whatever stands for a type
    return hint.__origin__ if hasattr(hint, "__metadata__") else hint


def bounding_of(options: CheckpointerOptions) -> BoundingOptions:
    """Return those of the options that say how commits are bounded.

    Raises:
        TypeError: a name is none of the options'.
    """
    known = CheckpointerOptions.__annotations__
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise no_option(unknown[0], known)
    found = {name: value for name, value in options.items() if name in BoundingOptions.__annotations__}
    return cast("BoundingOptions", found)


def listed(init: _Init) -> _Init:
    """Have `inspect.signature`, and so `help`, list the options that a function takes as `**options`.

    Those of bounding, of which a call has few, stay together.
    """
    signature = inspect.signature(init)
    named = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_bare(hint))
        for group in (PartsOptions, CadenceOptions, DeliveryOptions, ProcessOptions)
        for (name, default), hint in zip(defaults(group).items(), group.__annotations__.values(), strict=True)
    ]
    bounding = inspect.Parameter("bounding", inspect.Parameter.VAR_KEYWORD, annotation=BoundingOptions)
    shown: Any = init
    shown.__signature__ = signature.replace(parameters=[*named, *options, bounding])
    return init


def check_parts(repo: object, model: object, optimizer: object, scheduler: object, extra: object) -> None:
    """Refuse parts that stand in one another's place, and classes in the place of their instances.

    Raises:
        UsageError: the repository is not open, a part is of another kind, or further ones have no names.
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
    named = isinstance(extra, Mapping) and all(isinstance(name, str) for name in extra)
    if extra is not None and not named:
        raise UsageError(f"extra cannot be {extra!r}", hint="name each part, as in extra={'ema': ema}")


def _check_made(**parts: object) -> None:
    for name, part in parts.items():
        if isinstance(part, type):
            made = {"optimizer": "model.parameters(), ...", "scheduler": "optimizer, ..."}.get(name, "...")
            hint = f"make one first, and pass it: {name} = {part.__name__}({made})"
            raise UsageError(f"the {name} cannot be the class '{part.__name__}'", hint=hint)


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
