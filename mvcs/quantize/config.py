"""How a bounded commit is quantized, as given by hand."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Self

from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError, one_of, real
from mvcs.quantize.moments.settings import MomentsConfig

Field = str | int | float | None

MAX_BINS = 253  # a zero level and the mark of an exception still fit one byte
SMALL_STEP = 1 / 128
METRICS = ("magnitude", "momentum", "sensitivity")


@dataclass(frozen=True, init=False, kw_only=True)
class QuantizerConfig:
    """The settings of a quantizer: a `KMeansConfig` or a `LatticeConfig`.

    Called itself, it takes the arguments of a `KMeansConfig` and returns one.

    Attributes:
        method: the quantizer's name.
        moments: what is kept of an optimizer's moments.
        small: step of small tensors (weights of one dimension, norms, biases, running means) in units of
            their root mean square; None keeps them exactly.
    """

    method: ClassVar[str]

    moments: MomentsConfig = MomentsConfig.RESUME
    small: float | None = SMALL_STEP

    def __new__(cls, *_: Any, **__: Any) -> Self:  # noqa: ANN401 - the subclasses check their arguments
        """Make the settings of kmeans where no subclass is named."""
        return super().__new__(KMeansConfig if cls is QuantizerConfig else cls)  # type: ignore[return-value]

    @property
    def prune(self) -> float:
        """Share of the values of a layer type, least important first, that becomes zero."""
        return 0.0

    @property
    def protect(self) -> float:
        """Share of the values of a layer type, most important first, that is kept exactly."""
        return 0.0

    @property
    def pruned_power(self) -> float:
        """Share of the sum of squares that pruning takes of normally distributed values."""
        return 0.0

    @property
    def prunes_or_protects(self) -> bool:
        """Whether weights of a layer type are told apart by thresholds that they share."""
        return self.prune > 0 or self.protect > 0

    def to_fields(self) -> list[tuple[str, Field]]:
        """Return names and values in the order of format 1, for a commit."""
        values = {**vars(self), "method": self.method, **vars(self.moments)}
        return [(name, values[name]) for name in _TYPES[self.method]]

    @staticmethod
    def from_fields(pairs: Sequence[tuple[str, object]]) -> "QuantizerConfig":
        """Read what `to_fields` returned, from a commit that may be hostile.

        Raises:
            UnsupportedFormatError: the method or the fields are those of another version.
            CorruptionError: a value is of the wrong type or out of its range.
        """
        values: dict[str, Any] = dict(pairs)
        method = values.get("method")
        kind = _METHODS.get(method) if isinstance(method, str) else None
        if kind is None or [name for name, _ in pairs] != list(_TYPES[kind.method]):
            raise UnsupportedFormatError("a commit was quantized in a way this version does not know")
        for name, types in _TYPES[kind.method].items():
            if type(values[name]) not in types:
                raise CorruptionError(f"a quantizer's {name} is {values[name]!r}")
        del values["method"]
        try:
            moments = MomentsConfig(values.pop("first"), values.pop("second"))
            made = kind(**values, moments=moments)
        except UsageError as error:
            raise CorruptionError(f"a commit has impossible quantizer settings: {error.message}") from error
        if moments.is_auto:
            raise CorruptionError("a commit does not say how moments were kept")
        return made

    def _numbers_as_floats(self, *names: str) -> None:
        """Let 0 and 0.0 be the same settings, in memory and in a commit; refuse what is no number."""
        for name in names:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, real(name, value, "use a number"))

    def _check_shared(self) -> None:
        if self.small is not None and not 0 < self.small <= 1:
            raise UsageError(
                f"the step of small tensors cannot be {self.small}", hint="use a number above 0 and up to 1"
            )


@dataclass(frozen=True)
class KMeansConfig(QuantizerConfig):
    """A code table for every tensor, by weighted one-dimensional k-means (Inshrinkerator, section 4).

    Attributes:
        bins: most values in a tensor's table, the zero of pruning not counted: 2 to 253.
        prune: share of the values of a layer type, least important first, that becomes zero.
        protect: share of the values of a layer type, most important first, that is kept exactly.
        sigma: None weights a sketch bucket by its count; a number in [0, 1] by
            sigma * normalized count + (1 - sigma) * normalized magnitude.
        init: "exact" finds the best table; "++" starts from random centers and improves them (k-means++ and
            Lloyd's iteration, as published), for comparison.
        seed: of the random centers.
        metric: the score of a weight by which the least are pruned: "momentum", the magnitude of the weight
            times its first moment in the optimizer's state; its own "magnitude"; or "sensitivity", a score
            that is handed in. Where a tensor of a layer type has no such score, magnitudes count for all of
            that type.
        protect_metric: the same for what is kept. Unless it is "magnitude", half of `protect` is kept for
            magnitude and half for the score (section 4.2). None takes `metric`.
        embedding_bins: instead of `bins` for embeddings, of which nothing is pruned then; None treats them
            as other weights.
    """

    method: ClassVar[str] = "kmeans"

    bins: int
    prune: float = 0.0
    protect: float = 0.0
    sigma: float | None = None
    init: str = "exact"
    seed: int = 0
    metric: str = "momentum"
    protect_metric: str | None = None
    embedding_bins: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that no quantizer can follow."""
        self._numbers_as_floats("prune", "protect", "sigma", "small")
        _check_bins(self.bins)
        if self.embedding_bins is not None:
            _check_bins(self.embedding_bins)
        if not 0 <= self.prune < 1:
            raise UsageError(
                f"prune cannot be {self.prune}", hint="use a share from 0 up to, not including, 1"
            )
        if not 0 <= self.protect < 0.5:
            raise UsageError(
                f"protect cannot be {self.protect}", hint="use a share from 0 up to, not including, 0.5"
            )
        if self.sigma is not None and not 0 <= self.sigma <= 1:
            raise UsageError(
                f"sigma cannot be {self.sigma}", hint="use a number from 0 to 1, or leave it out"
            )
        if self.init not in {"exact", "++"} or type(self.seed) is not int or not 0 <= self.seed < 1 << 63:
            raise UsageError(
                f"k-means cannot start from {self.init!r} with the seed {self.seed}",
                hint="use exact, or ++ and a seed from 0",
            )
        self._check_metrics()
        self._check_shared()

    @property
    def pruned_power(self) -> float:
        """Share of the sum of squares that pruning takes of normally distributed values.

        By a score that says nothing of magnitudes that is the share of the values; the smallest have less.
        """
        if self.metric != "magnitude" or not self.prune:
            return self.prune
        normal = NormalDist()
        least = normal.inv_cdf((1 + self.prune) / 2)
        return self.prune - 2 * least * normal.pdf(least)

    @property
    def protects_by(self) -> str:
        """The score by which half of the protected weights is chosen, or "magnitude"."""
        return self.metric if self.protect_metric is None else self.protect_metric

    @property
    def score(self) -> str | None:
        """The score that is looked at beside magnitudes; None where none is."""
        asked = {self.metric} if self.prune else set()
        asked |= {self.protects_by} if self.protect else set()
        return next(iter(asked - {"magnitude"}), None)

    def _check_metrics(self) -> None:
        one_of("metric", self.metric, METRICS)
        asked = {self.metric, self.protects_by}
        for metric in asked - set(METRICS):
            raise UsageError(f"metric cannot be {metric!r}", hint=f"use {', '.join(METRICS)}")
        if len(asked - {"magnitude"}) > 1:
            raise UsageError(
                f"weights cannot be pruned by {self.metric} and kept by {self.protects_by}",
                hint="use one score beside magnitude",
            )


def _check_bins(bins: int) -> None:
    if type(bins) is not int or not 2 <= bins <= MAX_BINS:
        raise UsageError(f"bins cannot be {bins!r}", hint=f"use a whole number from 2 to {MAX_BINS}")


@dataclass(frozen=True)
class LatticeConfig(QuantizerConfig):
    """Multiples of a step, near the parent's codes.

    A value keeps its parent's code while it is at most 0.5 + hysteresis steps away, and else gets the nearest
    one. Then codes of weights that are more than a quarter of a step off move by one until their row does not
    lag behind where training goes, and until its errors cancel out. So **no error is above 0.75 steps, or 0.5
    + hysteresis where that is more**, whatever the history. Nothing ever trades a larger error for fewer
    bits, since such errors drift from commit to commit.

    Attributes:
        step_size: the step in units of the root mean square of the values.
        hysteresis: in steps, from 0 up to 0.5; at most 0.25 where nothing tells of a drift of weights.
        share: whose values the root mean square is taken of: all tensors of a layer type, or each "tensor".
        steps: the step byte of some layer types, by name; the others' follow from step_size.
    """

    method: ClassVar[str] = "lattice"

    step_size: float = 0.5
    hysteresis: float = 0.5
    share: str = "type"
    steps: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        """Refuse settings that no quantizer can follow."""
        self._numbers_as_floats("step_size", "hysteresis", "small")
        self._check_steps()
        if not 2**-16 <= self.step_size <= 16:
            raise UsageError(f"step_size cannot be {self.step_size}", hint="use a number from 2^-16 to 16")
        if not 0 <= self.hysteresis <= 0.5:
            raise UsageError(f"hysteresis cannot be {self.hysteresis}", hint="use a number from 0 to 0.5")
        one_of("share", self.share, ("type", "tensor"))
        self._check_shared()

    def to_fields(self) -> list[tuple[str, Field]]:
        """Return names and values in the order of format 1; the steps are one text, in JSON."""
        steps = json.dumps(dict(self.steps), separators=(",", ":")) if self.steps else None
        return [(name, steps if name == "steps" else value) for name, value in super().to_fields()]

    def _check_steps(self) -> None:
        """Sort the steps, and take them from a commit's text."""
        found: object = self.steps
        given = _steps_of(found) if isinstance(found, str) else dict(self.steps or ())
        steps = tuple(sorted(given.items()))
        if any(type(step) is not int or not 0 <= step < 256 for _, step in steps):
            raise UsageError("a layer type has an impossible step", hint="steps are bytes, from 0 to 255")
        object.__setattr__(self, "steps", steps)
        if steps and self.share != "type":
            raise UsageError("steps of layer types go with share='type' only")


def _steps_of(text: str) -> dict[str, int]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError("the steps of a quantizer are no table")
    return found


_METHODS: dict[str, type[KMeansConfig | LatticeConfig]] = {"kmeans": KMeansConfig, "lattice": LatticeConfig}

_MOMENTS: dict[str, tuple[type, ...]] = {
    "small": (float, type(None)),
    "first": (str, float),
    "second": (str, float),
}

_TYPES: dict[str, dict[str, tuple[type, ...]]] = {
    "kmeans": {
        "method": (str,),
        "bins": (int,),
        "prune": (float,),
        "protect": (float,),
        "sigma": (float, type(None)),
        "init": (str,),
        "seed": (int,),
        "metric": (str,),
        "protect_metric": (str, type(None)),
        "embedding_bins": (int, type(None)),
        **_MOMENTS,
    },
    "lattice": {
        "method": (str,),
        "step_size": (float,),
        "hysteresis": (float,),
        "share": (str,),
        "steps": (str, type(None)),
        **_MOMENTS,
    },
}
