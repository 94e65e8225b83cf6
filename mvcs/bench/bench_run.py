"""Every method that was asked for on one run: those of papers, and mvcs itself as a user has it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mvcs.bench.bounded import BoundedStep, BoundedTerms, Spent
from mvcs.bench.codecs.clock import copying
from mvcs.bench.comparison import REST, WEIGHTS, Originals, Terms, compare
from mvcs.bench.judges import SAMPLES, FunctionJudge, TaskJudge
from mvcs.bench.ledger import LATTICE, Ledger, Record, Series, chained
from mvcs.bench.methods.catalog import METHODS
from mvcs.bench.methods.method import NotApplicableError
from mvcs.bench.replay import replay_run
from mvcs.bench.results import ComparisonReport
from mvcs.bench.runs.recorded_state import RecordedRun, RecordedState
from mvcs.checkpoint import save_torch
from mvcs.errors import UsageError, meant
from mvcs.local_files import scratch_folder
from mvcs.progress import Progress
from mvcs.quantize import MomentsConfig
from mvcs.reports import CommitInfo, Report
from mvcs.repository import Repository
from mvcs.search import Bound
from mvcs.train import Budget, tune_files

_LATTICE_VERSION = 1
_MOMENTS = "light"


@dataclass(frozen=True)
class MethodInfo(Report):
    """A method that can be compared.

    Attributes:
        name: how it is asked for.
        paper: title, venue and sections.
        differs: what differs from the paper, or is not said there.
        axes: what is searched, coarsest first.
        fixed: names of settings that are measured as they are.
        needs: what it takes beside weights.
        missing: how to install the package that it needs; empty where that is there.
    """

    name: str
    paper: str
    differs: str
    axes: dict[str, list[float | int | str]]
    fixed: list[str]
    needs: list[str]
    missing: str = ""


@dataclass(frozen=True)
class MethodsReport(Report):
    """All methods, mvcs itself first."""

    methods: list[MethodInfo]

    @classmethod
    def of_all(cls) -> Self:
        """Return what the catalogue has."""
        own = MethodInfo(
            LATTICE,
            "mvcs: bounded commits, through the training hook or as files",
            "it stores whole states, and an optimizer's moments less than exactly (--moments light); of the"
            " others only excp does",
            {},
            [],
            [],
        )
        found = [
            MethodInfo(
                name,
                method.paper,
                method.differs,
                {axis: list(values) for axis, values in method.axes.items()},
                [f"{name}:{one}" for one in method.fixed],
                sorted(method.needs - {"seed"}),
                method.missing,
            )
            for name, method in METHODS.items()
        ]
        return cls([own, *found])


def names_of(asked: str, task: str | None = None) -> list[str]:
    """Return the methods that a list names, such as "qd,qd:4-8"; "all" for all, and their fixed settings.

    All are those that are meant for such a run: a fine-tune's are left out for others.

    Raises:
        UsageError: there is no such method, or none of its settings has that name.
    """
    known, fitting = [LATTICE], [LATTICE]
    for name, method in METHODS.items():
        names = [name, *(f"{name}:{one}" for one in method.fixed)]
        known += names
        fitting += names if task is None or not method.tasks or task in method.tasks else []
    if asked == "all":
        return fitting
    found = [name.strip() for name in asked.split(",") if name.strip()]
    for name in found:
        if name not in known:
            hint = meant(name, known) or "'mvcs bench methods' lists them"
            raise UsageError(f"there is no method '{name}'", hint=hint)
    if not found:
        raise UsageError("no method is named", hint="'mvcs bench methods' lists them")
    return list(dict.fromkeys(found))


def run_methods(
    run: RecordedRun,
    judge: TaskJudge | FunctionJudge,
    names: Sequence[str],
    out: Path,
    terms: Terms,
    *,
    progress: Progress,
) -> ComparisonReport:
    """Measure methods on a run, or continue where a killed call was.

    A method that the checkpoints do not have what it needs for is skipped, with the reason.

    Args:
        run: the checkpoints.
        judge: evaluates what they restore.
        names: as `names_of` gives them.
        out: the folder of the ledger.
        terms: the bound, and what a search may cost.
        progress: is told of every checkpoint.

    Raises:
        EvaluationError: the judge's function failed.
        FileFormatError: a checkpoint is not of the judge's model.
        ConflictError: the judge gives other numbers than when `out` was measured.
        UsageError: it gives others each time, or does not look at weights.
    """
    ledger = Ledger.of(out, run, judge.identity)
    Originals(judge, ledger).confirm(next(iter(run.readers.values()))())
    for name in names:
        method, _, fixed = name.partition(":")
        try:
            if method == LATTICE:
                _lattice(run, judge, ledger, terms, progress)
            else:
                compare(run, judge, METHODS[method], ledger, terms, fixed=fixed or None, progress=progress)
        except NotApplicableError as error:
            ledger.skip(name, error.message)
            progress.note(f"{name} is skipped: {error.message}")
    return ComparisonReport.of(out)


def _lattice(
    run: RecordedRun, judge: TaskJudge | FunctionJudge, ledger: Ledger, terms: Terms, progress: Progress
) -> None:
    """Commit the checkpoints as a user would: through the training hook, or as files with `mvcs tune`."""
    series = ledger.series(LATTICE, _LATTICE_VERSION, terms.max_degradation, terms.seed)
    series.begin()
    if isinstance(judge, FunctionJudge):
        _tuned(run, judge, series, ledger, terms, progress)
        return
    bounded = BoundedTerms(terms.max_degradation, _MOMENTS)
    with _files(run, ledger) as folder:
        report = replay_run(
            judge.task, folder, ledger.folder / LATTICE, bounded, every=run.every, progress=progress
        )
    digest = ""
    for one in report.commits:
        digest = chained(digest, b"")
        series.add(_record(one, digest), b"")


def _tuned(
    run: RecordedRun,
    judge: FunctionJudge,
    series: Series,
    ledger: Ledger,
    terms: Terms,
    progress: Progress,
) -> None:
    """Commit each checkpoint as a file, with the settings that the user's function finds."""
    place = ledger.folder / LATTICE / f"{terms.max_degradation:g}"
    if not place.exists():
        Repository.init(place).close()
    with Repository.open(place) as repository:
        made = {} if repository.head() is None else {one.step: one for one in repository.log()}
        work = _Tuning(repository, judge, Originals(judge, ledger), terms, place / "checkpoint.pt")
        progress.start(f"measuring {LATTICE}", len(run.readers), "checkpoints")
        digest = ""
        for step, read in run.readers.items():
            before, digest = digest, chained(digest, b"")
            if step not in made or series.find(step, before) is None:
                series.add(_record(work.commit(read(), made.get(step)), digest), b"")
            progress.advance(1)
        progress.finish()


@dataclass(frozen=True)
class _Tuning:
    """Commits files with settings that a user's function accepts."""

    repository: Repository
    judge: FunctionJudge
    originals: Originals
    terms: Terms
    file: Path

    def commit(self, recorded: RecordedState, made: CommitInfo | None) -> BoundedStep:
        """Commit a checkpoint, unless that was done, and judge what is restored."""
        bound, spent = Bound(self.terms.max_degradation), None
        if made is None:
            _save(recorded, self.file)
            began = time.process_time()
            tuned = tune_files(
                self.repository,
                [self.file],
                self.judge.measured,
                bound,
                moments=MomentsConfig.named(_MOMENTS),
                budget=Budget(self.terms.evaluations),
            )
            searched = time.process_time()
            tuned.commit(self.repository, f"step {recorded.step}", step=recorded.step)
            spent = Spent(0.0, searched - began, time.process_time() - searched, 0.0)
            made = self.repository.resolve("HEAD")
        restoring = time.process_time()
        state = self.repository.restore(made.id, prefer_exact=False).state[self.file.name]
        restored = time.process_time() - restoring
        verify, report = (self.originals.judged(recorded, state, sample, bound) for sample in SAMPLES[1:])
        return BoundedStep.of(self.repository.show(made.id), verify, report, spent, restored)


@contextmanager
def _files(run: RecordedRun, ledger: Ledger) -> Iterator[Path]:
    """Give a folder of checkpoint files."""
    if run.folder is not None:
        yield run.folder
        return
    with scratch_folder(ledger.folder) as scratch:
        for step, read in run.readers.items():
            _save(read(), scratch / f"step_{step:09}.pt")
        yield scratch


def _save(recorded: RecordedState, path: Path) -> None:
    with path.open("wb") as file:
        save_torch(recorded.state(), file)


def _record(commit: BoundedStep, digest: str) -> Record:
    """Return what a commit took as a record: trees, tables and footers are counted with the weights."""
    size, spent = commit.size, commit.spent
    weights = size.weights_stored + size.metadata
    return Record(
        step=size.step,
        setting={},
        kept=commit.exactness == "bounded",
        raw=size.raw_bytes,
        weights=size.weights,
        stored=weights,
        everything=size.stored_bytes,
        by_class={WEIGHTS: weights, REST: size.stored_bytes - weights},
        tested=commit.candidates,
        search=commit.search,
        verify=commit.verify,
        report=commit.report,
        encode=0.0 if spent is None else spent.codec_seconds,
        decode=commit.restored or 0.0,
        memcpy=copying(size.weights),
        searched=0.0 if spent is None else spent.codec_seconds + spent.search_seconds,
        payload=digest,
    )
