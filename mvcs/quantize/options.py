"""The settings of a quantizer as a caller writes them: flat keywords of a commit or of the training hook."""

from collections.abc import Mapping
from typing import TypedDict, Unpack

from mvcs.errors import UsageError, no_option
from mvcs.quantize.config import KMeansConfig, LatticeConfig, QuantizerConfig
from mvcs.quantize.moments.settings import AUTO_TIER, MomentsConfig


class QuantizerOptions(TypedDict, total=False):
    """How a commit is bounded; with neither `bins` nor `step_size` it is exact.

    None counts as not given. `quantizer` holds all settings at once and goes with none of the others.

    Attributes:
        bins: values in the table of each weight (k-means).
        prune: with bins: the share of the least important weights that become zero.
        protect: with bins: the share of the most important weights that are kept exactly.
        sigma: with bins: weight of frequency against magnitude (Inshrinkerator, section 4.4).
        metric: with prune or protect: how important a weight is: "momentum" (the default), "magnitude" or
            "sensitivity".
        step_size: step of the weights' lattice in units of their root mean square.
        hysteresis: with step_size: how much farther than half a step a weight may be from its last code and
            keep it, in steps.
        share: with step_size: "type" for one step a layer type, "tensor" for one a tensor.
        moments: what is kept of an optimizer's moments: "exact", "resume", "light" or "auto". Or, for one
            that is not known, what the tensors of its state are, as in `{"exp_avg": "first", "v": "second"}`
            (first, second, momentum, weight, iterate or exact); the tier is "auto" then.
        quantizer: all of it as a `LatticeConfig` or `KMeansConfig`.
    """

    bins: int | None
    prune: float | None
    protect: float | None
    sigma: float | None
    metric: str | None
    step_size: float | None
    hysteresis: float | None
    share: str | None
    moments: str | Mapping[str, str] | None
    quantizer: QuantizerConfig | None


_OF_KMEANS = frozenset({"bins", "prune", "protect", "sigma", "metric"})
_OF_LATTICE = frozenset({"step_size", "hysteresis", "share"})


def quantizer_config(**options: Unpack[QuantizerOptions]) -> QuantizerConfig | None:
    """Return the settings that options ask for; None for an exact commit.

    Raises:
        UsageError: options that do not go together, or one out of range.
        TypeError: a name that is none of the options'.
    """
    unknown = sorted(options.keys() - QuantizerOptions.__annotations__.keys())
    if unknown:
        raise no_option(unknown[0], QuantizerOptions.__annotations__)
    given = {name: value for name, value in options.items() if value is not None}
    whole = options.get("quantizer")
    if whole is not None:
        if len(given) > 1:
            raise UsageError("quantizer= goes with no other setting", hint="put all of them into it")
        if not isinstance(whole, KMeansConfig | LatticeConfig):
            raise UsageError(f"quantizer cannot be {whole!r}", hint="use a LatticeConfig or a KMeansConfig")
        return whole
    if not given:
        return None
    for name, family in (("bins", _OF_KMEANS), ("step_size", _OF_LATTICE)):
        others = sorted(given.keys() - family - {"moments"})
        if name in given and others:
            raise UsageError(f"{others[0]} does not go with {name}", hint="use bins or step_size")
    if not given.keys() & {"bins", "step_size"}:
        raise UsageError(
            f"{min(given)} needs a quantizer: without one a commit is exact",
            hint="add a step size such as 0.5, or a number of bins such as 16",
        )
    if "moments" in given:
        given["moments"] = moments_config(options["moments"])
    kind = KMeansConfig if "bins" in given else LatticeConfig
    return kind(**given)  # type: ignore[arg-type]  # checked by the settings themselves


def moments_config(moments: str | Mapping[str, str] | None) -> MomentsConfig:
    """Return the settings of moments that an option asks for: a tier, or what tensors are; None is "auto".

    Raises:
        UsageError: there is no such tier, or no such kind of moment.
    """
    if isinstance(moments, Mapping):
        return MomentsConfig.described(moments)
    return MomentsConfig.named(AUTO_TIER if moments is None else str(moments))
