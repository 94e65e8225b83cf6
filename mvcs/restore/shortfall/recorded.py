"""What a commit recorded of its bytes, as a sentence on them needs it."""

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mvcs.checkpoint import Role
from mvcs.errors import some_of
from mvcs.objects import EVALUATION_CLASS, MOMENTS_KEY, OPTIMIZER_KEY, Commit
from mvcs.quantize import AUTO_TIER
from mvcs.reports import Cause, CommitDetails, TensorInfo, as_ratio, as_share

EXACT_WEIGHT, EXACT_MOMENT, METADATA = "exact weight", "exact moment", "metadata"
LIGHT: Final = "light"
LATER: Final = "later commits take less"

Reason = tuple[Cause, str]

_UNKNOWN = re.compile(r"unknown \(.*; kept exactly\)")
_BETWEEN = re.compile(r"; (?![^(]*\))")  # optimizers; one that is not known has a semicolon in its brackets
_NAMED = 3


@dataclass(frozen=True)
class Recorded:
    """What a commit recorded.

    Attributes:
        details: what `show` tells of it.
        commit: the commit itself.
    """

    details: CommitDetails
    commit: Commit

    @cached_property
    def parts(self) -> Counter[str]:
        """How many bytes the commit wrote of each part: a role of tensors, exact ones apart, or metadata."""
        parts: Counter[str] = Counter()
        for tensor in self.details.tensors:
            parts[_part(tensor)] += tensor.new_bytes
        parts[METADATA] = max(self.details.commit.stored_bytes - parts.total(), 0)
        return parts

    def share(self, part: str) -> str:
        """Say how much of the commit a part is: "66 % of its bytes are"."""
        return f"{as_share(self.parts[part] / self.details.commit.stored_bytes)} of its bytes are"

    def ratio(self, without: int = 0) -> str:
        """Return how many times smaller than its state the commit is, or would be without some bytes."""
        info = self.details.commit
        return as_ratio(info.raw_bytes, info.stored_bytes - without)

    def tensors(self, part: str) -> list[TensorInfo]:
        """Return the tensors of a part."""
        return [one for one in self.details.tensors if _part(one) == part]

    def names(self, part: str, *, whole: bool = False) -> str:
        """Name the tensors of a part, those of most bytes first: as their optimizer does, or in full."""
        found: Counter[str] = Counter()
        for one in self.tensors(part):
            found[one.path if whole else own_name(one)] += one.new_bytes
        return some_of([name for name, size in found.most_common() if size], _NAMED)

    def errors(self, kind: str) -> dict[str, float]:
        """Return what was measured of a class; nothing where it was not."""
        return self.details.commit.errors.get(kind, {})

    def count(self, kind: str, name: str) -> int:
        """Return how many of something were counted in a class; 0 where what stands there is no count."""
        found = self.errors(kind).get(name, 0.0)
        return int(found) if math.isfinite(found) else 0

    @property
    def evaluation(self) -> dict[str, float]:
        """How the quality of the commit was measured; nothing where it was not."""
        return self.errors(EVALUATION_CLASS)

    @property
    def bound(self) -> str:
        """The degradation that was accepted, of an evaluated commit."""
        return self.degradation(self.evaluation.get("bound", math.nan))

    def degradation(self, number: float) -> str:
        """Return a degradation as percent where the evaluation has it relative, else as it is."""
        return percent(number) if self.evaluation.get("relative", 1.0) else f"{number:.3g}"

    @property
    def optimizers(self) -> list[str]:
        """The optimizers that are told of, by name and with the settings that matter."""
        told = self.details.provenance.get(OPTIMIZER_KEY)
        return _BETWEEN.split(told) if isinstance(told, str) else []

    @property
    def has_unknown_optimizer(self) -> bool:
        """Whether one of them is not known, so that its moments are kept exactly."""
        return any(map(_UNKNOWN.fullmatch, self.optimizers))

    @property
    def rounded(self) -> list[str]:
        """Those of them whose moments are rounded, and could be less."""
        tiers = self.commit.moment_tiers
        known = [one for one in self.optimizers if not _UNKNOWN.fullmatch(one)]
        return [one for one in known if tiers.get(one) != LIGHT]

    @property
    def is_auto(self) -> bool:
        """Whether tiers were left to the optimizers."""
        return self.details.provenance.get(MOMENTS_KEY) == AUTO_TIER

    def option(self, name: str, setting: object = None) -> str:
        """Return an option as it is typed: in Python for a state, in a shell for files."""
        if self.details.files is None:
            quoted = f'"{setting}"' if isinstance(setting, str) else f"{setting}"
            return name if setting is None else f"{name}={quoted}"
        shown = f"--{name.replace('_', '-')}"
        return shown if setting is None else f"{shown} {setting}"


def near(found: Recorded) -> Reason | None:
    """Tell of a commit that has no codes of another to be stored near; None for others."""
    if found.commit.quantized_against is not None:
        return None
    if found.commit.parents:
        return Cause.NOT_NEAR, f"the commit before it has no codes to be stored near: {LATER}"
    return Cause.FIRST_COMMIT, f"a first commit, near no other: {LATER}"


def _part(tensor: TensorInfo) -> str:
    exact = tensor.exact_id is None and tensor.role in {Role.WEIGHT, Role.MOMENT}
    return f"exact {tensor.role}" if exact else tensor.role


def own_name(tensor: TensorInfo) -> str:
    """Return what an optimizer calls a tensor in its state; a number is a place in what has the name."""
    parts = tensor.path.split(".")
    return next((part for part in reversed(parts) if not part.isdigit()), parts[-1])


def percent(fraction: float) -> str:
    """Return a bound as people write it: "1 %"."""
    return f"{100 * fraction:.3g} %"
