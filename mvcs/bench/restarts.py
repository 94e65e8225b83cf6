"""Training that is restored from its own compressed checkpoints on the way (Inshrinkerator, section 9.1).

An arm trains a task from the start. At each checkpoint what saves it takes the state in, and at some of them
model and optimizer are replaced by what it would restore. Sensitivity is |E w| with E = 0.9g + 0.1E over the
last fifty batches (section 4.5). A killed arm continues at its newest checkpoint.
"""

import copy
import dataclasses
import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import torch
from blake3 import blake3

from mvcs.bench.comparison import Comparison, Terms
from mvcs.bench.history import committed_step, history_of
from mvcs.bench.judges import TaskJudge
from mvcs.bench.ledger import Ledger, Record, Series
from mvcs.bench.methods.method import Method
from mvcs.bench.runs.checkpoint_files import Checkpoint
from mvcs.bench.runs.recorded_state import RecordedRun, RecordedState
from mvcs.bench.runs.run_maker import load_checkpoint, one_thread, train_step, write_checkpoint
from mvcs.bench.runs.tasks import Learner, samples_of
from mvcs.checkpoint import capture_state
from mvcs.errors import CorruptionError, MvcsError, UsageError
from mvcs.local_files import replace_file
from mvcs.progress import Progress
from mvcs.reports import Report
from mvcs.repository import Repository
from mvcs.train import Checkpointer, Sensitivity

_KEPT = "training.pt"
_OTHERS = ("lattice", "none", "ulp")


@dataclass(frozen=True)
class Plan:
    """What decides an arm, besides its task and what saves it.

    Attributes:
        steps: of training.
        checkpoints: evenly spaced, the last one at the end.
        restores: as many of them, evenly spaced.
        max_degradation: that a restored state may have, as a share.
        seed: of weights, data and what methods draw.
        evaluations: settings that methods evaluate at a checkpoint, at most.

    Raises:
        UsageError: there are fewer steps than checkpoints, or fewer checkpoints than restores.
    """

    steps: int
    checkpoints: int
    restores: int
    max_degradation: float
    seed: int
    evaluations: int | None = None

    def __post_init__(self) -> None:
        """Check that all these checkpoints are different ones."""
        if not self.steps >= self.checkpoints >= self.restores:
            raise UsageError(
                f"{self.restores} restores need as many checkpoints, and there are {self.checkpoints}"
                f" in {self.steps} steps",
                hint="restore at most once a checkpoint",
            )

    @property
    def saved(self) -> list[int]:
        """The steps behind which there are checkpoints."""
        return [self.steps * number // self.checkpoints for number in range(1, self.checkpoints + 1)]

    @property
    def at(self) -> list[int]:
        """The steps behind which it is restored: as far from the beginning as from the end."""
        places = [math.ceil(self.checkpoints * (k + 0.5) / self.restores) for k in range(self.restores)]
        return [self.saved[place - 1] for place in places]


@dataclass(frozen=True)
class Arm(Report):
    """What an arm came to.

    Attributes:
        method: what saved its checkpoints.
        seed: of the plan.
        restores: likewise.
        loss: at the end, on the whole report sample.
        weights: bytes of weights over bytes stored for them; None where nothing was stored.
        peak: the largest such ratio of one checkpoint.
        everything: bytes of whole states over bytes stored for them.
        training: seconds of the processor in training steps.
        spent: seconds of the processor in searching, encoding and evaluating.
    """

    method: str
    seed: int
    restores: int
    loss: float
    weights: float | None
    peak: float | None
    everything: float | None
    training: float
    spent: float


class Restores(Protocol):
    """How the state of an arm is committed and replaced."""

    def listen(self, learner: Learner, steps: int) -> None:
        """Be there for so many steps of training, after which the state is committed."""

    def commit(self, learner: Learner, done: int) -> None:
        """Take in the state after so many steps; called again after a run was killed there."""

    def keep(self, done: int) -> bool:
        """Tell whether a killed arm can continue from here, behind a commit; make what that needs."""

    def restore(self, learner: Learner, done: int) -> None:
        """Replace the state by what would be restored."""

    def sizes(self) -> dict[str, Any]:
        """Return the ratios "weights", "peak" and "everything", and what was "spent"."""


class Noise:
    """Restores exactly and moves every weight by one unit in the last place; commits nothing."""

    def __init__(self, seed: int) -> None:
        """Take a seed of who moves up or down; with 0 none does."""
        self._seed = seed

    def listen(self, learner: Learner, steps: int) -> None:
        """Leave the training alone."""

    def commit(self, learner: Learner, done: int) -> None:
        """Take nothing in: that exact commits give back every bit is tested elsewhere."""

    def keep(self, done: int) -> bool:  # noqa: ARG002  # anywhere
        """Make nothing."""
        return True

    def restore(self, learner: Learner, done: int) -> None:
        """Move every weight up or down."""
        if not self._seed:
            return
        learned: Any = learner.extra.get("masters", learner.model)
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + done)
        with torch.no_grad():
            for parameter in learned.parameters():
                away = torch.where(torch.rand(parameter.shape, generator=generator) < 0.5, -1.0, 1.0)
                parameter.copy_(parameter.nextafter(away * math.inf))

    def sizes(self) -> dict[str, Any]:
        """Return nothing."""
        return {}


class Commits:
    """Restores the value layers of bounded commits, through the training hook."""

    def __init__(
        self,
        repository: Repository,
        options: Mapping[str, Any],
        kept: Mapping[int, Path] = MappingProxyType({}),
        done: int = 0,
    ) -> None:
        """Take the arguments of `Checkpointer`, and folders for copies of the repository by step.

        `done` is the step of the copy that the repository was made from.

        Where it is restored the hook is opened anew, so a killed run continues there with the same bytes.
        """
        self._kept = kept
        self._repository = repository
        self._repository.config_set("retention.exact_layers", "0")
        self._options = options
        self._checkpointer: Checkpointer | None = None
        self._spent: list[dict[str, float]] = []
        if done:
            self._spent = json.loads(kept[done].with_suffix(".json").read_text())

    def listen(self, learner: Learner, steps: int) -> None:  # noqa: ARG002  # the hook knows by itself
        """Open the hook, which has to see the optimizer's steps."""
        self._checkpointer = self._checkpointer or self._opened(learner)

    def commit(self, learner: Learner, done: int) -> None:
        """Commit through the hook, unless a killed run has."""
        tip = self._repository.head()
        if tip is not None and tip.step == done:
            return
        checkpointer = self._checkpointer or self._opened(learner)
        checkpointer.save(done)
        checkpointer.flush()
        if checkpointer.failures:
            raise MvcsError(str(checkpointer.failures[-1]))
        self._spent.append(dataclasses.asdict(checkpointer.timings[-1]))

    def keep(self, done: int) -> bool:
        """Copy the repository."""
        if done in self._kept:
            part = self._kept[done].with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(self._repository.top or "", part)
            shutil.rmtree(self._kept[done], ignore_errors=True)
            replace_file(self._kept[done].with_suffix(".json"), json.dumps(self._spent).encode())
            part.rename(self._kept[done])
        return done in self._kept

    def restore(self, learner: Learner, done: int) -> None:
        """Resume from the commit just made, as a new process would."""
        if self._checkpointer is not None:
            self._checkpointer.close()
        checkpointer = self._opened(learner)
        checkpointer.resume()
        restored = checkpointer.restored
        if restored is None or not restored.lossy or restored.commit.step != done:
            raise MvcsError(f"not restored from the value layer of step {done}: {restored}")

    def sizes(self) -> dict[str, Any]:
        """Return the ratios of all commits from the first one on."""
        commits = sorted(self._repository.log(), key=lambda commit: commit.step or 0)
        steps = [committed_step(one.step or 0, self._repository.show(one.id), 0.0) for one in commits]
        found = history_of(Path(), None, steps).to_json()
        told = ["weights", "weights_later", "everything", "everything_later"]
        return {name: found[name] for name in told} | {
            "commits": found["commits"],
            "peak": max(one.weights / max(one.weights_stored, 1) for one in steps),
            "degradation": [one.degradation for one in commits],
            "spent": self._spent,
        }

    def _opened(self, learner: Learner) -> Checkpointer:
        extra = {"data": "drawn from seed and step", **learner.extra}
        self._checkpointer = Checkpointer(
            self._repository, learner.model, learner.optimizer, extra=extra, **self._options
        )
        return self._checkpointer


class Payloads:
    """Restores the payloads of a method, whose settings are searched at every checkpoint."""

    def __init__(self, judge: TaskJudge, method: Method, ledger: Ledger, plan: Plan) -> None:
        """Take the chain up where the ledger has one."""
        terms = Terms(plan.max_degradation, plan.seed, plan.evaluations)
        self._method, self._plan = method, plan
        self._series: Series = ledger.series(method.name, method.version, plan.max_degradation, plan.seed)
        self._series.begin()
        self._work = Comparison(judge, method, ledger, terms, None)
        self._records: list[Record] = []
        self._gradients: Sensitivity | None = None
        self._recorded: RecordedState | None = None

    def listen(self, learner: Learner, steps: int) -> None:
        """Average the gradients of the steps to the next checkpoint."""
        if "scores" in self._method.needs:
            self._gradients = self._gradients or Sensitivity(learner.model, learner.optimizer)
            self._gradients.expect(steps)

    def commit(self, learner: Learner, done: int) -> None:
        """Measure the state, after the records of a killed run."""
        for step in self._plan.saved[len(self._records) :]:
            if step >= done:
                break
            known = self._work.follow(self._series, step)
            if known is None:
                raise CorruptionError(f"the record of step {step} is damaged", hint="remove its folder")
            self._records.append(known)
        found = {} if self._gradients is None else self._gradients.importance()
        scores = {f"model.{name}": values for name, values in found.items()}
        state = capture_state(copy.deepcopy(learner.state_dict()))
        self._recorded = RecordedState(done, state, scores)
        self._records.append(self._work.advance(self._series, self._recorded))

    def keep(self, done: int) -> bool:  # noqa: ARG002  # anywhere
        """Make nothing: the ledger has the payloads."""
        return True

    def restore(self, learner: Learner, done: int) -> None:
        """Load what the payloads so far decode to; moments that the method does not code are exact."""
        state, recorded = self._work.state, self._recorded
        if state is None or recorded is None:
            raise MvcsError(f"nothing was committed before step {done}")
        moments = state.known["moments"] if self._method.restores else None
        learner.load_state_dict(recorded.state(state.tensors, moments))

    def sizes(self) -> dict[str, Any]:
        """Return the ratios of all checkpoints, and what searching and encoding took."""
        records = self._records
        return {
            "weights": sum(one.weights for one in records) / sum(one.stored for one in records),
            "peak": max(one.weights / one.stored for one in records),
            "everything": sum(one.raw for one in records) / sum(one.everything for one in records),
            "spent": sum(one.searched for one in records),
        }


def train_arm(judge: TaskJudge, method: Method | str, out: Path, plan: Plan, *, progress: Progress) -> Arm:
    """Train an arm to the end, or continue where a killed call was.

    Args:
        judge: of its task.
        method: of papers; or "lattice" for commits of mvcs, "none" for no restores, "ulp" for exact ones
            that move every weight by one unit in the last place.
        out: a folder of ledgers, one for each arm.
        plan: how it is trained, and how often restored.
        progress: is told of every checkpoint.

    Raises:
        NotApplicableError: the task's optimizer lacks what the method needs.
        UsageError: there is nothing of this name to restore from.
    """
    if isinstance(method, str) and method not in _OTHERS:
        hint = "name a method without a setting, or lattice"
        raise UsageError(f"'{method}' cannot be restored from here", hint=hint)
    name = method if isinstance(method, str) else method.name
    version = 1 if isinstance(method, str) else method.version
    about = json.dumps([asdict(plan), name, version, judge.task.name, judge.task.data])
    digest = blake3(about.encode()).hexdigest()
    folder = out / "training" / digest[:16]
    readers = {step: partial(RecordedState.of_file, Checkpoint(step, folder / _KEPT)) for step in plan.saved}
    source = f"{judge.task.name}, {plan.restores} restores, {name}"
    ledger = Ledger.of(out, RecordedRun(source, digest, None, 1, readers), judge.identity)
    if (known := ledger.known("arm")) is not None:
        return Arm(**known)
    with one_thread(plan.seed):
        training = _Training(judge, folder, plan, progress)
        if isinstance(method, Method):
            found = training.run(Payloads(judge, method, ledger, plan))
        elif name == "lattice":
            kept = {step: ledger.folder / f"{name}-{step}" for step in plan.at}
            with _repository(ledger.folder / name, kept.get(training.done)) as repository:
                found = training.run(Commits(repository, _options(judge, plan), kept, training.done))
            for copy_of_it in kept.values():
                shutil.rmtree(copy_of_it, ignore_errors=True)
                copy_of_it.with_suffix(".json").unlink(missing_ok=True)
        else:
            found = training.run(Noise(plan.seed + 1 if name == "ulp" else 0))
    arm = Arm(name, plan.seed, plan.restores, **found)
    ledger.keep("arm", arm.to_json())
    shutil.rmtree(folder, ignore_errors=True)
    return arm


def _repository(folder: Path, kept: Path | None) -> Repository:
    """Open a new repository, or a copy of what a killed arm kept."""
    shutil.rmtree(folder, ignore_errors=True)
    if kept is None:
        Repository.init(folder).close()
    else:
        shutil.copytree(kept, folder)
    return Repository.open(folder)


def _options(judge: TaskJudge, plan: Plan) -> dict[str, Any]:
    return {
        "evaluate": samples_of(judge.task).search.evaluate,
        "search_batches": judge.task.sample_sizes.searched_first,
        "max_degradation": plan.max_degradation,
        "moments": "light",
    }


class _Training:
    """One arm on its way, and the file that it continues from: the state as it was committed.

    Attributes:
        kept: the file.
        done: its step; 0 where there is none.
    """

    def __init__(self, judge: TaskJudge, folder: Path, plan: Plan, progress: Progress) -> None:
        self._task, self._plan, self._progress = judge.task, plan, progress
        self._learner = judge.task.learner(judge.task.model())
        self._seconds, self.done = 0.0, 0
        self.kept = folder / _KEPT
        if self.kept.exists():
            state = load_checkpoint(self.kept)
            self._learner.load_state_dict(state)
            self._seconds, self.done = float(state["seconds"]), int(state["step"])

    def run(self, restores: Restores) -> dict[str, Any]:
        """Train to the end."""
        plan, learner = self._plan, self._learner
        self._progress.start(f"training {self._task.name}", plan.checkpoints, "checkpoints")
        if self.done:
            restores.commit(learner, self.done)
            self._restore(restores, self.done)
        before = self.done
        for saved in plan.saved:
            if saved > self.done:
                self._train(restores, range(before, saved))
                restores.commit(learner, saved)
                if restores.keep(saved):
                    state = {"step": saved, "seconds": self._seconds}
                    write_checkpoint(learner.state_dict() | state, self.kept)
                self._restore(restores, saved)
                before = saved
            self._progress.advance(1)
        self._progress.finish()
        loss = samples_of(self._task).report.metrics(learner.model)["loss"]
        sizes = restores.sizes()
        ratios = {name: sizes.get(name) for name in ("weights", "peak", "everything")}
        return {"loss": loss, **ratios, "training": self._seconds, "spent": _seconds(sizes.get("spent", 0.0))}

    def _train(self, restores: Restores, steps: Sequence[int]) -> None:
        restores.listen(self._learner, len(steps))
        began = time.process_time()
        for step in steps:
            train_step(self._task, self._learner, step, self._plan.steps, self._plan.seed)
        self._seconds += time.process_time() - began

    def _restore(self, restores: Restores, done: int) -> None:
        if done in self._plan.at:
            restores.restore(self._learner, done)


def _seconds(spent: float | Sequence[Mapping[str, float]]) -> float:
    """Return seconds, those of a hook summed up: of searching, and of what it did beside the training."""
    if isinstance(spent, int | float):
        return float(spent)
    return sum(one["search_ms"] + one["processor_ms"] for one in spent) / 1e3
