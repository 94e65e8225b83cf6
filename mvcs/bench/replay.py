"""Replaying a recorded run: every checkpoint becomes a commit as training would make it, and is judged."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from torch import nn

from mvcs.bench.bounded import BoundedReport, BoundedStep, BoundedTerms, Judged, Records, Setting, Spent
from mvcs.bench.history import with_mechanisms
from mvcs.bench.runs.checkpoint_files import Checkpoint, checkpoints
from mvcs.bench.runs.run_maker import load_recorded, one_thread
from mvcs.bench.runs.tasks import Sample, Task, samples_of
from mvcs.commits import Mechanisms
from mvcs.errors import MvcsError
from mvcs.local_files import scratch_folder
from mvcs.progress import Progress
from mvcs.reports import CommitInfo
from mvcs.repository import Repository
from mvcs.search import SEARCH_DEFAULTS, Baseline, Bound, PairedCheck
from mvcs.train import Checkpointer

_SEED = 0


def replay_run(
    task: Task,
    folder: Path,
    out: Path | None,
    terms: BoundedTerms,
    *,
    every: int | None = None,
    each: Callable[[BoundedStep], None] | None = None,
    progress: Progress,
) -> BoundedReport:
    """Commit the checkpoints of a run through the training hook, and measure what each restores.

    Args:
        task: what the run learned.
        folder: of its checkpoints.
        out: keeps the commits and what was measured, in a folder for each bound; a killed run goes on there.
            What the search had learned of the run it learns anew then. None removes everything.
        terms: how commits are bounded.
        every: use every so many checkpoints.
        each: takes every commit, new or not; without it a new one is noted.
        progress: is told of every commit.

    Raises:
        NotFoundError: there are fewer than two checkpoints.
        FileFormatError: one of them is not of this task.
        ConflictError: `out` holds another run.
    """
    recorded = checkpoints(folder)
    found = recorded[:: every or 1]
    sizes = asdict(task.sample_sizes)
    setting = Setting(**asdict(terms), task=task.name, data=task.data, samples=sizes)
    schedule, steps = task.schedule, recorded[-1].step
    constant = [
        after.step
        for before, after in pairwise(found)
        if all(schedule.rate(step, steps) == schedule.peak for step in range(before.step, after.step))
    ]
    progress.start("committing", len(found), "checkpoints")
    with _place(folder, out, terms) as (place, originals), one_thread(_SEED):
        records = Records(place / "results.json", setting)
        with _repository(place / "repository", Mechanisms.without(terms.without)) as repository:
            run = _Replay(task, repository, records, originals, setting)
            run.commit(found, each, progress)
        kept = None if out is None else place / "repository"
    progress.finish()
    return BoundedReport.of(folder, setting, kept, [records.commits[one.step] for one in found], constant)


@contextmanager
def _place(folder: Path, out: Path | None, terms: BoundedTerms) -> Iterator[tuple[Path, Path]]:
    """Give a folder for this bound, and budget, and a file for what all share."""
    if out is None:
        with scratch_folder(folder) as scratch:
            yield scratch, scratch / "originals.json"
        return
    place = out / terms.name
    place.mkdir(parents=True, exist_ok=True)
    yield place, out / "originals.json"


def _repository(place: Path, mechanisms: Mechanisms) -> Repository:
    if not place.exists():
        place.mkdir()
        Repository.init(place).close()
    return with_mechanisms(place, mechanisms)


class _Originals:
    """How the recorded states fare on the samples, which no bound changes; in a file."""

    def __init__(self, path: Path, data: str) -> None:
        self._path, self._data = path, data
        found = json.loads(path.read_text()) if path.exists() else {}
        self._known: dict[str, list[list[float]]] = found.get(data, {})

    def baseline(self, name: str, sample: Sample, model: nn.Module) -> Baseline:
        """Return what an evaluation of `model` gives, from the file where it has been measured."""
        if name not in self._known:
            self._known[name] = [list(batch) for batch in Baseline.measure(sample.evaluate(model)).batches]
            part = self._path.with_suffix(".part")
            part.write_text(json.dumps({self._data: self._known}))
            part.replace(self._path)
        return Baseline(tuple((total, count) for total, count in self._known[name]))


class _Replay:
    """One run on its way through the hook."""

    def __init__(
        self, task: Task, repository: Repository, records: Records, originals: Path, setting: Setting
    ) -> None:
        self._repository = repository
        self._records = records
        self._setting = setting
        self._learner = task.learner(task.model())
        self._restored = task.model()
        self._samples = samples_of(task)
        self._originals = _Originals(originals, f"{task.data} {setting.samples}")
        self._check = PairedCheck(Bound(setting.max_degradation), stops_early=False)
        self._sizes = task.sample_sizes

    def commit(
        self, found: list[Checkpoint], each: Callable[[BoundedStep], None] | None, progress: Progress
    ) -> None:
        """Commit and measure what has not been yet."""
        made = {} if self._repository.head() is None else {one.step: one for one in self._repository.log()}
        hook = Checkpointer(
            self._repository,
            self._learner.model,
            self._learner.optimizer,
            extra={"data": "drawn from seed and step", **self._learner.extra},
            evaluate=self._samples.search.evaluate,
            max_degradation=self._setting.max_degradation,
            moments=self._setting.moments,
            search_mean=self._setting.search_mean,
            search_batches=self._sizes.searched_first,
            search_settings=SEARCH_DEFAULTS.changed(self._setting.search),
        )
        # As a context manager it would wait for a step before it lets SIGTERM end the run.
        with closing(hook) as checkpointer:
            for checkpoint in found:
                if checkpoint.step not in self._records.commits:
                    load_recorded(checkpoint.path, self._learner)
                    spent = None if checkpoint.step in made else self._save(checkpointer, checkpoint.step)
                    commit = made.get(checkpoint.step) or self._repository.resolve("HEAD")
                    self._records.add(self._measured(commit, spent))
                    if each is None:
                        progress.note(_told(self._records.commits[checkpoint.step]))
                if each is not None:
                    each(self._records.commits[checkpoint.step])
                progress.advance(1)

    def _save(self, checkpointer: Checkpointer, step: int) -> Spent:
        checkpointer.save(step)
        checkpointer.flush()
        if checkpointer.failures:
            raise MvcsError(str(checkpointer.failures[-1]))
        return Spent.of(checkpointer.timings[-1])

    def _measured(self, commit: CommitInfo, spent: Spent | None) -> BoundedStep:
        began = time.process_time()
        restored = self._repository.restore(commit.id, prefer_exact=False)
        took = time.process_time() - began
        self._restored.load_state_dict(restored.state["model"])
        report = self._samples.report.first(self._sizes.reported)
        return BoundedStep.of(
            self._repository.show(commit.id),
            self._judged("verify", self._samples.verify, commit.step),
            self._judged("report", report, commit.step),
            spent,
            took,
        )

    def _judged(self, name: str, sample: Sample, step: int | None) -> Judged:
        baseline = self._originals.baseline(f"{name} {step}", sample, self._learner.model)
        epsilon = self._setting.max_degradation
        return Judged.of(self._check.judge(sample.evaluate(self._restored), baseline, epsilon))


def _told(one: BoundedStep) -> str:
    """Return one line on a commit."""
    size, spent = one.size, one.spent
    ratios = f"CR-w {size.weights / max(size.weights_stored, 1):.1f}"
    whole = f"CR-all {size.raw_bytes / max(size.stored_bytes, 1):.1f}"
    search = "" if one.search is None else f"search {one.search.degradation:+.3%}, "
    cost = "" if spent is None else f"; {spent.evaluations:.2f} evaluations, {spent.search_seconds:.1f} s"
    judged = f"{search}verify {one.verify.degradation:+.3%}, report {one.report.degradation:+.3%}"
    return f"step {size.step} ({one.exactness}): {ratios}, {whole}; {judged}{cost}"
