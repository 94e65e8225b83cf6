"""What chooses how the commits of a run are bounded, by the options it was given."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, get_args

from torch import nn

from mvcs.checkpoint import MODEL
from mvcs.errors import UsageError, one_of, whole
from mvcs.quantize import (
    AUTO_TIER,
    USUAL_DEGRADATION,
    LatticeConfig,
    QuantizerOptions,
    moments_config,
    quantizer_config,
)
from mvcs.search import SEARCH_DEFAULTS, Bound, SearchSettings
from mvcs.train.checks import check_functions
from mvcs.train.choice.published.cube_chooser import PublishedChooser
from mvcs.train.choice.search import BoundingOptions, Chooser
from mvcs.train.evaluation.call_evaluate import Evaluate, metric_of
from mvcs.train.evaluation.evaluator import Evaluator, Held, OnFailure, held
from mvcs.train.state.stateful import ModelProvider

_logger = logging.getLogger("mvcs.train")

DEFAULT_BOUND: Final = USUAL_DEGRADATION
_MEASURING = BoundingOptions.__annotations__.keys() - QuantizerOptions.__annotations__.keys()

Method = Literal["lattice", "inshrinkerator"]


@dataclass(frozen=True)
class Measurement:
    """How the quality of commits is measured, and how much a search may take.

    Attributes:
        evaluate: measures a part of a run, by its name, or several together.
        measure: whether an average of the model is measured, by its name.
        method: how commits are bounded by it.
        bound: what degradation is, and how much of it is accepted.
        is_default: whether nobody said how much.
        replica: makes a model to evaluate in another process; None to evaluate here.
        on_failure: what becomes of a commit that could not be measured.
        batches: of the evaluation, that are taken at first; None for all.
        evaluations: candidates at one commit, at most.
        mean: evaluations a commit on average.
        seconds: no further candidate of a commit is begun after so many.
        settings: what else the search goes by; None for the usual.
    """

    evaluate: Mapping[str | tuple[str, ...], Evaluate]
    measure: Mapping[str, bool]
    method: Method
    bound: Bound
    is_default: bool
    replica: Callable[[], nn.Module] | None
    on_failure: OnFailure
    batches: int | None
    evaluations: int | None
    mean: float | None
    seconds: float | None
    settings: SearchSettings | None

    @classmethod
    def of(cls, options: BoundingOptions) -> "Measurement | None":
        """Take what measures out of options; None where nothing does.

        Raises:
            UsageError: one is out of range, or needs `evaluate`.
        """
        given: dict[str, Any] = {
            name: value for name, value in options.items() if name in _MEASURING and value is not None
        }
        if not given:
            return None
        if "evaluate" not in given:
            hint = "pass a function that measures the model"
            raise UsageError(f"{min(given)} needs evaluate", hint=hint)
        method, on_failure = given.get("method", "lattice"), given.get("on_evaluation_failure", "exact")
        one_of("method", method, get_args(Method))
        one_of("on_evaluation_failure", on_failure, get_args(OnFailure))
        evaluate = given["evaluate"] if isinstance(given["evaluate"], Mapping) else {MODEL: given["evaluate"]}
        if not evaluate:
            raise UsageError(
                f"evaluate cannot be {evaluate!r}", hint="pass a function that measures the model"
            )
        functions = {
            "evaluate" if name == MODEL else f"evaluate of {name}": one for name, one in evaluate.items()
        }
        measure = given.get("measure", {})
        is_known = isinstance(measure, Mapping) and all(isinstance(one, bool) for one in measure.values())
        if not is_known:
            hint = 'say it of averages, as in measure={"extra.ema": False}'
            raise UsageError(f"measure cannot be {measure!r}", hint=hint)
        check_functions(functions | {"replica": given.get("replica")}, ())
        if "search_batches" in given:
            whole("search_batches", given["search_batches"], "take 1 or more batches")
        settings = given.get("search_settings", SEARCH_DEFAULTS)
        if not isinstance(settings, SearchSettings):
            hint = "pass mvcs.search.SearchSettings()"
            raise UsageError(f"search_settings cannot be {settings!r}", hint=hint)
        return cls(
            evaluate,
            measure,
            method,
            Bound.asked(given.get("max_degradation", DEFAULT_BOUND), given.get("goal")),
            "max_degradation" not in given,
            given.get("replica"),
            on_failure,
            *(
                given.get(f"search_{name}")
                for name in ("batches", "evaluations", "mean", "seconds", "settings")
            ),
        )

    def evaluators(
        self, model: nn.Module | ModelProvider, extra: Mapping[str, object]
    ) -> dict[str, Evaluator]:
        """Return what measures each part of a run, the model first.

        It says that commits will be lossy, and how much: who gave `evaluate` alone has not said so.

        Raises:
            UsageError: a name is none of a part of the run.
        """
        parts = {MODEL: model, **{f"extra.{name}": held(extra, name) for name in extra}}
        for name in self.measure:
            one_of("measure", ".".join(name.split(".")[:2]), sorted(parts.keys() - {MODEL}))
        found = {}
        for key, function in self.evaluate.items():
            names = key if isinstance(key, tuple) else (key,)
            for index, name in enumerate(names):
                one_of("a part that evaluate measures", name, sorted(parts))
                one = function if len(names) == 1 else partial(metric_of, function, name, index)
                found[name] = self._evaluator([parts[other] for other in names], index, one)
        most = self.bound.max_degradation
        _logger.info(
            "commits are bounded: what is restored may be worse than the original by max_degradation=%s%s",
            "as its function says" if callable(most) else f"{most:g}",
            ", the default" if self.is_default else "",
        )
        return dict(sorted(found.items(), key=lambda pair: pair[0] != MODEL))

    def _evaluator(
        self, parts: Sequence[nn.Module | ModelProvider], index: int, evaluate: Evaluate
    ) -> Evaluator:
        return Evaluator(
            parts[index],
            evaluate,
            self.bound,
            batches=self.batches,
            replica=self.replica if len(parts) == 1 and not isinstance(parts[0], Held) else None,
            on_failure=self.on_failure,
            settings=self.settings or SEARCH_DEFAULTS,
            given=parts,
        )


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
    measuring = Measurement.of(options)
    given: dict[str, Any] = {
        name: value for name, value in options.items() if name not in _MEASURING and value is not None
    }
    if measuring is None:
        return Chooser(quantizer_config(**given))
    if not isinstance(model, nn.Module | ModelProvider):
        raise UsageError("evaluate needs a torch module", hint="pass the module itself as the model")
    if measuring.method == "inshrinkerator":
        return _published(model, optimizer, every, measuring, given, measuring.evaluators(model, extra or {}))
    if not given.keys() & {"step_size", "bins", "quantizer"}:
        given["step_size"] = LatticeConfig.step_size
    if "quantizer" not in given:
        given.setdefault("moments", AUTO_TIER)
    return Chooser(
        quantizer_config(**given),
        measuring.evaluators(model, extra or {}),
        measure=measuring.measure,
        evaluations=measuring.evaluations,
        mean=measuring.mean,
        seconds=measuring.seconds,
        search=measuring.settings or SEARCH_DEFAULTS,
    )


def _published(
    model: nn.Module | ModelProvider,
    optimizer: object,
    every: int | None,
    measuring: Measurement,
    given: Mapping[str, Any],
    evaluators: Mapping[str, Evaluator],
) -> Chooser:
    if not isinstance(model, nn.Module):
        raise UsageError(
            "method='inshrinkerator' watches gradients, for which it needs the module itself",
            hint="use the hook in a plain loop, or method='lattice'",
        )
    searched = {"search_mean": measuring.mean, "search_settings": measuring.settings}
    if evaluators.keys() != {MODEL}:
        raise UsageError("method='inshrinkerator' measures the model alone", hint="pass evaluate=f")
    others = sorted(
        (given.keys() - {"moments"}) | {name for name, value in searched.items() if value is not None}
    )
    if others:
        raise UsageError(
            f"{others[0]} does not go with method='inshrinkerator'", hint="leave one of them out"
        )
    return PublishedChooser(
        evaluators[MODEL],
        model,
        optimizer,
        moments=moments_config(given.get("moments")),
        every=every,
        measure=measuring.measure,
        evaluations=measuring.evaluations,
        seconds=measuring.seconds,
    )
