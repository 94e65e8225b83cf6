"""Evaluating in a child process, on a model of its own, while the model in training is only read."""

import atexit
import math
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Self

import torch
from torch import multiprocessing, nn

from mvcs.errors import EvaluationError, MvcsError, UsageError
from mvcs.search import Batch
from mvcs.train.evaluation.call_evaluate import Batches, Evaluate, called, described
from mvcs.train.evaluation.live_tensors import Weights, live_tensors, memory_of, write
from mvcs.train.evaluation.model_swap import ModelLender

_ALIGNMENT = 64
_SHARED_FOLDER = Path("/dev/shm")  # noqa: S108 - where Linux keeps it
_END_SECONDS = 5.0
# What the child says.
_READY, _NUMBER, _BATCHES, _BATCH, _END, _DONE, _ERROR = range(7)
# What it is told.
_EVALUATE, _NEXT, _STOP = range(3)

_Answer = tuple[int, float, float]


@dataclass(frozen=True)
class Layout:
    """Where each tensor of a model lies in one piece of shared memory.

    Attributes:
        places: name, dtype, shape and offset in bytes of every tensor; tied ones share theirs.
        nbytes: of all.
    """

    places: tuple[tuple[str, torch.dtype, tuple[int, ...], int], ...]
    nbytes: int

    @classmethod
    def of(cls, tensors: Weights) -> Self:
        """Lay out `tensors` one after another."""
        places, end, known = [], 0, dict[object, int]()
        for name, tensor in tensors.items():
            identity = memory_of(tensor) if tensor.numel() else name
            offset = known.setdefault(identity, end)
            places.append((name, tensor.dtype, tuple(tensor.shape), offset))
            if offset == end:
                end += math.ceil(tensor.nbytes / _ALIGNMENT) * _ALIGNMENT
        return cls(tuple(places), end)

    def views(self, memory: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the tensors by name, as views of `memory` (uint8, shape [nbytes])."""
        return {
            name: memory[offset : offset + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)
            for name, dtype, shape, offset in self.places
        }


class Replica:
    """Evaluates in a child process, started when it is first needed and again after it died.

    Args:
        model: the model in training: read by the thread that evaluates, for what `weights` do not name.
        factory: makes a model whose parameters and buffers have the same names, shapes and dtypes.
        evaluate: the user's evaluation.
    """

    def __init__(self, model: nn.Module, factory: Callable[[], nn.Module], evaluate: Evaluate) -> None:
        self._model = model
        self._factory = factory
        self._evaluate = evaluate
        self._child: _Child | None = None

    @contextmanager
    def measuring(self, weights: Weights | None) -> Iterator[float | Batches]:
        """Evaluate `weights`, over the values of the model in training.

        Raises:
            EvaluationError: the evaluation failed, trains the model, or its process died.
            UsageError: the functions cannot be handed to a process, or `weights` are not the model's.
        """
        if self._child is None:
            self._child = _Child(self._model, self._factory, self._evaluate)
        child = self._child
        try:
            child.write(live_tensors(self._model), weights or {})
            yield child.begin()
            child.finish()
        finally:
            # Busy still: somebody else's error cut the conversation off.
            if not child.is_idle:
                self.close()

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            child.close()


class _Child:
    """The parent's side of one child process.

    A conversation: EVALUATE is answered by NUMBER or BATCHES, each NEXT by BATCH or END, STOP by DONE; any of
    them by ERROR, which ends the conversation.
    """

    def __init__(self, model: nn.Module, factory: Callable[[], nn.Module], evaluate: Evaluate) -> None:
        layout = Layout.of(live_tensors(model))
        memory = _shared(layout.nbytes)
        self.is_idle = False
        self._views = layout.views(memory)
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        # Not a daemon: those may have no children, such as the workers of a loader.
        self._process: SpawnProcess = context.Process(
            target=serve, args=(other, factory, evaluate, memory, layout), name="mvcs-evaluate"
        )
        atexit.register(self.close)
        try:
            self._start(other)
        except BaseException:
            self.close()
            raise

    def _start(self, other: Connection) -> None:
        try:
            self._process.start()
        except Exception as error:
            raise UsageError(
                f"evaluate or replica cannot be handed to another process: {error}",
                hint="define them at the top of a module, without lambdas or open files",
            ) from error
        finally:
            other.close()
        self._receive()

    def write(self, live: Weights, weights: Weights) -> None:
        """Put `weights` into the shared memory, and the live values of the rest."""
        write(self._views, weights)
        write(self._views, {name: tensor for name, tensor in live.items() if name not in weights})

    def begin(self) -> float | Batches:
        """Start an evaluation and return what it gives."""
        self.is_idle = False
        self._send(_EVALUATE)
        kind, number, _ = self._receive()
        return number if kind == _NUMBER else Batches(self._batches())

    def _batches(self) -> Generator[Batch]:
        while True:
            self._send(_NEXT)
            kind, total, count = self._receive()
            if kind == _END:
                return
            yield total, count

    def finish(self) -> None:
        """End an evaluation, wherever it is."""
        self._send(_STOP)
        self._receive()

    def _send(self, message: int) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._died() from error

    def _receive(self) -> _Answer:
        wait([self._connection, self._process.sentinel])
        try:
            answer: _Answer | tuple[int, MvcsError] = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        self.is_idle = answer[0] in (_READY, _DONE, _ERROR)
        if len(answer) == 2:
            raise answer[1]
        return answer

    def _died(self) -> EvaluationError:
        self._process.join(_END_SECONDS)
        return EvaluationError(
            f"the process that evaluates ended with status {self._process.exitcode}",
            hint="see what it printed; the next evaluation starts another one",
        )

    def close(self) -> None:
        """End the process, by force if it is busy."""
        atexit.unregister(self.close)
        self._connection.close()
        if self._process.pid is None:
            return
        if not self.is_idle:
            self._process.terminate()
        self._process.join(_END_SECONDS)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self._process.close()


def _shared(nbytes: int) -> torch.Tensor:
    """Return shared memory, which must be there: a process that writes more than there is, is killed."""
    if _SHARED_FOLDER.is_dir() and shutil.disk_usage(_SHARED_FOLDER).free < nbytes:
        raise EvaluationError(
            f"less shared memory is free than the model's {nbytes} bytes",
            hint="give the container more (--shm-size), or evaluate without replica",
        )
    memory = torch.empty(nbytes, dtype=torch.uint8)
    memory.share_memory_()  # type: ignore[no-untyped-call]  # torch gives it no types
    return memory


def serve(
    connection: Connection,
    factory: Callable[[], nn.Module],
    evaluate: Evaluate,
    memory: torch.Tensor,
    layout: Layout,
) -> None:
    """Evaluate whenever the parent asks, until it hangs up; the child's whole life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    torch.set_num_threads(1)
    try:
        model = factory()
        weights = layout.views(memory)
        write(live_tensors(model), weights)
    except Exception as error:  # noqa: BLE001 - told to the parent
        connection.send((_ERROR, _told(error)))
        return
    lender = ModelLender(model, saves=False)
    connection.send((_READY, 0.0, 0.0))
    while True:
        try:
            message = connection.recv()
        except EOFError:
            return
        if message == _EVALUATE:
            _answer(connection, lender, weights, evaluate)


def _answer(connection: Connection, lender: ModelLender, weights: Weights, evaluate: Evaluate) -> None:
    try:
        with lender.lend(weights) as model, called(evaluate, model) as measured:
            is_number = isinstance(measured, float)
            connection.send((_NUMBER, measured, 1.0) if is_number else (_BATCHES, 0.0, 0.0))
            while connection.recv() == _NEXT:
                batch = None if isinstance(measured, float) else next(measured, None)
                connection.send((_END, 0.0, 0.0) if batch is None else (_BATCH, *batch))
    except Exception as error:  # noqa: BLE001 - told to the parent
        connection.send((_ERROR, _told(error)))
    else:
        connection.send((_DONE, 0.0, 0.0))


def _told(error: Exception) -> MvcsError:
    """Return `error` as one that can be sent: of ours, without what it refers to."""
    if isinstance(error, UsageError):
        return UsageError(error.message)
    return EvaluationError(error.message if isinstance(error, MvcsError) else described(error))
