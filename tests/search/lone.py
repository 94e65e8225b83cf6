"""One layer type whose step is searched, commit by commit."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class Lone:
    """Where a search begins and ends for it.

    Attributes:
        parent: the step byte of the last commit; None before the first.
    """

    parent: int | None = None

    @property
    def starts(self) -> Mapping[str, int]:
        return {"weights": 212 if self.parent is None else self.parent}

    @property
    def held(self) -> frozenset[str]:
        return frozenset()

    @property
    def settled(self) -> frozenset[str]:
        return frozenset() if self.parent is None else frozenset({"weights"})

    @property
    def coarsest(self) -> Mapping[str, int]:
        return {"weights": 220}
