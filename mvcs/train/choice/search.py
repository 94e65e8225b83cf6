"""Choosing how a commit is bounded: by the user's own evaluation of what would be restored."""

import heapq
import itertools
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import fmean
from time import perf_counter
from typing import Any, Final, Literal, Protocol

import torch
from numpy.typing import ArrayLike
from torch import nn

from mvcs.checkpoint import MODEL, CapturedLeaf
from mvcs.commits import LatticeTrial, RestoredValues, TableTrial
from mvcs.errors import EvaluationError, MvcsError, UsageError, real, some_of, whole
from mvcs.inshrinkerator import ConfigurationOutcome
from mvcs.objects import STEP_BYTES, STEPS_PER_OCTAVE, Path, element_count, path_text
from mvcs.quantize import UNPACED, LatticeConfig, MomentsConfig, QuantizerConfig, QuantizerOptions
from mvcs.search import (
    NO_SHARE,
    SEARCH_DEFAULTS,
    Attempt,
    Baseline,
    Bound,
    Evaluation,
    ForgottenGoal,
    Goal,
    LatticeChoice,
    LatticeOutcome,
    LatticeSearch,
    SamplingNoise,
    SearchSettings,
    StepCost,
    Verdict,
    error_of,
    is_zero,
    undecided,
)
from mvcs.train.evaluation.call_evaluate import Evaluate, described
from mvcs.train.evaluation.evaluator import Evaluator
from mvcs.train.evaluation.live_tensors import Weights, averages_of, tensors_of
from mvcs.train.evaluation.model_swap import ModelLostError

_logger = logging.getLogger("mvcs.train")

_NAMED: Final = 6
_RARELY: Final = 16  # commits between looks at whether an evaluation sees what it is given
LAST_SECONDS: Final = 10.0
"""A run that was told to end judges a candidate where that takes less.

Schedulers leave 30 seconds and more between SIGTERM and SIGKILL, in which the commit is written as well.
"""
NO_CANDIDATE: Final = "exact, since no candidate kept the bound"
Outcome = LatticeOutcome | ConfigurationOutcome
_ENDED = "the run was told to end (SIGTERM)"
_NO_TIME = f"{_ENDED}, and nothing tells that {LAST_SECONDS:g} seconds are enough to judge a candidate"
_ONE_TRIED = f"exact, since {_ENDED}, which left time for one candidate"


@dataclass(frozen=True)
class Steps:
    """The steps that can be chosen at one commit, as the search sees them.

    Attributes:
        trial: of the state.
        settings: what the search goes by.
        frozen: paths of parameters that are not trained.
        holds: whether weights that did not change since the parent keep their steps.
        within: paths of the weights whose steps are chosen; None for all.
        hysteresis: the one that the steps of other weights were chosen with; None where none were.
        factors: of the errors of layer types, as evaluations of each alone told; empty before them.
    """

    trial: LatticeTrial
    settings: SearchSettings = SEARCH_DEFAULTS
    frozen: Collection[Path] = ()
    holds: bool = True
    within: Container[Path] | None = None
    hysteresis: float | None = None
    factors: dict[str, float] = field(default_factory=dict)

    @cached_property
    def kinds(self) -> Mapping[str, Sequence[CapturedLeaf]]:
        """The weights by layer type, of which each is of one part of the state."""
        own = self.within
        return {
            kind: leaves for kind, leaves in self.trial.kinds.items() if own is None or leaves[0].path in own
        }

    @cached_property
    def held(self) -> frozenset[str]:
        """The layer types whose steps stay, since their weights are frozen."""
        return self.trial.held.intersection(self.kinds) if self.holds else frozenset()

    @cached_property
    def starts(self) -> Mapping[str, int]:
        """The parent's step byte of each layer type, else the one that the settings give."""
        return {kind: self._start(kind, self.trial.starts[kind]) for kind in self.kinds}

    def _start(self, kind: str, own: int) -> int:
        if kind in self.held:
            return own
        parent = self.trial.parents.get(kind)
        if parent is None:
            return min(own, self.coarsest[kind])
        # A model that has not learned anything, or no longer does, does not mind any step.
        octaves = math.ceil(max(parent - self.coarsest[kind], 0) / STEPS_PER_OCTAVE)
        return parent - octaves * STEPS_PER_OCTAVE

    @cached_property
    def settled(self) -> Container[str]:
        """The layer types most of whose codes stay what they are as long as their step does."""
        hysteresis, found = max(self.hystereses), set()
        for kind in self.kinds.keys() & self.trial.parents.keys():
            weights = sum(element_count(leaf.shape) for leaf in self.kinds[kind])
            if 8 * self.cost(kind, self.starts[kind], hysteresis).stored < self.settings.settled * weights:
                found.add(kind)
        return found

    @cached_property
    def coarsest(self) -> Mapping[str, int]:
        """Four times what the settings give: larger ones leave most weights zero."""
        most = self.settings.coarser
        return {kind: min(self.trial.starts[kind] + most, STEP_BYTES - 1) for kind in self.kinds}

    @property
    def hystereses(self) -> Sequence[float]:
        """Those up to what the settings allow; the largest and none where codes that are kept keep pace.

        At the same quality those take fewer bytes than the nearest, but where weights move by more than a
        step between two commits, as at a high learning rate: there hardly any code is kept.
        """
        if self.hysteresis is not None:
            return (self.hysteresis,)
        earlier, most, known = self.trial.earlier, self.trial.config.hysteresis, self.settings.hystereses
        if earlier is None or not self.trial.parents:
            return (0.0,)
        most = most if earlier.drifts else min(most, UNPACED)
        allowed = tuple(hysteresis for hysteresis in known if hysteresis <= most)
        return tuple(dict.fromkeys((allowed[0], 0.0))) if earlier.drifts else allowed

    def cost(self, kind: str, step: int, hysteresis: float) -> StepCost:
        """Return what a step means for a layer type."""
        tried = self.trial.tried(kind, step, hysteresis)
        return StepCost(tried.stored, tried.loss * self.factors.get(kind, 1.0))

    def weigh(
        self, judge: Callable[[LatticeChoice], Verdict], is_spent: Callable[[], bool] = lambda: False
    ) -> None:
        """Evaluate layer types one by one, where nothing tells how much quality minds an error of which.

        From then on their errors count by the degradation that each brought alone, at the step that it starts
        with. That is so at a first commit whose state has no moments.

        Args:
            judge: evaluates a point.
            is_spent: tells that no further one may be evaluated: then errors count as before.
        """
        has_parent = not self.trial.parents.keys().isdisjoint(self.kinds)
        if self.trial.gradients or self.factors or has_parent or len(self.kinds) < 2:
            return
        finest = {kind: max(step - self.settings.farthest, 0) for kind, step in self.starts.items()}
        found = dict[str, float]()
        count = {
            kind: sum(element_count(leaf.shape) for leaf in leaves) for kind, leaves in self.kinds.items()
        }
        for kind in heapq.nlargest(self.settings.alone, count, key=count.__getitem__):
            if is_spent():
                return
            if error := self.cost(kind, self.starts[kind], 0.0).error:
                verdict = judge(LatticeChoice({**finest, kind: self.starts[kind]}, 0.0))
                # Of what is smaller than its noise nothing is known but that.
                lost = max(verdict.degradation, verdict.standard_error or 0.0)
                found[kind] = min(lost, self.settings.worst) / error
        least = self.settings.slight * max(found.values(), default=0.0)
        if not least > 0:
            return
        known = {kind: max(one, least) for kind, one in found.items()}
        typical = math.exp(fmean(map(math.log, known.values())))
        # As before, an error of 1 stands for all weights becoming zero.
        unit = sum(known.get(kind, typical) * one for kind, one in count.items()) / sum(count.values())
        self.factors.update({kind: known.get(kind, typical) / unit for kind in count})

    @property
    def begins_frozen(self) -> bool:
        """Whether this is a first commit, and some of its weights are never trained."""
        paths = (leaf.path for leaves in self.kinds.values() for leaf in leaves)
        return self.trial.parents.keys().isdisjoint(self.kinds) and any(path in self.frozen for path in paths)


@dataclass(frozen=True)
class Part:
    """A part of a state that is measured by itself.

    Attributes:
        name: "model", or as "extra.ema".
        evaluator: measures it.
        place: where its state stands in that of the run.
        tensors: of it, by path in the state of the run.
        names: of an average, which the model's own evaluation measures: the parameter or buffer of the model
            that each tensor is loaded into; None where the tensors are those of the evaluated object.
    """

    name: str
    evaluator: Evaluator
    place: Path
    tensors: Mapping[Path, torch.Tensor]
    names: Mapping[Path, str] | None = None

    @cached_property
    def own(self) -> Weights | None:
        """What is evaluated as it was handed over; None where the evaluated object holds it."""
        inner = {path[len(self.place) :]: path for path in self.tensors} if self.names is None else {}
        names = self.names or {inner[path]: name for path, name in self.evaluator.copies(inner).items()}
        live = self.evaluator.live
        return {name: self.tensors[path].to(live[name].dtype) for path, name in names.items()} or None

    @cached_property
    def frozen(self) -> frozenset[Path]:
        """The paths of parameters that are not trained."""
        untrained, names = self.evaluator.frozen, self.names or {}
        return frozenset(path for path in self.tensors if names.get(path, path[-1]) in untrained)

    def weights(self, restored: RestoredValues, model: "Part | None" = None) -> "RestoredWeights":
        """Return what a commit would restore, as it is evaluated.

        Args:
            restored: what a commit would restore of the whole state.
            model: where that is restored bounded too: an average gets from it what it does not have itself.

        Raises:
            UsageError: a value that would be another one is not that of a parameter or buffer.
        """
        own, live = self.own or {}, self.evaluator.live
        beside = model._places(restored) if model is not None and self.names is not None else {}  # noqa: SLF001
        places = {name: path for name, path in beside.items() if name not in own} | self._places(restored)
        return RestoredWeights(restored, places, own, live)

    def _places(self, restored: RestoredValues) -> dict[str, Path]:
        if self.names is not None:
            return {name: path for path, name in self.names.items() if path in restored}
        inner = {path[len(self.place) :]: path for path in restored if path in self.tensors}
        found = self.evaluator.names(inner)
        for inside, path in inner.items():
            if inside not in found and restored.content(path) != bytes(restored.leaf(path).source.read()):
                raise UsageError(
                    f"the {self.name} has no ordinary parameter or buffer '{path_text(inside)}'",
                    hint="let its state_dict() hold its own tensors, not copies of them",
                )
        return {name: inner[inside] for inside, name in found.items()}


@dataclass(frozen=True)
class RestoredWeights(Mapping[str, torch.Tensor]):
    """Restored values of parameters and buffers by name, each made when it is asked for.

    Attributes:
        restored: of all leaves of a state.
        places: of those that are restored from codes, by name.
        exact: the values of others.
        live: the parameters and buffers that they are written into, whose dtypes they get.
    """

    restored: RestoredValues
    places: Mapping[str, Path]
    exact: Weights = field(default_factory=dict)
    live: Weights = field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.places.keys() | self.exact.keys())

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter({**self.exact, **self.places})

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return the values in the shape of the leaf."""
        if name not in self.places:
            return self.exact[name]
        path = self.places[name]
        leaf = self.restored.leaf(path)
        value = torch.from_numpy(self.restored[path]).reshape(leaf.shape)
        # An average may be of another type than the model: it is loaded as a checkout gives it.
        return value.to(getattr(torch, leaf.dtype.name)).to(self.live[name].dtype)


class BoundingOptions(QuantizerOptions, total=False):
    """How commits are bounded: by settings, or by measured quality where `evaluate` is given.

    Attributes:
        evaluate: given the model, returns a number, or yields (sum, count) for each batch (docs/tuning.md).
            Then every commit is checked by it, and what it does not measure is kept exactly. Averages of the
            model are measured as it is. For several parts a dict: {"model": f, "extra.teacher": g}.
        measure: {"extra.ema": False} does not measure an average of the model, and keeps it exactly.
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

    evaluate: Evaluate | Mapping[str | tuple[str, ...], Evaluate] | None
    measure: Mapping[str, bool] | None
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
        parts: the part that each leaf is measured in, by path; None where nothing is measured.
        told: what each part of the state gets; empty where there is the model alone.
        failure: why its quality could not be measured, on one line; None where it was, or was not to be.
        lost: choosing left other weights in the model, which must not be trained any further.
    """

    quantizer: QuantizerConfig | None
    evaluation: Evaluation | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    evaluations: float = 0.0
    importance: Mapping[str, ArrayLike] = field(default_factory=dict)
    parts: Mapping[Path, str] | None = None
    told: str = ""
    failure: str | None = None
    lost: ModelLostError | None = None


class Trials(Protocol):
    """Tries out what the next commit of a run could be."""

    def trial(
        self,
        state: object,
        settings: LatticeConfig,
        gradients: Mapping[Path, float],
        parts: Mapping[Path, str],
    ) -> LatticeTrial:
        """Return a trial of steps from some settings on; see `mvcs.commits.LatticeTrial`."""
        ...

    def table_trial(
        self, state: object, importance: Mapping[str, ArrayLike], parts: Mapping[Path, str]
    ) -> TableTrial:
        """Return a trial of code tables, with scores of weights."""
        ...


class Chooser:
    """Chooses how each commit of a run is bounded, and learns from one to the next.

    Args:
        settings: of all commits; with evaluators those the search begins with.
        evaluators: measure candidates of parts of the state, by the parts' names; none bounds all alike.
        measure: whether averages of the model are measured as it is, by name; all are by default.
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
        evaluators: Mapping[str, Evaluator] | None = None,
        *,
        measure: Mapping[str, bool] | None = None,
        evaluations: int | None = None,
        mean: float | None = None,
        seconds: float | None = None,
        search: SearchSettings = SEARCH_DEFAULTS,
    ) -> None:
        self._settings = self._checked = settings
        self._numbers = search
        self._evaluators, self._measure = dict(evaluators or {}), measure or {}
        self._evaluator = evaluator = next(iter(self._evaluators.values()), None)
        self._checked_parts: Mapping[Path, str] | None = None
        self._averages, self._is_told = set[str](), False
        self._unused = set[tuple[str, Path]]()
        self._finer = False
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
        self._goal, self._looked = ForgottenGoal(evaluator.bound), Counter[str]()
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
        self._searches = defaultdict[str, LatticeSearch](
            lambda: LatticeSearch(most=most, mean=mean, settings=self._numbers)
        )

    @property
    def searches(self) -> bool:
        """Whether commits are chosen by evaluation."""
        return self._evaluator is not None

    def close(self) -> None:
        """Give back what evaluations hold."""
        for evaluator in self._evaluators.values():
            evaluator.close()

    def watch(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        """Run each evaluation in a context."""
        for evaluator in self._evaluators.values():
            evaluator.around = around

    def unmeasured(self) -> Choice:
        """Return how to commit without a search: by the settings, or exactly if those are to be checked."""
        return Choice(None if self.searches else self._settings)

    @property
    def is_quick(self) -> bool:
        """Whether the searches so far tell that a baseline and one candidate take a few seconds."""
        return self._spent > 0 and 2 * self._took / self._spent < LAST_SECONDS

    @property
    def _spent(self) -> float:
        return sum(evaluator.spent for evaluator in self._evaluators.values())

    def ended(self) -> Choice:
        """Return how to commit when a run was told to end and there is no time to search: exactly."""
        return Choice(None, notes=(f"exact, since {_NO_TIME}",), failure=_NO_TIME)

    def choose(self, step: int, state: Mapping[str, Any], trials: Trials, *, is_last: bool = False) -> Choice:
        """Search how the state after `step` is committed; the model in training holds it.

        Whatever goes wrong, in the evaluation or on its device, costs the search alone: then the commit is
        exact, or unchecked as configured.

        Args:
            step: for messages, and for bounds that follow a schedule.
            state: a copy of it.
            trials: of what the commit could be.
            is_last: the run was told to end: one candidate is judged, and where it is refused the commit is
                exact.
        """
        evaluator = self._evaluator
        if evaluator is None:
            return self.unmeasured()
        began, spent, self._is_last = perf_counter(), self._spent, is_last
        try:
            found = None
            while found is None:
                with suppress(_UnusedError):  # from now on these weights are left out
                    found = self._chosen(step, state, trials)
            choice = replace(found, told=self._told(found, state.get("extra") or {}))
        except Exception as error:  # noqa: BLE001 - devices raise RuntimeError and kinds of their own
            choice = self._unsearched(evaluator, error, state)
        seconds = perf_counter() - began
        self._took += seconds
        if is_last and choice.quantizer is None and choice.failure is None:
            choice = replace(choice, notes=(_ONE_TRIED, *choice.notes))
        return replace(choice, seconds=seconds, evaluations=self._spent - spent)

    def _told(self, choice: Choice, extra: Mapping[str, object]) -> str:
        """Return what each part of a state gets, as a commit records it, and tell it once."""
        found = dict.fromkeys({*(choice.parts or {}).values()}, "measured")
        for entry, value in extra.items():
            has_weights = any(one.is_floating_point() and one.dim() for _, one in tensors_of(value, ()))
            if has_weights and not any(f"{name}.".startswith(f"extra.{entry}.") for name in found):
                is_optimizer = isinstance(value, Mapping) and "param_groups" in value
                found[f"extra.{entry}"] = "as moments says" if is_optimizer else "exact"
        others = sorted(found.keys() - {MODEL})
        if not others:
            return ""
        if not self._is_told:
            self._is_told = True
            each = [
                f"{name}: {self._explained(name, what)}" for name, what in sorted(found.items(), reverse=True)
            ]
            _logger.info("what each part gets, by what evaluate measures: %s", "; ".join(each))
        return "; ".join(f"{name}: {what}" for name, what in sorted(found.items()))

    def _explained(self, name: str, what: str) -> str:
        if what == "exact":
            return f'exact, as nothing measures it; evaluate={{"model": f, "{name}": g}} does'
        if name in self._evaluators or what != "measured":
            return f"bounded, {what}"
        return (
            "bounded, measured by the evaluation of the model, which takes as many evaluations again; "
            f'measure={{"{name}": False}} keeps it exactly instead'
        )

    def _unsearched(self, evaluator: Evaluator, error: Exception, state: Mapping[str, Any]) -> Choice:
        is_blind = isinstance(error, BlindError)
        if is_blind:  # what was learnt from such an evaluation is forgotten
            self._checked, self._checked_parts = self._settings, None
            self._begin(*self._limits)
        unchecked = evaluator.on_failure == "unchecked" and not is_blind
        became = "bounded without being checked" if unchecked else "exact"
        why = error.message if isinstance(error, MvcsError) else described(error)
        lost = error if isinstance(error, ModelLostError) else None
        settings, parts = (self._checked, self._checked_parts) if unchecked else (None, None)
        if settings is not None and parts is None:
            name = next(iter(self._evaluators))
            parts = dict.fromkeys(dict(tensors_of(*_within_state(state, name))), name)
        measured = error.baseline if isinstance(error, BlindError) else None
        notes = (f"{became}, since {why}",)
        return Choice(settings, measured, notes, parts=parts, failure=why, lost=lost)

    def _parts(self, state: Mapping[str, Any]) -> list[Part]:
        """Return the parts of a state that are measured: those with an evaluation, then averages.

        Once a run was told to end there is time for the first alone.
        """
        parts, unused = [], dict(self._unused)
        for name, evaluator in self._evaluators.items():
            value, place = _within_state(state, name)
            if value is not None:  # as it is of a commit of weights alone
                used = {path: one for path, one in tensors_of(value, place) if path not in unused.values()}
                parts.append(Part(name, evaluator, place, used))
        if self._is_last or MODEL not in self._evaluators:
            return parts[:1] if self._is_last else parts
        others = {*self._evaluators} | {name for name, wanted in self._measure.items() if not wanted}
        model, wanted = self._evaluators[MODEL], self._averages | {*self._measure}
        tensors = dict(tensors_of(state.get("extra"), ("extra",)))
        for name, names in averages_of(model.module, state.get("extra") or {}, wanted).items():
            if not any(f"{name}.".startswith(f"{other}.") for other in others):
                own = {path: other for path, other in names.items() if other not in unused}
                parts.append(Part(name, model, (), {path: tensors[path] for path in own}, own))
                self._averages.add(name)
        return parts

    def _chosen(self, step: int, state: Mapping[str, Any], trials: Trials) -> Choice:
        settings, evaluator = self._settings, next(iter(self._evaluators.values()))
        if not isinstance(settings, LatticeConfig):
            return self.unmeasured()
        epsilon = evaluator.bound.epsilon(step)
        settings = replace(
            settings,
            moments=bounded_moments(settings.moments, epsilon),
            small=small_step(settings.small, epsilon, self._numbers),
        )
        settings = _finer_small(settings) if self._finer else settings
        parts = self._parts(state)
        if not parts:
            return Choice(None)
        own = {path: one.name for one in parts for path in one.tensors}
        trial = trials.trial(state, settings, self._gradients, own)
        # A commit of weights alone has no optimizer to ask.
        self._gradients = trial.gradients
        chosen, found = _Chosen(trial), list[Found]()
        for part in parts:
            search = partial(self._searched, part, step, epsilon, chosen)
            restored = partial(trial.values, chosen.config)
            found.append(self._measured(part, step, search, restored))
        return self._choice(found, chosen.config)

    def _measured(
        self,
        part: Part,
        step: int,
        search: Callable[[Baseline], Outcome],
        restored: Callable[[], RestoredValues],
    ) -> "Found":
        """Return what a search finds for a part; what fails is kept exactly, and raised of the first part.

        Raises:
            EvaluationError: the evaluation of the first part failed.
            UsageError: or gave nothing to compare with.
            BlindError: or does not see what it is given.
        """
        evaluator, spent = part.evaluator, part.evaluator.spent
        try:
            baseline = evaluator.baseline(step, part.own)
            self._looked[part.name] += 1
            looks = not self._is_last and self._looked[part.name] % _RARELY == 1
            if looks and not baseline.is_zero:
                self._refuse_blind(part, step, baseline, restored())
            outcome = search(baseline)
        except (BlindError, EvaluationError, UsageError) as error:
            if part.name == next(iter(self._evaluators)):
                raise
            return Found(part, None, None, notes=(f"{part.name} is kept exactly, since {error.message}",))
        epsilon, goal = evaluator.bound.epsilon(step), evaluator.bound.goal
        evaluation = evaluation_of(outcome, baseline, epsilon, evaluator.spent - spent, goal)
        verdicts = [each.verdict for each in outcome.tested]
        evaluator.learn(verdicts, baseline, epsilon)
        doubts = self._noise.note(verdicts, baseline, epsilon), self._goal.doubt(baseline)
        return Found(part, outcome, evaluation, tuple(doubt for doubt in doubts if doubt is not None))

    def _refuse_blind(self, part: Part, step: int, baseline: Baseline, restored: RestoredValues) -> None:
        """Look whether an evaluation sees what it is given, at the first commit and now and then.

        Raises:
            BlindError: it does not.
            _UnusedError: it does not use some weights.
        """
        weights = part.weights(restored)
        doubt = part.evaluator.look_for_blindness(step, baseline, weights, part.own)
        if doubt is not None:
            self._looked[part.name] = 0
            asked = self._goal.doubt(baseline)  # by the wrong goal, what is bad is better
            doubt = f"{doubt}; {asked}" if asked else doubt
            raise BlindError(doubt, baseline, part.evaluator.bound)
        unused = part.evaluator.unused(step, baseline, weights, part.own)
        if unused:
            found = {name: weights.places[name] for name in unused & weights.places.keys()}
            self._unused |= found.items()
            some = some_of(sorted(found), _NAMED)
            _logger.warning("evaluate does not use %s: they are kept exactly", some)
            raise _UnusedError

    def _searched(
        self, part: Part, step: int, epsilon: float, chosen: "_Chosen", baseline: Baseline
    ) -> LatticeOutcome:
        """Search the steps of a part beside those that are chosen: of frozen weights where no others do."""
        tried: list[tuple[float, Verdict]] = []

        def judge(point: LatticeChoice, *, whole: bool = False) -> Verdict:
            weights = part.weights(chosen.trial.values(chosen.with_point(point)), chosen.model)
            # There is no time for a verdict that would have to be confirmed.
            verdict = part.evaluator.judge(step, weights, baseline, whole=whole or self._is_last)
            tried.append((error_of(space, point), verdict))
            if not self._finer and _is_floor(tried, self._numbers.errors):
                self._finer = True
                if not chosen.steps:  # parts that were measured keep what they were measured with
                    chosen.trial.config = _finer_small(chosen.trial.config)
            return verdict

        def spare(point: LatticeChoice, *, whole: bool = False) -> Verdict:
            """Judge by a part of the bound."""
            verdict = judge(point, whole=whole)
            keeps = verdict.upper(self._numbers.errors) <= spared
            return replace(verdict, accepted=verdict.accepted and keeps)

        trial, began, spared = chosen.trial, perf_counter(), self._numbers.spared * epsilon
        space = Steps(trial, self._numbers, part.frozen, within=part.tensors, hysteresis=chosen.hysteresis)
        thorough = trial.parents.keys().isdisjoint(space.kinds)
        if thorough and self._searches[part.name].most >= self._numbers.enough and not self._is_last:

            def alone(point: LatticeChoice) -> Verdict:
                weights = part.weights(trial.values(chosen.with_point(point)), chosen.model)
                return part.evaluator.judge(step, weights, baseline)

            space.weigh(alone, self._budget(began, baseline))
        last = Attempt(replace(space, holds=False), judge, epsilon, thorough)
        if space.begins_frozen:
            first = Attempt(space, spare, spared, thorough=True)
        else:
            first = Attempt(space, judge, epsilon, most=self._numbers.held_most)
        attempts = (first, last) if space.begins_frozen or space.held else (last,)
        outcome = self._searches[part.name].run(attempts, self._budget(began, baseline))
        if outcome.chosen is not None:
            chosen.add(part, outcome.chosen.point)
        return outcome

    def _choice(self, found: Sequence["Found"], config: QuantizerConfig | None) -> Choice:
        """Return how a commit is bounded by what was found of its parts."""
        notes = [note for one in found for note in one.notes]
        bounded = [one for one in found if one.is_bounded]
        evaluation = combined(found)
        reasons = [(one, one.reasons) for one in found if one.outcome and not one.is_bounded]
        if not bounded:
            return Choice(None, evaluation, (f"{NO_CANDIDATE}: {reasons[0][1]}", *notes))
        notes += [
            f"{one.part.name} is kept exactly, since no candidate kept the bound: {why}"
            for one, why in reasons
        ]
        own = {path: one.part.name for one in bounded for path in one.part.tensors}
        self._checked, self._checked_parts = config, own
        return Choice(config, evaluation, tuple(notes), parts=own)

    def _budget(self, began: float, baseline: Baseline) -> Callable[[], bool]:
        """Return what is asked before each candidate of a part: whether it may not be begun any more.

        Of a metric of zero no candidate can be told to keep the bound.
        """
        most = 0 if baseline.is_zero else 1 if self._is_last else math.inf
        seconds = math.inf if self._is_last or self._seconds is None else self._seconds
        asked = itertools.count()
        return lambda: next(asked) >= most or perf_counter() - began >= seconds


class BlindError(MvcsError):
    """An evaluation does not see what it is given; what it gave for the original is still the metric."""

    def __init__(self, doubt: str, baseline: Baseline, bound: Bound) -> None:
        super().__init__(doubt)
        self.baseline = Evaluation(0.0, baseline.value, None, None, 0, 1.0, bound.goal)


class _UnusedError(Exception):
    """An evaluation does not use some weights, which was not known."""


@dataclass(frozen=True)
class Found:
    """What a search found of one part of a state.

    Attributes:
        part: which.
        outcome: what was chosen; None where the part could not be measured.
        evaluation: of what was chosen.
        notes: what to tell the user.
    """

    part: Part
    outcome: Outcome | None
    evaluation: Evaluation | None
    notes: tuple[str, ...] = ()

    @property
    def is_bounded(self) -> bool:
        """Whether something kept the bound."""
        return self.outcome is not None and self.outcome.chosen is not None

    @property
    def reasons(self) -> str:
        """Why nothing did."""
        tested = self.outcome.tested if self.outcome else ()
        is_none = self.evaluation is not None and is_zero(self.evaluation.baseline)
        why = NO_SHARE if is_none else "none could be tried"
        return "; ".join(each.verdict.reason for each in tested) or why


@dataclass
class _Chosen:
    """The steps that are chosen so far, part by part.

    Attributes:
        trial: of the state.
        steps: of the layer types.
        hysteresis: that they were chosen with; None before the first.
        model: the model, once its steps are chosen.
    """

    trial: LatticeTrial
    steps: dict[str, int] = field(default_factory=dict)
    hysteresis: float | None = None
    model: Part | None = None

    def add(self, part: Part, point: LatticeChoice) -> None:
        self.steps.update(point.steps)
        self.hysteresis = point.hysteresis
        self.model = part if part.name == MODEL else self.model

    def with_point(self, point: LatticeChoice) -> LatticeConfig:
        return self.trial.steps({**self.steps, **point.steps}, point.hysteresis)

    @property
    def config(self) -> LatticeConfig:
        """The settings of the commit."""
        hysteresis = self.trial.config.hysteresis if self.hysteresis is None else self.hysteresis
        return self.trial.steps(self.steps, hysteresis)


def _within_state(state: Mapping[str, Any], name: str) -> tuple[object, Path]:
    """Return a part of a run's state by its name, and its place."""
    if name == MODEL:
        return state.get(MODEL), (MODEL,)
    entry = name.removeprefix("extra.")
    return (state.get("extra") or {}).get(entry), ("extra", entry)


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


def _finer_small(settings: LatticeConfig) -> LatticeConfig:
    """Return the settings of a run where the usual step of small tensors alone costs too much."""
    return replace(settings, small=settings.small and settings.small / 8)


def _is_floor(tried: Sequence[tuple[float, Verdict]], errors: float) -> bool:
    """Tell whether finer steps of weights mend nothing, so that the rounding of small tensors is refused.

    Noise falls like the root of the error, and degradation faster: both to less than half at an eighth of it.

    Args:
        tried: the error of the weights of each point, in order, and its verdict.
        errors: standard errors that a verdict adds to the mean.
    """
    error, verdict = tried[-1]
    return all(not one.accepted for _, one in tried) and any(
        error < before / 8 and verdict.upper(errors) > one.upper(errors) / 2 for before, one in tried
    )


def evaluation_of(
    outcome: Outcome, baseline: Baseline, epsilon: float, spent: float, goal: Goal
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
        undecided=undecided([each.verdict for each in outcome.tested], epsilon),
    )


def combined(found: Sequence[Found]) -> Evaluation:
    """Return what a commit records of its parts: the worst of them, and each by its name."""
    measured = {one.part.name: one.evaluation for one in found if one.evaluation is not None}
    first, *others = measured.values()
    if not others:
        return first
    known = [one for one in measured.values() if one.degradation is not None]
    worst = max(known, key=lambda one: one.degradation or 0.0, default=first)
    return replace(
        worst,
        baseline=first.baseline,
        goal=first.goal,
        candidates=sum(one.candidates for one in measured.values()),
        evaluations=sum(one.evaluations for one in measured.values()),
        parts=measured,
    )
