"""Training runs that are always the same, with a checkpoint every so many steps, and taken up again."""

import os
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mvcs.bench.runs.tasks import Learner, Task
from mvcs.checkpoint import save_torch
from mvcs.errors import ConflictError, FileFormatError, StorageError, UsageError
from mvcs.progress import Progress
from mvcs.reports import Report

_OPTIMIZERS = ("optimizer", "opt")


@dataclass(frozen=True)
class Plan:
    """What decides every bit of a run, besides the machine and torch's version.

    Attributes:
        task: its name.
        steps: optimizer steps in all; the learning rate depends on it.
        every: steps between checkpoints.
        seed: of initial weights and of the data's order.
        data: digest of the training data.
    """

    task: str
    steps: int
    every: int
    seed: int
    data: str


@dataclass(frozen=True)
class MadeCheckpoint(Report):
    """One checkpoint of a run."""

    step: int
    file: str
    metrics: dict[str, float]


@dataclass(frozen=True)
class MakeReport(Report):
    """What a run left behind.

    Attributes:
        task: its name.
        folder: where the checkpoints lie.
        parameters: numbers of the model, frozen ones among them.
        steps: optimizer steps of the whole run.
        resumed: the step it was taken up at; None for one from the start.
        seconds: of this call.
        checkpoints: those written by this call.
    """

    task: str
    folder: str
    parameters: int
    steps: int
    resumed: int | None
    seconds: float
    checkpoints: list[MadeCheckpoint]


def make_run(
    task: Task, folder: Path, *, steps: int, every: int, seed: int, progress: Progress
) -> MakeReport:
    """Train, or go on at the newest checkpoint in `folder`; the result is the same, bit for bit.

    Each checkpoint `step_NNNNNN.pt` holds the plan, the step, validation metrics and the state dicts of the
    model, of the optimizer and of what else learns; it is complete or absent. torch works on one thread.

    Raises:
        UsageError: `every` does not divide `steps`.
        ConflictError: the folder holds another run.
        StorageError: the disk refused a checkpoint.
    """
    if every < 1 or steps < 1 or steps % every:
        raise UsageError(
            f"checkpoints every {every} steps do not end at step {steps}", hint="choose a divisor of --steps"
        )
    started = time.perf_counter()
    with one_thread(seed):
        run = Run(task, Plan(task.name, steps, every, seed, task.data), folder)
        resumed = run.take_up()
        made = list(run.finish(resumed, progress))
    seconds = time.perf_counter() - started
    return MakeReport(task.name, str(folder), run.parameters, steps, resumed, seconds, made)


@contextmanager
def one_thread(seed: int) -> Iterator[None]:
    """Seed torch and keep it on one thread, so that sums are added up in one order; put both back."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def train_step(task: Task, learner: Learner, step: int, steps: int, seed: int) -> float:
    """Make step number `step` of `steps`, on data drawn from the seed and that number; return its loss."""
    learner.set_rate(task.schedule.rate(step, steps))
    loss = task.loss(learner.model, np.random.default_rng((seed, step)))
    learner.model.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    if task.clip is not None:
        torch.nn.utils.clip_grad_norm_(learner.model.parameters(), task.clip)
    learner.update()
    return loss.item()


class Run:
    """One training run and its folder."""

    def __init__(self, task: Task, plan: Plan, folder: Path) -> None:
        self._task = task
        self._plan = plan
        self._folder = folder
        self._learner = task.learner(task.model())

    @property
    def parameters(self) -> int:
        """Numbers of the model, frozen ones among them."""
        return sum(parameter.numel() for parameter in self._learner.model.parameters())

    def take_up(self) -> int | None:
        """Load the newest checkpoint and return its step; None where there is none.

        Raises:
            ConflictError: it belongs to another run.
            FileFormatError: it is no checkpoint.
        """
        found = sorted(self._folder.glob("step_*.pt"))
        if not found:
            return None
        state = load_checkpoint(found[-1])
        if state.get("plan") != asdict(self._plan):
            raise ConflictError(
                f"'{found[-1]}' belongs to another run",
                hint="choose an empty folder, or the run's own options",
            )
        self._learner.load_state_dict(state)
        step: int = state["step"]
        return step

    def finish(self, resumed: int | None, progress: Progress) -> Iterator[MadeCheckpoint]:
        """Train to the end and yield every checkpoint as it is written."""
        plan = self._plan
        progress.start(f"training {plan.task}", plan.steps, "steps")
        progress.advance(resumed or 0)
        if resumed is None:
            yield self._save(0, progress)
        for step in range(resumed or 0, plan.steps):
            train_step(self._task, self._learner, step, plan.steps, plan.seed)
            progress.advance(1)
            if (step + 1) % plan.every == 0:
                yield self._save(step + 1, progress)
        progress.finish()

    def _save(self, step: int, progress: Progress) -> MadeCheckpoint:
        metrics = self._task.evaluate(self._learner.model)
        state = {
            "plan": asdict(self._plan),
            "step": step,
            "metrics": metrics,
            **self._learner.state_dict(),
        }
        path = self._folder / f"step_{step:06d}.pt"
        write_checkpoint(state, path)
        told = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        progress.note(f"step {step} of {self._plan.steps}: {told}")
        return MadeCheckpoint(step, path.name, metrics)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return what a checkpoint file of a run holds; an empty dict for something else than a dict.

    Raises:
        FileFormatError: it is no checkpoint.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, LookupError, ValueError) as error:
        raise FileFormatError(
            f"'{path}' is not a checkpoint of a run",
            hint="remove it, and the run continues at the one before it",
        ) from error
    return state if isinstance(state, dict) else {}


def write_checkpoint(state: object, path: Path) -> None:
    """Write a checkpoint file in full or not at all.

    Raises:
        StorageError: the disk refused it.
    """
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            save_torch(state, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"cannot write '{path}': {error.strerror or error}") from error


def load_recorded(path: Path, learner: Learner) -> None:
    """Load a file with the keys "model", "optimizer" (or "opt") and those of further parts.

    Raises:
        FileFormatError: it is not a checkpoint of such a model.
    """
    state = load_checkpoint(path)
    found = [state[name] for name in _OPTIMIZERS if name in state]
    if "model" not in state or not found:
        raise FileFormatError(
            f"'{path}' does not hold a model and its optimizer",
            hint="record both state dicts, as 'mvcs bench make' does",
        )
    try:
        learner.load_state_dict(state | {"optimizer": found[0]})
    except (RuntimeError, ValueError, KeyError) as error:
        raise FileFormatError(f"'{path}' is not a checkpoint of this task's model: {error}") from error
