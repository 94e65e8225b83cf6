"""Training that is restored from its own compressed checkpoints on the way (Inshrinkerator, section 9.1).

An arm trains a task from the start. At each checkpoint what saves it takes the state in, and at some of them
model and optimizer are replaced by what it would restore. Sensitivity is |E w| with E = 0.9g + 0.1E over the
last fifty batches (section 4.5). A killed arm trains from the start again: bits are the same, and what the
ledger has of its payloads is not searched again.
"""

import copy
import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from blake3 import blake3

from mvcs.bench.comparison import Comparison, Terms
from mvcs.bench.history import committed_step, history_of
from mvcs.bench.judges import TaskJudge
from mvcs.bench.ledger import LATTICE, Ledger, Record
from mvcs.bench.methods.method import Method
from mvcs.bench.runs.recorded_state import RecordedState
from mvcs.bench.runs.run_maker import one_thread, train_step
from mvcs.bench.runs.tasks import Learner, samples_of
from mvcs.checkpoint import capture_state
from mvcs.errors import MvcsError, UsageError
from mvcs.local_files import scratch_folder
from mvcs.progress import Progress
from mvcs.reports import Report
from mvcs.repository import Repository
from mvcs.train import Checkpointer, Sensitivity


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


class Restores:
    """How the state of an arm is committed and replaced: not at all."""

    def listen(self, learner: Learner, steps: int) -> None:
        """Be there for so many steps of training, after which the state is committed."""

    def commit(self, learner: Learner, done: int) -> None:
        """Take in the state after so many steps."""

    def restore(self, learner: Learner, done: int) -> None:
        """Replace the state by what would be restored."""

    def sizes(self) -> dict[str, Any]:
        """Return the ratios "weights", "peak" and "everything", and seconds "spent"; or nothing."""
        return {}


class Noise(Restores):
    """Restores exactly and moves every weight by one unit in the last place."""

    def __init__(self, seed: int) -> None:
        """Take a seed of who moves up or down; with 0 none does."""
        self._seed = seed

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


class Commits(Restores):
    """Restores the value layers of bounded commits, through the training hook."""

    def __init__(self, repository: Repository, options: Mapping[str, Any]) -> None:
        """Take the arguments of `Checkpointer`; where it is restored the hook is opened anew."""
        self._repository = repository
        self._repository.config_set("retention.exact_layers", "0")
        self._options = options
        self._checkpointer: Checkpointer | None = None
        self._spent = 0.0

    def listen(self, learner: Learner, steps: int) -> None:  # noqa: ARG002  # the hook knows by itself
        """Open the hook, which has to see the optimizer's steps."""
        self._checkpointer = self._checkpointer or self._opened(learner)

    def commit(self, learner: Learner, done: int) -> None:
        """Commit through the hook, unless the repository has this step."""
        tip = self._repository.head()
        if tip is not None and tip.step == done:
            return
        checkpointer = self._checkpointer or self._opened(learner)
        checkpointer.save(done)
        checkpointer.flush()
        if checkpointer.failures:
            raise MvcsError(str(checkpointer.failures[-1]))
        took = checkpointer.timings[-1]
        self._spent += (took.search_ms + took.processor_ms) / 1e3

    def restore(self, learner: Learner, done: int) -> None:
        """Resume from the commit just made, as a new process would."""
        self.close()
        checkpointer = self._opened(learner)
        checkpointer.resume()
        restored = checkpointer.restored
        if restored is None or not restored.lossy or restored.commit.step != done:
            raise MvcsError(f"not restored from the value layer of step {done}: {restored}")

    def sizes(self) -> dict[str, Any]:
        """Return the ratios of all commits from the first one on, and the commits.

        Trees and footers are counted with the weights.
        """
        commits = sorted(self._repository.log(), key=lambda commit: commit.step or 0)
        steps = [committed_step(one.step or 0, self._repository.show(one.id), 0.0) for one in commits]
        stored = [one.weights_stored + one.metadata for one in steps]
        return history_of(Path(), None, steps).to_json() | {
            "weights": sum(one.weights for one in steps) / sum(stored),
            "peak": max(one.weights / size for one, size in zip(steps, stored, strict=True)),
            "spent": self._spent,
        }

    def close(self) -> None:
        """Close the hook."""
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None

    def _opened(self, learner: Learner) -> Checkpointer:
        extra = {"data": "drawn from seed and step", **learner.extra}
        self._checkpointer = Checkpointer(
            self._repository, learner.model, learner.optimizer, extra=extra, **self._options
        )
        return self._checkpointer


class Payloads(Restores):
    """Restores the payloads of a method, whose settings are searched at every checkpoint."""

    def __init__(self, judge: TaskJudge, method: Method, ledger: Ledger, terms: Terms) -> None:
        """Begin a chain in a ledger."""
        self._method = method
        self._series = ledger.series(method.name, method.version, terms.max_degradation, terms.seed)
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
        """Measure the state, unless the ledger has it."""
        found = {} if self._gradients is None else self._gradients.importance()
        scores = {f"model.{name}": values for name, values in found.items()}
        state = capture_state(copy.deepcopy(learner.state_dict()))
        self._recorded = RecordedState(done, state, scores)
        self._records.append(self._work.advance(self._series, self._recorded)[0])

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
    """Train an arm to the end, unless the ledger has it.

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
    if isinstance(method, str) and method not in (LATTICE, "none", "ulp"):
        hint = "name a method without a setting, or lattice"
        raise UsageError(f"'{method}' cannot be restored from here", hint=hint)
    name, version = (method, 1) if isinstance(method, str) else (method.name, method.version)
    about = json.dumps([asdict(plan), name, version, judge.task.name, judge.task.data])
    source = f"{judge.task.name}, {plan.restores} restores, {name}"
    digest = blake3(about.encode()).hexdigest()
    ledger = Ledger.of(out / "training", source, digest, plan.saved, judge.identity)
    if (known := ledger.known("arm")) is not None:
        return Arm(**known)
    terms = Terms(plan.max_degradation, plan.seed, plan.evaluations)
    with one_thread(plan.seed), restores_of(judge, method, ledger, terms) as restores:
        loss, seconds = _trained(judge, plan, restores, progress)
        sizes = restores.sizes()
    ratios = {what: sizes.get(what) for what in ("weights", "peak", "everything")}
    arm = Arm(name, plan.seed, plan.restores, loss, training=seconds, spent=sizes.get("spent", 0.0), **ratios)
    ledger.keep("arm", arm.to_json())
    return arm


@contextmanager
def restores_of(judge: TaskJudge, method: Method | str, ledger: Ledger, terms: Terms) -> Iterator[Restores]:
    """Give what commits and restores by a method, or by one of the names that `train_arm` takes.

    Commits of mvcs itself are removed at the end.
    """
    if isinstance(method, Method):
        yield Payloads(judge, method, ledger, terms)
    elif method == LATTICE:
        options = {
            "evaluate": samples_of(judge.task).search.evaluate,
            "search_batches": judge.task.sample_sizes.searched_first,
            "max_degradation": terms.max_degradation,
            "moments": "light",
        }
        with scratch_folder(ledger.folder) as scratch:
            Repository.init(scratch).close()
            with Repository.open(scratch) as repository, closing(Commits(repository, options)) as commits:
                yield commits
    else:
        yield Noise(terms.seed + 1 if method == "ulp" else 0)


def _trained(judge: TaskJudge, plan: Plan, restores: Restores, progress: Progress) -> tuple[float, float]:
    """Train from the start; return the loss at the end, and the seconds of the processor in steps."""
    task, seconds, done = judge.task, 0.0, 0
    learner = task.learner(task.model())
    progress.start(f"training {task.name}", plan.checkpoints, "checkpoints")
    for saved in plan.saved:
        restores.listen(learner, saved - done)
        began = time.process_time()
        for step in range(done, saved):
            train_step(task, learner, step, plan.steps, plan.seed)
        seconds, done = seconds + time.process_time() - began, saved
        restores.commit(learner, saved)
        if saved in plan.at:
            restores.restore(learner, saved)
        progress.advance(1)
    progress.finish()
    return samples_of(task).report.metrics(learner.model)["loss"], seconds
