"""Choosing how files are committed: by a user's own function of what would be restored of them."""

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, get_args

import torch

from mvcs.checkpoint import Captured, CapturedLeaf, rebuild_state, torch_tensor
from mvcs.commits import FilesTrial, LatticeTrial, RestoredValues, TableTrial
from mvcs.errors import EvaluationError, UsageError, one_of
from mvcs.inshrinkerator import METRICS, ConfigurationSearch, Setting, config_of, setting_of
from mvcs.objects import NOT_EVALUATED, ObjectId
from mvcs.objects import Path as Place
from mvcs.progress import SILENT, Progress
from mvcs.quantize import KMeansConfig, LatticeConfig, MomentsConfig, QuantizerConfig, step_value
from mvcs.reports import CommitInfo, Report
from mvcs.repository import Repository
from mvcs.search import (
    NO_SHARE,
    SEARCH_DEFAULTS,
    Attempt,
    Baseline,
    Bound,
    Evaluation,
    ForgottenGoal,
    LatticeChoice,
    LatticeSearch,
    Measured,
    PairedCheck,
    Verdict,
    check_repeatable,
)
from mvcs.train.choice.search import Outcome, Steps, bounded_moments, evaluation_of, small_step
from mvcs.train.choosers import CUBE, FINEST, Method, start_search
from mvcs.train.evaluation.call_evaluate import Batches, called
from mvcs.train.evaluation.evaluator import blindness
from mvcs.train.evaluation.live_tensors import OtherWeights
from mvcs.train.state import rng

_GROUPS = 8  # keys of files that are looked at one by one
_MOMENTUM = "momentum"  # stands for sensitivity in files
EvaluateState = Callable[[Any], Measured]


@dataclass(frozen=True)
class Candidate(Report):
    """Settings that were evaluated.

    Attributes:
        steps: the step of each layer type; empty for another method.
        hysteresis: how many steps beyond half of one a weight keeps the parent's code.
        stored_bytes: about what the weights' codes would take in a pack.
        degradation: how much worse than the original it is; positive is worse.
        standard_error: of the degradation; None where the evaluation gives none.
        batches: how many were evaluated.
        accepted: whether it keeps the bound.
        reason: the decision in words.
        setting: for "inshrinkerator" its bins, prune, protect and metric, in models with embeddings
            embedding_bins; empty for a lattice.
    """

    steps: dict[str, float]
    hysteresis: float
    stored_bytes: int
    degradation: float
    standard_error: float | None
    batches: int
    accepted: bool
    reason: str
    setting: Setting = field(default_factory=dict)


@dataclass(frozen=True)
class ChosenStep(Report):
    """The step that the weights of a layer type would be committed with.

    Attributes:
        layer_type: its name.
        step: the step.
        parent: the coarsest step of the parent's weights of that type; None where there is none.
        raw_bytes: bytes of the weights.
        stored_bytes: about what their codes would take in a pack.
        relative_error: root of the squared error over the squared values.
    """

    layer_type: str
    step: float
    parent: float | None
    raw_bytes: int
    stored_bytes: int
    relative_error: float


@dataclass(frozen=True)
class TuneReport(Report):
    """What tuning files found.

    Attributes:
        files: their paths in a commit.
        goal: "min" where a lower metric is better, "max" where a higher is.
        bound: the degradation accepted.
        baseline: the metric of the files as they are.
        raw_bytes: bytes of everything in the files.
        weights_bytes: those of the weights whose settings are searched.
        candidates: what was evaluated, in order.
        chosen: steps by layer type; empty where no candidate kept the bound, and for another method.
        hysteresis: of what was chosen; None where nothing was.
        stored_bytes: what the commit takes, or would take, without its exact layer; None if not known.
        degradation: of what was chosen; None where nothing was.
        standard_error: of the degradation.
        evaluations: what it took, the baseline included, in evaluations of the whole sample.
        seconds: how long it took.
        commit: the commit that was made of it.
        doubt: why the evaluation may measure nothing, or be better the other way; None for no doubt.
        method: "lattice" or "inshrinkerator".
        setting: of "inshrinkerator": what was chosen, as in a candidate.
    """

    files: list[str]
    goal: str
    bound: float
    baseline: float
    raw_bytes: int
    weights_bytes: int
    candidates: list[Candidate]
    chosen: list[ChosenStep]
    hysteresis: float | None
    stored_bytes: int | None
    degradation: float | None
    standard_error: float | None
    evaluations: float
    seconds: float
    commit: CommitInfo | None = None
    doubt: str | None = None
    method: Method = "lattice"
    setting: Setting = field(default_factory=dict)


@dataclass(frozen=True)
class _Searched:
    """What a search found: its outcome, what it tested, and the settings of what it chose."""

    outcome: Outcome
    candidates: list[Candidate]
    chosen: QuantizerConfig | None


def report_of(
    trial: LatticeTrial | TableTrial,
    settings: QuantizerConfig,
    found: _Searched,
    evaluation: Evaluation,
    *,
    seconds: float,
    doubt: str | None,
) -> TuneReport:
    """Return the report of a search.

    Args:
        trial: what was searched.
        settings: those it began with.
        found: what the search found.
        evaluation: what a commit would record of it.
        seconds: how long all of it took.
        doubt: what makes the evaluation suspicious.
    """
    chosen = found.chosen
    return TuneReport(
        files=[entry.path for entry in trial.captured.files or ()],
        goal=evaluation.goal,
        bound=evaluation.bound,
        baseline=evaluation.baseline,
        raw_bytes=trial.captured.raw_bytes,
        weights_bytes=sum(leaf.raw_bytes for leaf in _weights(trial, settings)),
        candidates=found.candidates,
        chosen=_chosen(trial, chosen) if isinstance(trial, LatticeTrial) and chosen else [],
        hysteresis=chosen.hysteresis if chosen else None,
        stored_bytes=None,
        degradation=evaluation.degradation,
        standard_error=evaluation.standard_error,
        evaluations=evaluation.evaluations,
        seconds=seconds,
        doubt=doubt,
        method="lattice" if isinstance(trial, LatticeTrial) else "inshrinkerator",
        setting=_setting(chosen),
    )


def _candidate(config: QuantizerConfig, stored: float, verdict: Verdict) -> Candidate:
    return Candidate(
        steps={kind: step_value(step) for kind, step in config.steps},
        hysteresis=config.hysteresis,
        stored_bytes=round(stored),
        degradation=verdict.degradation,
        standard_error=verdict.standard_error,
        batches=verdict.batches,
        accepted=verdict.accepted,
        reason=verdict.reason,
        setting=_setting(config),
    )


def _setting(config: QuantizerConfig | None) -> Setting:
    """Return what is searched of the settings of code tables, by the name of the score that commits use."""
    return {**setting_of(config), "metric": config.metric} if isinstance(config, KMeansConfig) else {}


def _chosen(trial: LatticeTrial, config: QuantizerConfig) -> list[ChosenStep]:
    tried = {kind: trial.tried(kind, step, config.hysteresis) for kind, step in config.steps}
    parents = {kind: step_value(step) for kind, step in trial.parents.items()}
    return [
        ChosenStep(
            layer_type=kind,
            step=step_value(step),
            parent=parents.get(kind),
            raw_bytes=sum(leaf.raw_bytes for leaf in trial.kinds[kind]),
            stored_bytes=round(tried[kind].stored),
            relative_error=tried[kind].errors.relative,
        )
        for kind, step in config.steps
    ]


@dataclass(frozen=True)
class Budget:
    """What a search may cost.

    Attributes:
        evaluations: candidates that are evaluated, at most; None is 8 for a lattice, and as many as it takes
            for "inshrinkerator".
        seconds: no further candidate is begun after so many; None for no limit.
    """

    evaluations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse a budget that allows nothing."""
        if self.evaluations is not None and self.evaluations < 1:
            raise UsageError(
                f"evaluations cannot be {self.evaluations}", hint="let 1 or more candidates be evaluated"
            )
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"seconds cannot be {self.seconds}", hint="give a number above 0")


@dataclass(frozen=True)
class Tuned:
    """How files should be committed.

    Attributes:
        report: what was found.
        quantizer: the settings; None where no candidate kept the bound: then the files are kept exactly.
        evaluation: what a commit records of it.
    """

    report: TuneReport
    quantizer: QuantizerConfig | None
    evaluation: Evaluation
    _paths: tuple[Path, ...]
    _tried: FilesTrial
    _blind: str | None = None

    def commit(
        self,
        repo: Repository,
        message: str,
        *,
        step: int | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> TuneReport:
        """Commit the files with the settings that were chosen, or exactly, and return the report with it.

        Raises:
            ConflictError: a file changed, or another writer moved the branch.
        """
        info = repo.commit_files(
            self._paths,
            message=message,
            step=step,
            metrics=metrics,
            evaluation=self.evaluation,
            tried=self._tried,
            quantizer=self.quantizer,
            provenance={NOT_EVALUATED: self._blind} if self._blind else {},
        )
        return replace(self.report, stored_bytes=info.stored_bytes, commit=info)

    def dry_run(self) -> TuneReport:
        """Return the report with what a commit would take, which is made and kept nowhere.

        Raises:
            ConflictError: a file changed.
        """
        if self.quantizer is None:
            return self.report
        return replace(self.report, stored_bytes=self._tried.stored(self.quantizer, self.evaluation))


def tune_files(
    repo: Repository,
    paths: Sequence[Path],
    evaluate: EvaluateState,
    bound: Bound,
    *,
    method: Method = "lattice",
    moments: MomentsConfig | None = None,
    budget: Budget = Budget(),
    progress: Progress = SILENT,
) -> Tuned:
    """Search the settings of fewest bytes with which what a commit of files restores keeps a bound.

    Args:
        repo: where the commit would go, near HEAD's codes.
        paths: files and folders; none named means HEAD's.
        evaluate: given the content of the file as `checkout` returns it, or of several files a dict by file
            name, returns a number, or yields (sum, count) for each batch; always of the same data in the same
            order. It may change what it is given.
        bound: the degradation accepted, and which way is better.
        method: "lattice" searches the steps of layer types, "inshrinkerator" the settings of code tables.
        moments: what is kept of an optimizer's moments, in files that hold one; by default the optimizer and
            the bound decide.
        budget: what the search may cost.
        progress: is told of every evaluation.

    Raises:
        FileFormatError: a file is not a checkpoint.
        UsageError: the method is not known, the files hold no weights, or `evaluate` gives nothing to
            compare, or is random.
        EvaluationError: `evaluate` raised an error.
    """
    one_of("method", method, get_args(Method))
    began, epsilon = perf_counter(), bound.epsilon(0)
    settings = _settings(method, bounded_moments(moments or MomentsConfig.auto(), epsilon), epsilon)
    tried = repo.trial_files(paths, settings)
    _require_weights(tried.trial, settings)
    judging = _Judging(evaluate, _FileStates(tried.captured), PairedCheck(bound), progress)
    most = budget.evaluations or SEARCH_DEFAULTS.evaluations
    is_known = method == "lattice" or budget.evaluations is not None
    progress.start("evaluating", 2 + most if is_known else None, "evaluations")
    baseline = judging.baseline()
    is_zero, values = baseline.is_zero, tried.trial.values(settings)
    blind = None if is_zero else judging.blindness(values, baseline, epsilon)
    unused = set() if is_zero or blind else judging.unused(values, baseline, epsilon)
    if unused:
        used = {path: "" for path in values if path not in unused}
        tried = repo.trial_files(paths, settings, used)
        _require_weights(tried.trial, settings)
    trial = tried.trial

    def judge(config: QuantizerConfig, *, whole: bool = False) -> Verdict:
        return judging.judge(trial.values(config), baseline, epsilon, whole=whole)

    def is_spent() -> bool:
        is_late = budget.seconds is not None and perf_counter() - began >= budget.seconds
        return is_zero or blind is not None or is_late

    if isinstance(trial, LatticeTrial):
        found = _search_steps(trial, judge, is_spent, most, epsilon)
    else:
        found = _search_tables(trial, settings, judge, is_spent, budget.evaluations)
    progress.finish()
    evaluation = evaluation_of(found.outcome, baseline, epsilon, judging.spent, bound.goal)
    seconds = perf_counter() - began
    doubts = NO_SHARE if is_zero else None, blind, ForgottenGoal(bound, "--goal {}").doubt(baseline)
    doubt = "; ".join(filter(None, doubts)) or None
    report = report_of(trial, settings, found, evaluation, seconds=seconds, doubt=doubt)
    return Tuned(report, found.chosen, evaluation, tuple(paths), tried, blind)


class _Judge(Protocol):
    """Evaluates what settings would restore."""

    def __call__(self, config: QuantizerConfig, *, whole: bool = False) -> Verdict: ...


def _settings(method: Method, moments: MomentsConfig, epsilon: float) -> LatticeConfig | KMeansConfig:
    """Return the settings that a search begins with: the finest of code tables."""
    small = small_step(LatticeConfig.small, epsilon)
    if method == "lattice":
        return LatticeConfig(moments=moments, small=small)
    return replace(config_of(FINEST, _MOMENTUM, moments), small=small)


def _search_steps(
    trial: LatticeTrial, judge: _Judge, is_spent: Callable[[], bool], most: int, epsilon: float
) -> _Searched:
    def config(point: LatticeChoice) -> LatticeConfig:
        return trial.steps(point.steps, point.hysteresis)

    def judge_point(point: LatticeChoice, *, whole: bool = False) -> Verdict:
        return judge(config(point), whole=whole)

    space = Steps(trial)
    if most >= SEARCH_DEFAULTS.enough:
        space.weigh(judge_point, is_spent)
    attempt = Attempt(space, judge_point, epsilon, thorough=True)
    found = LatticeSearch(most=most).run([attempt], is_spent)
    chosen = config(found.chosen.point) if found.chosen else None
    tested = [_candidate(config(one.point), one.stored, one.verdict) for one in found.tested]
    return _Searched(found, tested, chosen)


def _search_tables(
    trial: TableTrial,
    settings: QuantizerConfig,
    judge: _Judge,
    is_spent: Callable[[], bool],
    most: int | None,
) -> _Searched:
    """Search near the parent's setting, else the whole cube; without first moments by magnitudes alone."""
    metrics = METRICS if trial.has_scores(settings) else METRICS[:1]
    score = METRICS[0] if len(metrics) == 1 else _MOMENTUM

    def config(setting: Setting) -> KMeansConfig:
        return replace(config_of(setting, score, settings.moments), small=settings.small)

    def stored(setting: Setting) -> int:
        return trial.stored(config(setting))

    def judge_setting(setting: Setting) -> Verdict:
        return judge(config(setting), whole=True)

    search = ConfigurationSearch(CUBE, most)
    start_search(search, trial, metrics)
    found = search.run(stored, judge_setting, is_spent)
    chosen = config(found.chosen.setting) if found.chosen else None
    tested = [_candidate(config(one.setting), one.stored, one.verdict) for one in found.tested]
    return _Searched(found, tested, chosen)


def _weights(trial: LatticeTrial | TableTrial, settings: QuantizerConfig) -> list[CapturedLeaf]:
    if isinstance(trial, TableTrial):
        return trial.weights(settings)
    return [leaf for leaves in trial.kinds.values() for leaf in leaves]


def _require_weights(trial: LatticeTrial | TableTrial, settings: QuantizerConfig) -> None:
    if not _weights(trial, settings):
        names = ", ".join(f"'{entry.path}'" for entry in trial.captured.files or ())
        wanted = "steps" if isinstance(trial, LatticeTrial) else "tables"
        raise UsageError(
            f"no weights to choose {wanted} for in {names}",
            hint="weights are floating point of two and more dimensions; commit other files exactly",
        )


@dataclass(frozen=True)
class _FileStates:
    """Makes states of files that were taken apart; each has memory of its own."""

    captured: Captured

    def make(
        self, values: RestoredValues | None = None, bad: Container[Place] = (), size: float = 1.0
    ) -> Any:  # noqa: ANN401 - a state is anything
        """Return the content of the file, or of several files a dict by their paths in the commit.

        Args:
            values: what the quantized leaves would restore to; None leaves everything as it is in the files.
            bad: leaves that get quite other values.
            size: times the magnitudes of their own.

        Raises:
            ConflictError: a file changed since it was taken apart.
        """

        @functools.cache
        def leaf(index: int) -> torch.Tensor:
            found = self.captured.leaves[index]
            bounded = values is not None and found.path in values
            content = values.content(found.path) if values and bounded else found.source.read()
            made = torch_tensor(found.dtype, found.shape, content)
            return OtherWeights({"": made}, size)[""] if found.path in bad else made

        files = self.captured.files or ()
        states = {entry.path: rebuild_state(entry.node, leaf, self._blob) for entry in files}
        return states if len(states) != 1 else states.popitem()[1]

    def _blob(self, identifier: ObjectId, _: int) -> bytes:
        return bytes(self.captured.blobs[identifier].read())


@dataclass
class _Judging:
    """Evaluates states of files; all evaluations draw the same random numbers.

    Attributes:
        spent: evaluations so far, in evaluations of the whole sample.
    """

    evaluate: EvaluateState
    states: _FileStates
    check: PairedCheck
    progress: Progress
    spent: float = 0.0
    _candidates: int = 0

    def baseline(self) -> Baseline:
        """Evaluate the files as they are, and the first batch once more."""
        with self._measuring("the files as they are", None) as measured:
            found = Baseline.measure(measured)
        with self._measuring("the files as they are", None) as measured:
            again = check_repeatable(measured, found)
        self.spent += 1 + again
        return found

    def blindness(self, values: RestoredValues, baseline: Baseline, epsilon: float) -> str | None:
        """Return why no verdict says anything, as `Evaluator.look_for_blindness` does."""

        def judge(size: float) -> Verdict:
            with self._measuring("bad weights", None, {*values}, size) as measured:
                self.spent += 1
                return self.check.judge(measured, baseline, epsilon)

        def repeat() -> None:
            with self._measuring("the files as they are", None) as measured:
                self.spent += check_repeatable(measured, baseline)

        return blindness(judge, repeat)

    def unused(self, values: RestoredValues, baseline: Baseline, epsilon: float) -> set[Place]:
        """Return the leaves that the function does not use: no number changes where they are bad.

        The keys of a file are looked at one by one, such as its model and an average; files as a whole.
        """
        groups = defaultdict[Place, list[Place]](list)
        for path in values:
            groups[path[: 2 if len(path) > 2 else 1]].append(path)
        found = set[Place]()
        for group in groups.values() if 1 < len(groups) <= _GROUPS else ():
            with (
                suppress(EvaluationError, UsageError),
                self._measuring("bad weights", None, group) as measured,
            ):
                found |= {*group} if self.check.judge(measured, baseline, epsilon).is_same else set()
            self.spent += 1
        return found if len(found) < len(values) else set()

    def judge(self, values: RestoredValues, baseline: Baseline, epsilon: float, *, whole: bool) -> Verdict:
        """Evaluate the files with restored values."""
        self._candidates += 1
        with self._measuring(f"candidate {self._candidates}", values) as measured:
            verdict = self.check.judge(measured, baseline, epsilon, whole=whole)
        self.spent += verdict.share
        return verdict

    @contextmanager
    def _measuring(
        self, name: str, values: RestoredValues | None, bad: Collection[Place] = (), size: float = 1.0
    ) -> Iterator[float | Batches]:
        try:
            with (
                rng.kept(),
                torch.no_grad(),
                called(self.evaluate, self.states.make(values, bad, size)) as measured,
            ):
                yield measured
        except EvaluationError as error:
            raise EvaluationError(
                f"the evaluation of {name} failed: {error.message}",
                hint="the function is given the content of the file, or of several a dict by file name",
            ) from error
        self.progress.advance(1)
