"""Calling the user's `evaluate`, in whichever process: what it gives, and what went wrong in it."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Self

from torch import nn

from mvcs.errors import EvaluationError, MvcsError
from mvcs.search.baseline import Batch, Measured, as_batches, as_number

Evaluate = Callable[[nn.Module], Measured]


class Batches:
    """The batches of one evaluation; whatever the user's code raises is an EvaluationError."""

    def __init__(self, batches: Generator[Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        with _named():
            batch = next(self._batches, None)
        if batch is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        """Let the user's generator clean up."""
        with _named():
            self._batches.close()


@contextmanager
def called(evaluate: Evaluate, model: nn.Module) -> Iterator[float | Batches]:
    """Call `evaluate` and give what it gives: a number, or batches that are closed in the end.

    Raises:
        EvaluationError: it raised an error.
        UsageError: it gave neither.
    """
    with _named():
        measured = evaluate(model)
        number = as_number(measured)
    if number is not None:
        yield number
        return
    batches = Batches(as_batches(measured))
    try:
        yield batches
    finally:
        batches.close()


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except MvcsError:
        raise
    except Exception as error:
        raise EvaluationError(described(error)) from error


def described(error: BaseException) -> str:
    """Return an error of somebody else's code in words."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
