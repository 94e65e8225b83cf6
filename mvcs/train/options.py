"""The options of a `Checkpointer`: each is declared once, in a group, and each group becomes a value.

`Checkpointer` documents them. It and the adapters take all of them as flat keywords.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Annotated, Any, Literal, TypedDict, TypeVar, cast, get_args

from mvcs.errors import UsageError, no_option, one_of, whole
from mvcs.refs import refuse_ambiguous
from mvcs.reports import CommitInfo
from mvcs.train.checks import check_flags, check_functions
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
        check_flags(rng=given["rng"], final=given["final"])
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
    return {name: _default(getattr(hint, "__metadata__", ())) for name, hint in hints.items()}


def _default(told: tuple[object, ...]) -> object:
    return next((one.value for one in told if isinstance(one, Default)), None)


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
