"""What says how good a restored state is: a task's held-out samples, or a function of the user's."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from inspect import Parameter, signature
from textwrap import shorten
from typing import Any, Protocol

from mvcs.bench.runs.tasks import Task, samples_of
from mvcs.errors import FileFormatError
from mvcs.search import Measured
from mvcs.train import called

SAMPLES = ("search", "verify", "report")
"""What a setting is searched on, what tells whether that was right, and what results are about."""


class Judge(Protocol):
    """Evaluates states, on samples that share no example."""

    identity: Mapping[str, Any]
    """What decides its numbers, for the ledger."""

    def evaluation(self, state: Any, sample: str) -> AbstractContextManager[Measured]:  # noqa: ANN401  # anything
        """Return what gives a number, or (sum, count) for each batch, while it is open.

        Args:
            state: as a checkpoint file holds it; the judge may change it.
            sample: one of `SAMPLES`.
        """
        ...


class TaskJudge:
    """Evaluates the model of a state on the held-out samples of its task."""

    def __init__(self, task: Task) -> None:
        sizes = task.sample_sizes
        samples = samples_of(task)
        self.task = task
        self._model = task.model()
        self._samples = {
            "search": samples.search,
            "verify": samples.verify,
            "report": samples.report.first(sizes.reported),
        }
        batches = {"search": sizes.search, "verify": sizes.verify, "report": sizes.reported}
        self.identity: Mapping[str, Any] = {
            "task": task.name,
            "data": task.data,
            "batch": sizes.batch,
            "batches": batches,
        }

    @contextmanager
    def evaluation(self, state: Any, sample: str) -> Iterator[Measured]:  # noqa: ANN401  # a state is anything
        """Give (sum, count) of the loss for each batch.

        Raises:
            FileFormatError: the state is of another model.
        """
        try:
            self._model.load_state_dict(state["model"])
        except (RuntimeError, KeyError, TypeError) as error:
            why = shorten(str(error), 200, placeholder=" ...")  # torch goes on with all names of a model
            raise FileFormatError(
                f"a checkpoint is not of the model of task '{self.identity['task']}': {why}",
                hint="name the task that the run learned",
            ) from error
        yield self._samples[sample].evaluate(self._model)


class FunctionJudge:
    """Evaluates states with a function of the user's.

    If it has a parameter `sample`, it is told one of `SAMPLES`; otherwise all three are the same data.
    """

    def __init__(self, function: Callable[..., Measured], name: str) -> None:
        """Take a function.

        Args:
            function: given a state as its file holds it, returns a number or yields (sum, count) for each
                batch.
            name: how it was asked for.
        """
        found = signature(function).parameters
        self._function = function
        self._has_samples = "sample" in found or any(
            one.kind is Parameter.VAR_KEYWORD for one in found.values()
        )
        samples = list(SAMPLES) if self._has_samples else ["one for all"]
        self.identity: Mapping[str, Any] = {"eval": name, "samples": samples}

    def measured(self, state: Any, sample: str = SAMPLES[0]) -> Measured:  # noqa: ANN401  # a state is anything
        """Return what the function does, on the search sample where no other is named."""
        return self._function(state, sample=sample) if self._has_samples else self._function(state)

    def evaluation(self, state: Any, sample: str) -> AbstractContextManager[Measured]:  # noqa: ANN401  # anything
        """Give what the function does.

        Raises:
            EvaluationError: it raises an error.
            UsageError: it gives neither a number nor batches.
        """
        return called(self.measured, state, sample)
