"""What chooses how the commits of a run are bounded, by the options it was given."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from mvcs.checkpoint import MODEL
from mvcs.commits import TableTrial
from mvcs.errors import UsageError, one_of, whole
from mvcs.inshrinkerator import (
    AXES,
    EMBEDDING_AXES,
    METRICS,
    ConfigurationCube,
    ConfigurationOutcome,
    ConfigurationSearch,
    Setting,
    config_of,
    setting_of,
)
from mvcs.quantize import (
    AUTO_TIER,
    USUAL_DEGRADATION,
    KMeansConfig,
    LatticeConfig,
    MomentsConfig,
    QuantizerOptions,
    moments_config,
    quantizer_config,
)
from mvcs.search import SEARCH_DEFAULTS, Baseline, Bound, SearchSettings, Verdict
from mvcs.train.choice.search import BoundingOptions, Choice, Chooser, Trials, bounded_moments
from mvcs.train.evaluation.call_evaluate import Evaluate, metric_of
from mvcs.train.evaluation.evaluator import Evaluator, Held, OnFailure, held
from mvcs.train.options import check_functions
from mvcs.train.sensitivity import Sensitivity
from mvcs.train.state.optimizers import innermost
from mvcs.train.state.stateful import ModelProvider, PartHolder

_logger = logging.getLogger("mvcs.train")

DEFAULT_BOUND: Final = USUAL_DEGRADATION
_MEASURING = BoundingOptions.__annotations__.keys() - QuantizerOptions.__annotations__.keys()

Method = Literal["lattice", "inshrinkerator"]

CUBE: Final = ConfigurationCube(AXES, METRICS)
FINEST: Final = CUBE.at(CUBE.top)


def chooser_of(
    model: object,
    optimizer: object,
    every: int | None,
    options: BoundingOptions,
    extra: Mapping[str, object] | None = None,
) -> Chooser:
    """Return what chooses by options.

    Args:
        model: what is evaluated.
        optimizer: what steps it.
        every: how many steps lie between commits, where that is known.
        options: as given.
        extra: further parts of the run.

    Raises:
        UsageError: options that do not go together, or one out of range.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    measuring = {name: given.pop(name) for name in _MEASURING & given.keys()}
    if not measuring:
        return Chooser(quantizer_config(**given))
    functions = _checked_functions(measuring)
    bound = Bound.asked(measuring.get("max_degradation", DEFAULT_BOUND), measuring.get("goal"))
    if not isinstance(model, nn.Module | ModelProvider):
        raise UsageError("evaluate needs a torch module", hint="pass the module itself as the model")
    evaluators = partial(_evaluators, {MODEL: model}, extra or {}, functions, measuring, bound)
    limits: dict[str, Any] = {
        "measure": measuring.get("measure"),
        "evaluations": measuring.get("search_evaluations"),
        "seconds": measuring.get("search_seconds"),
    }
    if measuring.get("method") == "inshrinkerator":
        return _inshrinkerator(model, optimizer, every, measuring, given, evaluators(), limits)
    if not given.keys() & {"step_size", "bins", "quantizer"}:
        given["step_size"] = LatticeConfig.step_size
    if "quantizer" not in given:
        given.setdefault("moments", AUTO_TIER)
    search = measuring.get("search_settings", SEARCH_DEFAULTS)
    config = quantizer_config(**given)
    return Chooser(config, evaluators(), mean=measuring.get("search_mean"), search=search, **limits)


def _checked_functions(measuring: Mapping[str, Any]) -> Mapping[str | tuple[str, ...], Evaluate]:
    """Return what measures parts of a run, by their names.

    Raises:
        UsageError: an option is out of range, or needs `evaluate`.
    """
    hint = "pass a function that measures the model"
    if "evaluate" not in measuring:
        raise UsageError(f"{min(measuring)} needs evaluate", hint=hint)
    one_of("method", measuring.get("method", "lattice"), get_args(Method))
    one_of("on_evaluation_failure", measuring.get("on_evaluation_failure", "exact"), get_args(OnFailure))
    evaluate = measuring["evaluate"]
    evaluate = evaluate if isinstance(evaluate, Mapping) else {MODEL: evaluate}
    if not evaluate:
        raise UsageError(f"evaluate cannot be {evaluate!r}", hint=hint)
    measure = measuring.get("measure", {})
    if not isinstance(measure, Mapping) or not all(isinstance(one, bool) for one in measure.values()):
        hint = 'say it of averages, as in measure={"extra.ema": False}'
        raise UsageError(f"measure cannot be {measure!r}", hint=hint)
    named = {"evaluate" if name == MODEL else f"evaluate of {name}": one for name, one in evaluate.items()}
    check_functions(named | {"replica": measuring.get("replica")}, ())
    if "search_batches" in measuring:
        whole("search_batches", measuring["search_batches"], "take 1 or more batches")
    settings = measuring.get("search_settings", SEARCH_DEFAULTS)
    if not isinstance(settings, SearchSettings):
        hint = "pass mvcs.search.SearchSettings()"
        raise UsageError(f"search_settings cannot be {settings!r}", hint=hint)
    return evaluate


def _evaluators(
    model: Mapping[str, nn.Module | ModelProvider],
    extra: Mapping[str, object],
    functions: Mapping[str | tuple[str, ...], Evaluate],
    measuring: Mapping[str, Any],
    bound: Bound,
) -> dict[str, Evaluator]:
    """Return what measures each part of a run, the model first.

    It says that commits will be lossy, and how much: who gave `evaluate` alone has not said so.

    Raises:
        UsageError: a name is none of a part of the run.
    """
    parts = {**model, **{f"extra.{name}": held(extra, name) for name in extra}}
    for name in measuring.get("measure", {}):
        one_of("measure", ".".join(name.split(".")[:2]), sorted(parts.keys() - {MODEL}))
    found = {}
    for key, function in functions.items():
        names = key if isinstance(key, tuple) else (key,)
        for index, name in enumerate(names):
            one_of("a part that evaluate measures", name, sorted(parts))
            is_alone = len(names) == 1
            found[name] = Evaluator(
                parts[name],
                function if is_alone else partial(metric_of, function, name, index),
                bound,
                batches=measuring.get("search_batches"),
                replica=measuring.get("replica") if is_alone and not isinstance(parts[name], Held) else None,
                on_failure=measuring.get("on_evaluation_failure", "exact"),
                settings=measuring.get("search_settings", SEARCH_DEFAULTS),
                given=[parts[other] for other in names],
            )
    most = bound.max_degradation
    _logger.info(
        "commits are bounded: what is restored may be worse than the original by max_degradation=%s%s",
        "as its function says" if callable(most) else f"{most:g}",
        "" if "max_degradation" in measuring else ", the default",
    )
    return dict(sorted(found.items(), key=lambda pair: pair[0] != MODEL))


def _inshrinkerator(
    model: nn.Module | ModelProvider,
    optimizer: object,
    every: int | None,
    measuring: Mapping[str, Any],
    given: Mapping[str, Any],
    evaluators: Mapping[str, Evaluator],
    limits: Mapping[str, Any],
) -> Chooser:
    if evaluators.keys() != {MODEL}:
        raise UsageError("method='inshrinkerator' measures the model alone", hint="pass evaluate=f")
    others = sorted((given.keys() - {"moments"}) | (measuring.keys() & {"search_mean", "search_settings"}))
    if others:
        raise UsageError(
            f"{others[0]} does not go with method='inshrinkerator'", hint="leave one of them out"
        )
    moments = moments_config(given.get("moments"))
    return InshrinkeratorChooser(evaluators[MODEL], model, optimizer, moments=moments, every=every, **limits)


def start_search(search: ConfigurationSearch, trial: TableTrial, metrics: Sequence[str] = METRICS) -> None:
    """Let weights with embeddings have an axis for them, and a search begin at the parent's setting."""
    search.cube = ConfigurationCube(EMBEDDING_AXES if trial.has_embeddings else AXES, metrics)
    if search.last is None and trial.before is not None:
        search.last = setting_of(trial.before)


class InshrinkeratorChooser(Chooser):
    """Chooses settings of k-means for each commit of a run.

    Scores are sensitivities where optimizers are torch's, or wrap one of torch's. At commits that fall
    outside the steps in which gradients are averaged, and for other optimizers, they are products of weights
    and first moments. So they are at the first commit of a model that a framework keeps: it is known then.

    Args:
        evaluator: measures candidates.
        model: whose gradients are averaged.
        optimizer: whose steps use them.
        moments: what is kept of the optimizer's moments.
        every: commits are made after every so many steps; None if that is not known. Then all gradients are
            averaged, not only those of the last steps before a commit.
        measure: see `Chooser`.
        evaluations: candidates at one commit, at most; None is as many as it takes.
        seconds: no further candidate of a commit is begun after so many.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        model: nn.Module | ModelProvider,
        optimizer: object,
        *,
        moments: MomentsConfig,
        every: int | None = None,
        measure: Mapping[str, bool] | None = None,
        evaluations: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self._moments, self._every = moments, every
        super().__init__(
            self._config(FINEST, {}),
            {MODEL: evaluator},
            measure=measure,
            evaluations=evaluations,
            seconds=seconds,
        )
        self._model, self._optimizer = model, optimizer
        self._sensitivities: list[Sensitivity] | None = None
        if isinstance(model, nn.Module):
            self._listen(-1)

    def close(self) -> None:
        """Give back what evaluations hold, and listen to the optimizer no longer."""
        super().close()
        for one in self._sensitivities or ():
            one.close()

    def _begin(self, evaluations: int | None, mean: float) -> None:  # noqa: ARG002 - it takes what it takes
        self._search = ConfigurationSearch(CUBE, evaluations)

    def _chosen(self, step: int, state: Mapping[str, Any], trials: Trials) -> Choice:
        scores: dict[str, NDArray[np.float32]] = {}
        for one in self._sensitivities or ():
            scores |= one.importance()
        self._listen(step)
        model, *others = self._parts(state)
        epsilon = model.evaluator.bound.epsilon(step)
        self._moments = bounded_moments(self._moments, epsilon)
        parts = {path: one.name for one in (model, *others) for path in one.tensors}
        trial = trials.table_trial(state, scores, parts)
        start_search(self._search, trial)
        beside = [(other, other.evaluator.baseline(step, other.own)) for other in others]

        def search(baseline: Baseline) -> ConfigurationOutcome:
            def judge(setting: Setting) -> Verdict:
                """Judge all parts by one setting: the worst of them counts, and the first that is refused."""
                values = trial.values(self._config(setting, scores))
                verdicts = list[Verdict]()
                for part, own in ((model, baseline), *beside):
                    verdicts.append(part.evaluator.judge(step, part.weights(values, model), own, whole=True))
                    if not verdicts[-1].accepted:
                        return verdicts[-1]
                return max(verdicts, key=lambda verdict: verdict.degradation)

            def stored(setting: Setting) -> int:
                return trial.stored(self._config(setting, scores))

            return self._search.run(stored, judge, self._budget(perf_counter(), baseline))

        found = self._measured(model, step, search, lambda: trial.values(self._config(FINEST, scores)))
        chosen = found.outcome.chosen if isinstance(found.outcome, ConfigurationOutcome) else None
        if chosen is None:
            return self._choice([found], None)
        choice = self._choice([found], self._config(chosen.setting, scores))
        # What an unchecked commit takes, when there may be no scores.
        self._checked, self._checked_parts = self._config(chosen.setting, {}), parts
        return replace(choice, importance=scores, parts=parts)

    def _config(self, setting: Setting, scores: Mapping[str, ArrayLike]) -> KMeansConfig:
        return config_of(setting, "sensitivity" if scores else "momentum", self._moments)

    def _listen(self, step: int) -> None:
        """Average the gradients before the next commit, of optimizers that are there by now."""
        if self._sensitivities is None:
            model = self._model if isinstance(self._model, nn.Module) else self._model.module()
            inside = self._optimizer
            parts = inside.parts_inside().values() if isinstance(inside, PartHolder) else (inside,)
            found = (innermost(part) for part in parts)
            self._sensitivities = [Sensitivity(model, one) for one in found if one is not None]
        for one in self._sensitivities:
            if self._every is not None:
                one.expect(self._every - (step + 1) % self._every)
