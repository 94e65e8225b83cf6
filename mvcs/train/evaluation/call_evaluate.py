"""Calling the user's `evaluate`, in whichever process: what it gives, and what went wrong in it."""

import signal
import sysconfig
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any, Self

from mvcs.addresses import without_secrets
from mvcs.errors import EvaluationError, MvcsError
from mvcs.search import Batch, Measured, as_batches, as_number

Evaluate = Callable[..., Measured]

_LONGEST = 500  # letters of somebody else's message
_OURS = f"{Path(__file__).parents[1]}/"
_INSTALLED = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class Batches:
    """The batches of one evaluation; whatever the user's code raises is an EvaluationError."""

    def __init__(self, batches: Generator[Batch]) -> None:
        self._batches = batches
        self._left: int | None = None

    def __iter__(self) -> Self:
        return self

    def first(self, count: int | None) -> Self:
        """Return the same, which ends after so many batches; None for all."""
        self._left = count
        return self

    def __next__(self) -> Batch:
        if self._left is not None:
            if not self._left:
                raise StopIteration
            self._left -= 1
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
def called(evaluate: Evaluate, *parts: object) -> Iterator[float | Batches]:
    """Call `evaluate` and give what it gives: a number, or batches that are closed in the end.

    Raises:
        EvaluationError: it raised an error.
        UsageError: it gave neither.
    """
    with _named():
        measured = evaluate(*parts)
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
    except (Exception, SystemExit, GeneratorExit) as error:
        # An evaluation that calls sys.exit() has failed. A handler of a signal that does ends the run.
        if isinstance(error, SystemExit) and _is_of_a_signal(error):
            raise
        raise EvaluationError(located(error)) from error


def _is_of_a_signal(error: SystemExit) -> bool:
    """Tell whether a handler of a signal raised an error, wherever the signal found the thread."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {getattr(getattr(one, "__func__", one), "__code__", None) for one in handlers} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def located(error: BaseException) -> str:
    """Return an error of somebody else's code in words, and the line of their own code that it came from.

    Code that is installed, such as torch's, is passed over: "ValueError: no data (train.py:12, in evaluate)".
    """
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)
    ]
    own = [frame for frame in frames if not frame.filename.startswith(_INSTALLED)] or frames[:1]
    place = f" ({Path(own[-1].filename).name}:{own[-1].lineno}, in {own[-1].name})" if own else ""
    return described(error) + place


def described(error: BaseException) -> str:
    """Return an error of somebody else's code in words, on one line and without secrets."""
    said = shorten(without_secrets(str(error)), _LONGEST, placeholder=" …")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def metric_of(evaluate: Callable[..., Any], name: str, index: int, *parts: object) -> Measured:
    """Return the metric of one of several parts that are evaluated together.

    Args:
        evaluate: gives a number for each part, in order or by name, or yields batches, each a pair (sum,
            count) for each part.
        name: of the part.
        index: its place among them.
        parts: what is evaluated.
    """
    measured = evaluate(*parts)
    if isinstance(measured, Mapping):
        return float(measured[name])
    if isinstance(measured, tuple):
        return float(measured[index])
    return (batch[index] for batch in measured)
