"""Mechanisms of commits that can be left out to see what they earn; those of users have them all."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final, Self

from mvcs.errors import one_of


@dataclass(frozen=True)
class Mechanisms:
    """Which mechanisms are at work. Readers know what all of them write, whichever are.

    Attributes:
        carried_momentum: weights go where first moments that are left out would still have taken them;
            without it these are left out alone.
        drift_gate: codes keep pace with weights only where these go somewhere, which weights of two earlier
            commits tell; without it they always do.
        keep_pace: codes keep pace with weights that go somewhere; without it they do with none.
    """

    carried_momentum: bool = True
    drift_gate: bool = True
    keep_pace: bool = True

    @classmethod
    def without(cls, names: Iterable[str]) -> Self:
        """Leave mechanisms out, named as their attributes are, with hyphens.

        Raises:
            UsageError: there is none of a name.
        """
        known = tuple(each.name.replace("_", "-") for each in fields(cls))
        chosen = list(names)
        for name in chosen:
            one_of("a mechanism", name, known)
        return cls(**{name.replace("-", "_"): False for name in chosen})


ALL: Final = Mechanisms()
