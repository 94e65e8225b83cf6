"""How a bounded commit is quantized: as given by hand, and what an optimizer's moments get by itself."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Self, TypedDict, Unpack

from mvcs.checkpoint import Moment
from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError, no_option, one_of, real

LOG_SCALES = {0.5: 22, 1.0: 23, 2.0: 24}
AUTO_TIER = "auto"
ABSENT_MOMENT, CARRIED_MOMENT = "absent", "carried"
LEFT_OUT = frozenset({ABSENT_MOMENT, CARRIED_MOMENT})
Field = str | int | float | None

MAX_BINS = 253  # a zero level and the mark of an exception still fit one byte
SMALL_STEP = 1 / 128
METRICS = ("magnitude", "momentum", "sensitivity")
USUAL_DEGRADATION = 0.01  # where none is named

_MARGIN = 2.0  # the accepted degradation over what a restore was measured to cost
_QUICK = 0.95  # the largest beta2 for which row and column means were as good as exact values


@dataclass(frozen=True)
class MomentsConfig:
    """What a commit keeps of the first and second moment of each weight (Adam: m and v).

    What resumption needs decides, not the error of the values: the signs of the first moment and the second
    one at two octaves cost training nothing that could be measured, while a second moment of zero, which is
    not offered, throws it far off.

    Attributes:
        first: "exact"; a step in units of the root of the second moment, or of the first one's own root mean
            square where there is no second (the momentum of SGD); "sign": -1, 0 or 1 times a mean of that,
            and steps of three root mean squares where there is no second moment;
            "absent", restored as zeros; or "carried", which is absent where weights on a lattice go where it
            would still have taken them.
        second: "exact"; a step of 0.5, 1 or 2 octaves; or "rank-1": a mean for each row and column, in
            steps of one octave.
        max_degradation: with "auto" for both, which stands for what `cheapest_tier` chooses at each
            commit: how much worse than the original a state may be, such as 0.01.
        kinds: what tensors of an optimizer that is not known are, by name: "first", "second", "momentum",
            "weight", "iterate" or "exact" (`mvcs.checkpoint.known_optimizers.Moment`). None goes on with what
            the commit before says.
    """

    EXACT: ClassVar["MomentsConfig"]
    RESUME: ClassVar["MomentsConfig"]
    FINER: ClassVar["MomentsConfig"]
    LIGHT: ClassVar["MomentsConfig"]

    first: str | float = "sign"
    second: str | float = 2.0
    max_degradation: float | None = None
    kinds: tuple[tuple[str, str], ...] | None = None

    def __post_init__(self) -> None:
        """Refuse what no quantizer can follow."""
        for name in ("first", "second"):
            if type(getattr(self, name)) is int:
                object.__setattr__(self, name, float(getattr(self, name)))
        self._check_kinds()
        self._check_auto()
        if self.is_auto:
            return
        named = self.first in {"exact", "sign", *LEFT_OUT}
        if not named and not (isinstance(self.first, float) and 0 < self.first <= 64):
            raise UsageError(
                f"the first moment cannot be kept as {self.first!r}",
                hint="use exact, sign, absent, carried, or a step above 0 and up to 64",
            )
        if self.second not in {"exact", "rank-1"} and not (
            isinstance(self.second, float) and self.second in LOG_SCALES
        ):
            raise UsageError(
                f"the second moment cannot be kept as {self.second!r}",
                hint="use exact, rank-1, or a step of 0.5, 1 or 2 octaves",
            )
        if self.second == "exact" and self.first not in {"exact", *LEFT_OUT}:
            raise UsageError(
                "the first moment cannot be kept in units of an exact second one",
                hint="give the second moment a step, or keep both exactly",
            )

    def _check_kinds(self) -> None:
        """Take a dict as well as pairs, and sort them."""
        if self.kinds is None:
            return
        given: Mapping[object, object] = dict(self.kinds)
        known = [kind.value for kind in Moment]
        if not given or not all(isinstance(name, str) and name for name in given):
            hint = "give names of tensors in an optimizer's state, as in {'exp_avg': 'first'}"
            raise UsageError(f"moments cannot be {given}", hint=hint)
        for name, kind in given.items():
            if kind not in known:
                raise UsageError(f"the moment {name!r} cannot be {kind!r}", hint=f"use {', '.join(known)}")
        pairs = sorted((str(name), str(kind)) for name, kind in given.items())
        object.__setattr__(self, "kinds", tuple(pairs))

    def _check_auto(self) -> None:
        if (self.first == AUTO_TIER) != (self.second == AUTO_TIER):
            raise UsageError("one moment cannot be chosen without the other", hint="use auto for both")
        bound = self.max_degradation
        if bound is not None and not (self.is_auto and math.isfinite(bound) and bound >= 0):
            raise UsageError(
                f"moments cannot be kept for a degradation of {bound}",
                hint="use a number from 0, and auto for both moments",
            )

    @property
    def is_auto(self) -> bool:
        """Whether the optimizer decides when a commit is made."""
        return self.first == AUTO_TIER

    @property
    def rounds(self) -> bool:
        """Whether anything but exact moments is asked for."""
        return (self.first, self.second) != ("exact", "exact")

    @property
    def name(self) -> str:
        """What `named` calls it, or "finer", which is chosen alone; other settings have none: "own"."""
        return self.tier_of(self.first, self.second)

    @classmethod
    def tier_of(cls, first: object, second: object) -> str:
        """Return the `name` of settings of the first and second moment, such as a commit recorded."""
        known = {"exact": cls.EXACT, "finer": cls.FINER, "resume": cls.RESUME, "light": cls.LIGHT}
        kept = first, second
        return next((name for name, one in known.items() if (one.first, one.second) == kept), "own")

    @property
    def leaves_out_first(self) -> bool:
        """Whether first moments are restored as zeros."""
        return self.first in LEFT_OUT

    @property
    def scale(self) -> int:
        """The binary logarithm of the second moment's step in units of the float32 pattern: 22 to 24."""
        return LOG_SCALES.get(self.second if isinstance(self.second, float) else 1.0, LOG_SCALES[1.0])

    @classmethod
    def auto(cls, max_degradation: float | None = None) -> "MomentsConfig":
        """Return what lets each commit choose by its optimizer, for an accepted degradation (0.01 if None).

        Raises:
            UsageError: the degradation is no number from 0.
        """
        return cls(AUTO_TIER, AUTO_TIER, max_degradation)

    @classmethod
    def described(cls, kinds: Mapping[str, str]) -> "MomentsConfig":
        """Return what lets each commit choose, told what tensors of an optimizer's state are.

        Raises:
            UsageError: a name is no text, or there is no such kind.
        """
        return cls(AUTO_TIER, AUTO_TIER, kinds=tuple(kinds.items()))

    @classmethod
    def named(cls, tier: str) -> "MomentsConfig":
        """Return "exact", "resume" (the default), "light" (the first moment carried by weights) or "auto".

        Raises:
            UsageError: there is no such tier.
        """
        tiers = {"exact": cls.EXACT, "resume": cls.RESUME, "light": cls.LIGHT, AUTO_TIER: cls.auto()}
        if tier not in tiers:
            raise UsageError(f"moments cannot be '{tier}'", hint="use exact, resume, light or auto")
        return tiers[tier]


MomentsConfig.EXACT = MomentsConfig("exact", "exact")
MomentsConfig.RESUME = MomentsConfig("sign", 2.0)
MomentsConfig.FINER = MomentsConfig(1.0, 2.0)
MomentsConfig.LIGHT = MomentsConfig(CARRIED_MOMENT, "rank-1")


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
    def hysteresis(self) -> float:
        """How many steps beyond half of one a weight keeps its parent's code."""
        return 0.0

    @property
    def steps(self) -> tuple[tuple[str, int], ...]:
        """The step byte of layer types that have a named one."""
        return ()

    @property
    def shares_by_type(self) -> bool:
        """Whether weights of a layer type share a step, or thresholds of pruning and protecting."""
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

    @property
    def shares_by_type(self) -> bool:
        """Whether weights of a layer type share a step."""
        return self.share == "type"

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


@dataclass(frozen=True)
class RestoreCost:
    """What a restore of each tier costs: the excess of the training loss over the next hundred steps.

    Attributes:
        light: of the tier of that name; infinite where it is never taken.
        resume: the same.
        finer: of `MomentsConfig.FINER`, for an optimizer whose momentum has no second moment beside it.
    """

    light: float = math.inf
    resume: float = math.inf
    finer: float = math.inf


UNNAMED = "unnamed"
_SETTINGS = re.compile(r" [a-z]+=.*")
_NUMBER = r"(\d+(?:\.\d+)?(?:e-?\d+)?)"
_BETAS = re.compile(f" betas={_NUMBER},{_NUMBER}")
_NEVER = RestoreCost()
# Rows with a third number: the mean of probes and two standard errors (docs/lab/2026-11-25-momentum.md), but
# for `light` of Adamax and RMSprop and `finer` of RMSprop. For these and all others the worst that was found
# (docs/lab/2026-11-21-resuming-from-moments.md, 2026-11-24-optimizers.md); `resume` with Adam has the mean.
_COSTS = {
    "quick Adam": RestoreCost(0.002, 0.0003),
    "Adam": RestoreCost(0.0043, 0.0012),
    "NAdam": RestoreCost(0.0036, 0.0011),
    "RAdam": RestoreCost(0.0038, 0.0024),
    "Adamax": RestoreCost(0.0031, 0.0014, 0.0009),
    "Adagrad": RestoreCost(0.0025, 0.0005),
    "Adadelta": RestoreCost(0.003, 0.0005),
    "RMSprop": RestoreCost(0.0045, 0.0005, 0.0002),
    "centered RMSprop": RestoreCost(0.0035, 0.0007, 0.0002),
    "SGD": RestoreCost(0.0098, 0.0021, 0.0009),
    "Muon": RestoreCost(0.0046, 0.0025, 0.0009),
    "Lion": RestoreCost(0.0071, 0.0045, 0.0018),
    "schedule-free": RestoreCost(0.0008, 0.0003),
    "ASGD": RestoreCost(0.0008, 0.0003),  # as the one before, though training reads nothing that is rounded
    "described": RestoreCost(resume=0.0021),
    UNNAMED: RestoreCost(resume=0.0021),
}


def tier_class(optimizer: str, settings: Mapping[str, object]) -> str:
    """Return what an optimizer counts as where a tier is chosen: its name, or that with what matters of it.

    Args:
        optimizer: its name in the table of known ones.
        settings: of its group.
    """
    betas = settings.get("betas")
    quick = (
        isinstance(betas, tuple) and len(betas) == 2 and isinstance(betas[1], float) and betas[1] <= _QUICK
    )
    return f"quick {optimizer}" if quick and f"quick {optimizer}" in _COSTS else optimizer


def cheapest_tier(classes: Iterable[str], max_degradation: float | None = None) -> MomentsConfig:
    """Return the cheapest tier whose restores cost at most half of the accepted degradation.

    Args:
        classes: as `tier_class` gives them, of all optimizers in a state of which something may be rounded;
            the most demanding one counts. Without any, moments are known by their names alone.
        max_degradation: how much worse than the original a state may be, relative; None takes 0.01.
    """
    bound = (USUAL_DEGRADATION if max_degradation is None else max_degradation) / _MARGIN
    costs = [_COSTS.get(one, _NEVER) for one in set(classes) or {UNNAMED}]
    if all(cost.light <= bound for cost in costs):
        return MomentsConfig.LIGHT
    if all(cost.resume <= bound for cost in costs):
        return MomentsConfig.RESUME
    # Where optimizers differ the most demanding one counts, and others are no worse off.
    if all(min(cost.finer, cost.resume) <= bound for cost in costs):
        return MomentsConfig.FINER
    return MomentsConfig.EXACT


def auto_takes(told: str) -> RestoreCost:
    """Return the accepted degradations from which `cheapest_tier` takes each tier; infinite for never.

    Args:
        told: what a commit tells of an optimizer: its name, and settings that matter behind it.
    """
    name, betas = _SETTINGS.sub("", told), _BETAS.search(told)
    known = tier_class(
        "Adam" if name == "AdamW" else name, {"betas": betas and tuple(map(float, betas.groups()))}
    )
    cost = _COSTS.get(known, _NEVER)
    return RestoreCost(_MARGIN * cost.light, _MARGIN * cost.resume)
