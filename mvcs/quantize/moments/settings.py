"""How exactly an optimizer's moments are kept: as given by hand, or to be chosen by the optimizer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from mvcs.checkpoint import Moment
from mvcs.errors import UsageError

LOG_SCALES = {0.5: 22, 1.0: 23, 2.0: 24}
AUTO_TIER = "auto"
ABSENT_MOMENT, CARRIED_MOMENT = "absent", "carried"
LEFT_OUT = frozenset({ABSENT_MOMENT, CARRIED_MOMENT})


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
        max_degradation: with "auto" for both, which stands for what `mvcs.quantize.moments.tiers` chooses at
            each commit: how much worse than the original a state may be, such as 0.01.
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
        return (
            LOG_SCALES.get(self.second, LOG_SCALES[1.0])
            if isinstance(self.second, float)
            else LOG_SCALES[1.0]
        )

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
