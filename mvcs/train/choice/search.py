"""Choosing how a commit is bounded: by the user's own evaluation of what would be restored."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Final, Literal, Protocol

from numpy.typing import ArrayLike
from torch import nn

from mvcs.commits import LatticeTrial, TableTrial
from mvcs.errors import MvcsError, UsageError, real, whole
from mvcs.objects import Path
from mvcs.quantize import LatticeConfig, MomentsConfig, QuantizerConfig, QuantizerOptions
from mvcs.search import (
    NO_SHARE,
    SEARCH_DEFAULTS,
    Attempt,
    Baseline,
    CubeOutcome,
    Evaluation,
    ForgottenGoal,
    Goal,
    Judge,
    LatticeChoice,
    LatticeOutcome,
    LatticeSearch,
    SamplingNoise,
    SearchSettings,
    Verdict,
    is_zero,
)
from mvcs.train.choice.model_weights import ModelWeights
from mvcs.train.choice.steps import Steps
from mvcs.train.evaluation.call_evaluate import Evaluate, described
from mvcs.train.evaluation.evaluator import Evaluator
from mvcs.train.evaluation.model_swap import ModelLostError

LAST_SECONDS: Final = 10.0
"""A run that was told to end judges a candidate where that takes less.

Schedulers leave 30 seconds and more between SIGTERM and SIGKILL, in which the commit is written as well.
"""
NO_CANDIDATE: Final = "exact, since no candidate kept the bound"
_ENDED = "the run was told to end (SIGTERM)"
_NO_TIME = f"{_ENDED}, and nothing tells that {LAST_SECONDS:g} seconds are enough to judge a candidate"
_ONE_TRIED = f"exact, since {_ENDED}, which left time for one candidate"


class BoundingOptions(QuantizerOptions, total=False):
    """How commits are bounded: by settings, or by measured quality where `evaluate` is given.

    Attributes:
        evaluate: given the model, returns a number, or yields (sum, count) for each batch (docs/tuning.md).
            Then every commit is checked by it.
        method: how such commits are bounded: "lattice", the default, or "inshrinkerator" (docs/tuning.md).
        max_degradation: how much worse a restored state may be, 0.01 by default for 1 %; or a function that
            gives it for a step.
        goal: "min" where a lower metric is better, "max" where a higher is.
        search_batches: batches of the evaluation that are taken at first, all by default. Later commits take
            more of them where their noise takes too much of the bound.
        search_evaluations: candidates that are evaluated at one commit, at most.
        search_mean: evaluations a commit on average, the original's included, 3 by default; beyond it none is
            spent on saving bytes, only on finding something that keeps the bound.
        search_seconds: no further candidate is begun after so many seconds of one commit.
        search_settings: what else the search goes by, to measure it.
        replica: makes another model of the same structure, to evaluate in a child process.
        on_evaluation_failure: a commit whose evaluation fails is "exact", or "unchecked": bounded as the last
            one that was checked.
    """

    evaluate: Evaluate | None
    method: Literal["lattice", "inshrinkerator"] | None
    max_degradation: float | Callable[[int], float] | None
    goal: Goal | None
    search_batches: int | None
    search_evaluations: int | None
    search_mean: float | None
    search_seconds: float | None
    search_settings: SearchSettings | None
    replica: Callable[[], nn.Module] | None
    on_evaluation_failure: Literal["exact", "unchecked"] | None


@dataclass(frozen=True)
class Choice:
    """How one commit is bounded.

    Attributes:
        quantizer: the settings; None keeps everything exact.
        evaluation: how its quality was measured; None where it was not.
        notes: what to tell the user.
        seconds: how long choosing took.
        evaluations: evaluations of the whole sample that it took.
        importance: scores of weights that the settings ask for.
        failure: why its quality could not be measured, on one line; None where it was, or was not to be.
        lost: choosing left other weights in the model, which must not be trained any further.
    """

    quantizer: QuantizerConfig | None
    evaluation: Evaluation | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    evaluations: float = 0.0
    importance: Mapping[str, ArrayLike] = field(default_factory=dict)
    failure: str | None = None
    lost: ModelLostError | None = None


class Trials(Protocol):
    """Tries out what the next commit of a state could be."""

    def steps(self, settings: LatticeConfig, gradients: Mapping[Path, float]) -> LatticeTrial:
        """Return a trial of steps from some settings on; see `mvcs.commits.LatticeTrial`."""
        ...

    def tables(self, importance: Mapping[str, ArrayLike]) -> TableTrial:
        """Return a trial of code tables, with scores of weights."""
        ...


class Chooser:
    """Chooses how each commit of a run is bounded, and learns from one to the next.

    Args:
        evaluator: measures candidates; None bounds all commits alike.
        settings: of all commits; with an evaluator those the search begins with.
        evaluations: candidates at one commit, at most.
        mean: evaluations a commit, the original's included, that saving bytes may take on average.
        seconds: no further candidate of a commit is begun after so many.
        search: what else the search goes by.

    Raises:
        UsageError: the settings cannot be searched, or a budget is out of range.
    """

    def __init__(
        self,
        settings: QuantizerConfig | None,
        evaluator: Evaluator | None = None,
        *,
        evaluations: int | None = None,
        mean: float | None = None,
        seconds: float | None = None,
        search: SearchSettings = SEARCH_DEFAULTS,
    ) -> None:
        self._settings = self._checked = settings
        self._numbers = search
        self._evaluator = evaluator
        self._seconds = seconds
        self._noise = SamplingNoise(search)
        self._took, self._is_last = 0.0, False
        if evaluator is None:
            return
        if evaluations is not None:
            whole("search_evaluations", evaluations, "let 1 or more candidates be evaluated")
        hint = "give a number from 1: the original alone takes 1 evaluation"
        if mean is not None and real("search_mean", mean, hint) < 1:
            raise UsageError(f"search_mean cannot be {mean}", hint=hint)
        hint = "give a number above 0"
        if seconds is not None and real("search_seconds", seconds, hint) <= 0:
            raise UsageError(f"search_seconds cannot be {seconds}", hint=hint)
        self._goal = ForgottenGoal(evaluator.bound)
        self._limits = evaluations, search.mean if mean is None else mean
        self._begin(*self._limits)

    def _begin(self, evaluations: int | None, mean: float) -> None:
        settings = self._settings
        if not isinstance(settings, LatticeConfig) or settings.share != "type":
            raise UsageError(
                "evaluate chooses the steps of layer types, which these settings do not have",
                hint="leave out bins and share, or leave out evaluate",
            )
        self._gradients: Mapping[Path, float] = {}
        most = evaluations or self._numbers.evaluations
        self._search = LatticeSearch(most=most, mean=mean, settings=self._numbers)

    @property
    def searches(self) -> bool:
        """Whether commits are chosen by evaluation."""
        return self._evaluator is not None

    def close(self) -> None:
        """Give back what evaluations hold."""
        if self._evaluator is not None:
            self._evaluator.close()

    def unmeasured(self) -> Choice:
        """Return how to commit without a search: by the settings, or exactly if those are to be checked."""
        return Choice(None if self.searches else self._settings)

    @property
    def is_quick(self) -> bool:
        """Whether the searches so far tell that a baseline and one candidate take a few seconds."""
        spent = self._evaluator.spent if self._evaluator is not None else 0.0
        return spent > 0 and 2 * self._took / spent < LAST_SECONDS

    def ended(self) -> Choice:
        """Return how to commit when a run was told to end and there is no time to search: exactly."""
        return Choice(None, notes=(f"exact, since {_NO_TIME}",), failure=_NO_TIME)

    def choose(self, step: int, trials: Trials, *, is_last: bool = False) -> Choice:
        """Search how the state after `step` is committed; the model in training holds it.

        Whatever goes wrong, in the evaluation or on its device, costs the search alone: then the commit is
        exact, or unchecked as configured.

        Args:
            step: for messages, and for bounds that follow a schedule.
            trials: of the state.
            is_last: the run was told to end: one candidate is judged, and where it is refused the commit is
                exact.
        """
        evaluator = self._evaluator
        if evaluator is None:
            return self.unmeasured()
        began, spent, self._is_last = perf_counter(), evaluator.spent, is_last
        try:
            choice = self._chosen(step, trials, evaluator, began)
            if evaluator.doubt is not None:
                choice = self._unseen(choice, evaluator.doubt)
        except Exception as error:  # noqa: BLE001 - devices raise RuntimeError and kinds of their own
            choice = self._unsearched(evaluator, error)
        seconds = perf_counter() - began
        self._took += seconds
        if is_last and choice.quantizer is None and choice.failure is None:
            choice = replace(choice, notes=(_ONE_TRIED, *choice.notes))
        return replace(choice, seconds=seconds, evaluations=evaluator.spent - spent)

    def _unseen(self, choice: Choice, doubt: str) -> Choice:
        """Forget what was learnt from an evaluation that sees no candidate, and commit exactly.

        What it gives for the original still stands in the commit, as the metric.
        """
        self._checked = self._settings
        self._begin(*self._limits)
        evaluation = choice.evaluation and replace(choice.evaluation, degradation=None, standard_error=None)
        return Choice(None, evaluation, (f"exact, since {doubt}",), failure=doubt)

    def _unsearched(self, evaluator: Evaluator, error: Exception) -> Choice:
        unchecked = evaluator.on_failure == "unchecked"
        became = "bounded without being checked" if unchecked else "exact"
        why = error.message if isinstance(error, MvcsError) else described(error)
        lost = error if isinstance(error, ModelLostError) else None
        settings = self._checked if unchecked else None
        return Choice(settings, notes=(f"{became}, since {why}",), failure=why, lost=lost)

    def _chosen(self, step: int, trials: Trials, evaluator: Evaluator, began: float) -> Choice:
        spent, settings = evaluator.spent, self._settings
        if not isinstance(settings, LatticeConfig):
            return self.unmeasured()
        epsilon = evaluator.bound.epsilon(step)
        settings = replace(
            settings,
            moments=bounded_moments(settings.moments, epsilon),
            small=small_step(settings.small, epsilon, self._numbers),
        )
        trial = trials.steps(settings, self._gradients)
        # A commit of weights alone has no optimizer to ask.
        self._gradients = trial.gradients
        baseline = evaluator.baseline(step)

        def judge(point: LatticeChoice, *, whole: bool = False) -> Verdict:
            values = trial.values(trial.steps(point.steps, point.hysteresis))
            # There is no time for a verdict that would have to be confirmed.
            weights = ModelWeights.of(values, evaluator.names)
            return evaluator.judge(step, weights, baseline, whole=whole or self._is_last)

        is_spent = self._budget(began, baseline)
        outcome = self._searched(trial, judge, epsilon, evaluator.frozen, is_spent)
        goal = evaluator.bound.goal
        evaluation = evaluation_of(outcome, baseline, epsilon, evaluator.spent - spent, goal)
        notes = self._doubts_of(outcome, evaluator, baseline, epsilon)
        if outcome.chosen is None:
            return refused(outcome, evaluation, notes)
        point = outcome.chosen.point
        self._checked = trial.steps(point.steps, point.hysteresis)
        return Choice(self._checked, evaluation, notes)

    def _searched(
        self,
        trial: LatticeTrial,
        judge: Judge,
        epsilon: float,
        frozen: Collection[str],
        is_spent: Callable[[], bool],
    ) -> LatticeOutcome:
        """Search the steps of one commit: those of frozen weights only where no others keep the bound."""
        space, thorough = Steps(trial, self._numbers, frozen), not trial.parents
        last = Attempt(replace(space, holds=False), judge, epsilon, thorough)
        if space.begins_frozen:
            spared = self._numbers.spared * epsilon
            first = Attempt(space, partial(self._within, judge, spared), spared, thorough=True)
        else:
            first = Attempt(space, judge, epsilon, most=self._numbers.held_most)
        attempts = (first, last) if space.begins_frozen or space.held else (last,)
        return self._search.run(attempts, is_spent)

    def _within(self, judge: Judge, epsilon: float, point: LatticeChoice, *, whole: bool = False) -> Verdict:
        """Judge by a part of the bound."""
        verdict = judge(point, whole=whole)
        return replace(verdict, accepted=verdict.accepted and verdict.upper(self._numbers.errors) <= epsilon)

    def _doubts_of(
        self, outcome: LatticeOutcome | CubeOutcome, evaluator: Evaluator, baseline: Baseline, epsilon: float
    ) -> tuple[str, ...]:
        """Learn from the noise of a commit's evaluations, and return what there is to tell of them."""
        verdicts = [each.verdict for each in outcome.tested]
        evaluator.learn(verdicts, baseline, epsilon)
        doubts = self._noise.note(verdicts, baseline, epsilon), self._goal.doubt(baseline)
        return tuple(doubt for doubt in doubts if doubt is not None)

    def _budget(self, began: float, baseline: Baseline) -> Callable[[], bool]:
        """Return what is asked before each candidate of a commit: whether it may not be begun any more.

        Of a metric of zero no candidate can be told to keep the bound. Where no candidate is seen, one shows
        whether that is still so.
        """
        if baseline.is_zero:
            return lambda: True
        return _Once() if self._is_last or self._is_blind else lambda: self._is_blind or self._is_over(began)

    @property
    def _is_blind(self) -> bool:
        return self._evaluator is not None and self._evaluator.doubt is not None

    def _is_over(self, began: float) -> bool:
        return self._seconds is not None and perf_counter() - began >= self._seconds


class _Once:
    """False when it is first asked, then true."""

    def __init__(self) -> None:
        self._asked = False

    def __call__(self) -> bool:
        asked, self._asked = self._asked, True
        return asked


def bounded_moments(moments: MomentsConfig, epsilon: float) -> MomentsConfig:
    """Let moments that are left to the optimizer be chosen for a degradation."""
    return replace(moments, max_degradation=epsilon) if moments.is_auto else moments


def small_step(
    step: float | None, epsilon: float, settings: SearchSettings = SEARCH_DEFAULTS
) -> float | None:
    """Return the step of small tensors for a degradation; they are not searched.

    Up to 1 % their own share of it is kept the same: what their errors shift is the same for all data, and
    grows like the step.
    """
    if step is None:
        return None
    return step * min(max(epsilon, settings.least), settings.usual) / settings.usual


def evaluation_of(
    outcome: LatticeOutcome | CubeOutcome, baseline: Baseline, epsilon: float, spent: float, goal: Goal
) -> Evaluation:
    """Return what a commit records of a search."""
    best = outcome.chosen.verdict if outcome.chosen else None
    return Evaluation(
        bound=epsilon,
        baseline=baseline.value,
        degradation=best.degradation if best else None,
        standard_error=best.standard_error if best else None,
        candidates=len(outcome.tested),
        evaluations=spent,
        goal=goal,
    )


def refused(
    outcome: LatticeOutcome | CubeOutcome, evaluation: Evaluation, notes: tuple[str, ...] = ()
) -> Choice:
    """Return the choice of an exact commit, since nothing kept the bound, and what else there is to tell."""
    why = NO_SHARE if is_zero(evaluation.baseline) else "none could be tried"
    reasons = "; ".join(tested.verdict.reason for tested in outcome.tested) or why
    return Choice(None, evaluation, (f"{NO_CANDIDATE}: {reasons}", *notes))
