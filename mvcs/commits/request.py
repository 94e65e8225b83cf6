"""What a caller asks a commit to be, where it goes, and what it is once it is durable."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Self

from numpy.typing import ArrayLike

from mvcs.errors import MvcsError, UsageError, number, one_of, text, whole
from mvcs.history import Revision
from mvcs.objects import HOLDS_KEY, ONLY_WEIGHTS, Commit, Path, Tree
from mvcs.quantize import QuantizerConfig
from mvcs.refs import RefRecord
from mvcs.search import METRIC, Evaluation

_STEPS = 1 << 63


@dataclass(frozen=True)
class Mechanisms:
    """Which mechanisms are at work. Readers know what all of them write, whichever are.

    Attributes:
        carried_momentum: weights go where first moments that are left out would still have taken them;
            without it these are left out alone.
        drift_gate: codes keep pace with weights only where these go somewhere, which weights of two earlier
            commits tell; without it they always do.
        keep_pace: codes keep pace with weights that go somewhere; without it they do with none.
    """

    carried_momentum: bool = True
    drift_gate: bool = True
    keep_pace: bool = True

    @classmethod
    def without(cls, names: Iterable[str]) -> Self:
        """Leave mechanisms out, named as their attributes are, with hyphens.

        Raises:
            UsageError: there is none of a name.
        """
        known = tuple(each.name.replace("_", "-") for each in fields(cls))
        chosen = list(names)
        for name in chosen:
            one_of("a mechanism", name, known)
        return cls(**{name.replace("-", "_"): False for name in chosen})


ALL: Final = Mechanisms()


@dataclass(frozen=True)
class CommitRequest:
    """What a caller asks a commit to be.

    Attributes:
        message: what the author says.
        author: who makes it.
        step: optimizer step, or None.
        metrics: by name.
        quantizer: None for an exact commit.
        restored_from: the bounded commit whose value layer the state continued from.
        lossy: whether it continued from a lossily restored state at all; None where nothing tells.
        nothing_left: whether no lossy values left the store, as far as this clone and process know.
        provenance: versions and settings worth keeping.
        notes: what capturing wants said.
        importance: scores of weights by their names in the model, where the quantizer wants some.
        evaluation: how the quality of what is restored was measured; None where it was not.
        allow_empty: whether it is made also where it has nothing that its parent has not.
        parts: the part of the state that each leaf is measured in, by path; weights of no part are kept
            exactly. None where nothing says what is measured.
        rewords: the commit that is only said anew; None where something is recorded.
    """

    message: str
    author: str
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    quantizer: QuantizerConfig | None = None
    restored_from: Revision | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    importance: Mapping[str, ArrayLike] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    lossy: bool | None = False
    nothing_left: bool = False
    rewords: Commit | None = None
    allow_empty: bool = True
    parts: Mapping[Path, str] | None = None

    def __post_init__(self) -> None:
        """Refuse what no commit can say, before anything is stored.

        Raises:
            UsageError: the message or the author is no text, a metric no number, or the step not whole.
        """
        text("message", self.message)
        text("author", self.author)
        if self.step is not None:
            object.__setattr__(self, "step", step_number(self.step))
        object.__setattr__(self, "metrics", dict(checked_metrics(self.metrics)))

    @property
    def weights_only(self) -> bool:
        """Whether the state is a model without what resuming needs beside it."""
        return self.provenance.get(HOLDS_KEY) == ONLY_WEIGHTS

    @property
    def measured(self) -> Evaluation | None:
        """The evaluation, where it gives a metric: one of its name that the caller gives means another."""
        return None if METRIC in self.metrics else self.evaluation


def step_number(step: object) -> int:
    """Return the number of a step; a tensor or a numpy scalar may give it.

    Raises:
        UsageError: it is not whole, or does not fit 64 bits.
    """
    hint = "give a whole number, such as 1200"
    found = whole("step", step, hint, least=-_STEPS)
    if found >= _STEPS:
        raise UsageError(f"step cannot be {step!r}", hint=hint)
    return found


def checked_metrics(metrics: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return metrics as a commit records them.

    Raises:
        UsageError: one has no text for a name, or is no number.
    """
    if not isinstance(metrics, Mapping):
        raise UsageError(f"metrics cannot be {metrics!r}", hint="give numbers by name, as in {'loss': 0.5}")
    for name in metrics:
        text("the name of a metric", name)
    return tuple(
        (name, number(f"the metric '{name}'", value, "give a number")) for name, value in metrics.items()
    )


@dataclass(frozen=True)
class BranchPosition:
    """Where a commit goes: its parent, and the branch that has to move.

    Attributes:
        parent: the commit it continues, or takes the place of; None for the first.
        branch: the branch; None when HEAD is detached.
        record: the newest record of the branch when the commit began; None for a new branch.
        overtaken: the branch has already moved on from the parent.
        beside: the branch's tip, when the commit continues an earlier one of its commits instead.
        ancestors: what `parent` continues, where the commit takes its place; None where it continues it.
        damage: what is wrong with the newest record of the branch, which is not moved then.
    """

    parent: Revision | None
    branch: str | None
    record: RefRecord | None
    overtaken: bool = False
    beside: Revision | None = None
    ancestors: tuple[Revision, ...] | None = None
    damage: MvcsError | None = None

    @property
    def parents(self) -> tuple[Revision, ...]:
        """The commit it continues first."""
        if self.ancestors is not None:
            return self.ancestors
        return tuple(revision for revision in (self.parent, self.beside) if revision is not None)


@dataclass(frozen=True)
class MadeCommit:
    """A commit that is durable.

    Attributes:
        revision: the commit.
        tree: what it holds.
        notes: what to tell the user.
        timings: milliseconds by name.
        before: what its first parent holds, as far as that was read.
        branch: the branch it was published on.
    """

    revision: Revision
    tree: Tree
    notes: tuple[str, ...]
    timings: dict[str, float]
    before: Tree | None = None
    branch: str | None = None
