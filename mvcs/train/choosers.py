"""What chooses how the commits of a run are bounded, by the options it was given."""

import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from torch import nn

from mvcs.errors import UsageError, no_option, one_of
from mvcs.quantize import AUTO_TIER, LatticeConfig, MomentsConfig, QuantizerOptions, quantizer_config
from mvcs.search import Bound
from mvcs.train.checks import check_functions
from mvcs.train.choice.published import PublishedChooser
from mvcs.train.choice.search import BoundingOptions, Chooser
from mvcs.train.evaluation.call_evaluate import Evaluate
from mvcs.train.evaluation.evaluator import Evaluator, OnFailure
from mvcs.train.state.stateful import ModelProvider

_logger = logging.getLogger("mvcs.train")

DEFAULT_BOUND: Final = 0.01
_SEARCHING = BoundingOptions.__annotations__.keys() - QuantizerOptions.__annotations__.keys()

Method = Literal["lattice", "inshrinkerator"]


def chooser_of(model: object, optimizer: object, every: int | None, options: BoundingOptions) -> Chooser:
    """Return what chooses by options.

    Args:
        model: what is evaluated.
        optimizer: what steps it.
        every: how many steps lie between commits, where that is known.
        options: as given.

    Raises:
        UsageError: options that do not go together, or one out of range.
        TypeError: a name that is none of the options'.
    """
    unknown = sorted(options.keys() - BoundingOptions.__annotations__.keys())
    if unknown:
        from mvcs.train.options import CheckpointerOptions

        raise no_option(unknown[0], CheckpointerOptions.__annotations__)
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    searching = {name: given.pop(name) for name in _SEARCHING if name in given}
    evaluate = searching.pop("evaluate", None)
    if evaluate is None and searching:
        raise UsageError(f"{min(searching)} needs evaluate", hint="pass a function that measures the model")
    if evaluate is None:
        return Chooser(quantizer_config(**given))
    if not isinstance(model, nn.Module | ModelProvider):
        raise UsageError("evaluate needs a torch module", hint="pass the module itself as the model")
    method: Method = searching.pop("method", "lattice")
    one_of("method", method, get_args(Method))
    check_functions({"evaluate": evaluate, "replica": searching.get("replica")}, ())
    if method == "inshrinkerator":
        if not isinstance(model, nn.Module):
            raise UsageError(
                "method='inshrinkerator' watches gradients, for which it needs the module itself",
                hint="use the hook in a plain loop, or method='lattice'",
            )
        return _published(model, optimizer, every, evaluate, given, searching)
    if not given.keys() & {"step_size", "bins", "quantizer"}:
        given["step_size"] = LatticeConfig.step_size
    if "quantizer" not in given:
        given.setdefault("moments", AUTO_TIER)
    settings = quantizer_config(**given)
    budget = _budget(searching, "evaluations", "mean", "seconds")
    return Chooser(settings, _evaluator(model, evaluate, searching), **budget)


def _published(
    model: nn.Module,
    optimizer: object,
    every: int | None,
    evaluate: Evaluate,
    given: Mapping[str, Any],
    searching: Mapping[str, Any],
) -> Chooser:
    others = sorted((given.keys() - {"moments"}) | (searching.keys() & {"search_mean"}))
    if others:
        raise UsageError(
            f"{others[0]} does not go with method='inshrinkerator'", hint="leave one of them out"
        )
    moments = MomentsConfig.named(given.get("moments", AUTO_TIER))
    evaluator = _evaluator(model, evaluate, searching)
    budget = _budget(searching, "evaluations", "seconds")
    return PublishedChooser(evaluator, model, optimizer, moments=moments, every=every, **budget)


def _evaluator(model: nn.Module | ModelProvider, evaluate: Evaluate, given: Mapping[str, Any]) -> Evaluator:
    bound = Bound.asked(given.get("max_degradation", DEFAULT_BOUND), given.get("goal", "min"))
    _tell(bound, default="max_degradation" not in given)
    on_failure: OnFailure = given.get("on_evaluation_failure", "exact")
    one_of("on_evaluation_failure", on_failure, get_args(OnFailure))
    return Evaluator(model, evaluate, bound, replica=given.get("replica"), on_failure=on_failure)


def _tell(bound: Bound, *, default: bool) -> None:
    """Say that commits will be lossy, and how much: who gave `evaluate` alone has not said so."""
    most = "as its function says" if callable(bound.max_degradation) else f"{bound.max_degradation:g}"
    _logger.info(
        "commits are bounded: what is restored may be worse than the original by max_degradation=%s%s",
        most,
        ", the default" if default else "",
    )


def _budget(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: given.get(f"search_{name}") for name in names}
