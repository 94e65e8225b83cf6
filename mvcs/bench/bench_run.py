"""Every method that was asked for on one run: those of papers, and mvcs itself as a user has it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mvcs.bench.bounded import BoundedStep, BoundedTerms, Spent
from mvcs.bench.codecs.clock import copying
from mvcs.bench.comparison import REST, WEIGHTS, Originals, Terms, compare, line
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
from mvcs.reports import CommitInfo, Report, as_size
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
    first, *_, last = run.readers.values()
    most = len(run.readers) * sum(_largest(name, last()) for name in names)
    progress.note(f"payloads and commits will take at most about {as_size(most)} in '{out}'")
    ledger = Ledger.of(out, run.source, run.digest, run.readers, judge.identity)
    Originals(judge, ledger).confirm(first())
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


def _largest(name: str, recorded: RecordedState) -> int:
    """Return what a checkpoint may take: its weights, or all of it where moments are coded as well."""
    method = METHODS.get(name.partition(":")[0])
    return recorded.raw_bytes if method is None or method.restores else recorded.weight_bytes


def _lattice(
    run: RecordedRun, judge: TaskJudge | FunctionJudge, ledger: Ledger, terms: Terms, progress: Progress
) -> None:
    """Commit the checkpoints as a user would: through the training hook, or as files with `mvcs tune`."""
    series = ledger.series(LATTICE, _LATTICE_VERSION, terms.max_degradation, terms.seed)
    series.begin()
    work = _Commits(series, progress)
    if isinstance(judge, FunctionJudge):
        _tuned(run, judge, work, ledger, terms, progress)
        return
    bounded = BoundedTerms(terms.max_degradation, _MOMENTS)
    with _files(run, ledger) as folder:
        place = ledger.folder / LATTICE
        replay_run(judge.task, folder, place, bounded, every=run.every, each=work.add, progress=progress)


@dataclass
class _Commits:
    """Commits as records of a series, in the order of steps."""

    series: Series
    progress: Progress
    _digest: str = ""

    def has(self, step: int) -> bool:
        """Tell whether the ledger has a commit, and continue behind it."""
        found = self.series.find(step, self._digest)
        if found is not None:
            self._note(found[0], known=True)
        return found is not None

    def add(self, commit: BoundedStep) -> None:
        """Write a commit down, unless the ledger has it."""
        if not self.has(commit.size.step):
            record = _record(commit, chained(self._digest, b""))
            self.series.add(record, b"")
            self._note(record, known=False)

    def _note(self, record: Record, *, known: bool) -> None:
        self._digest = record.payload
        self.progress.note(line(LATTICE, record, known))


def _tuned(
    run: RecordedRun, judge: FunctionJudge, work: _Commits, ledger: Ledger, terms: Terms, progress: Progress
) -> None:
    """Commit each checkpoint as a file, with the settings that the user's function finds."""
    place = ledger.folder / LATTICE / f"{terms.max_degradation:g}"
    if not place.exists():
        Repository.init(place).close()
    with Repository.open(place) as repository:
        made = {} if repository.head() is None else {one.step: one for one in repository.log()}
        tuning = _Tuning(repository, judge, Originals(judge, ledger), terms, place / "checkpoint.pt")
        progress.start(f"measuring {LATTICE}", len(run.readers), "checkpoints")
        for step, read in run.readers.items():
            if step not in made or not work.has(step):
                work.add(tuning.commit(read(), made.get(step)))
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
