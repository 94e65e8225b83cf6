"""How far a check of packs goes: footers alone, checksums, everything, or everything of some packs."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """How far a check of packs goes. Footers are always read.

    Attributes:
        paths: the packs of which every byte is compared with its checksum; None for all.
        decoded: whether what these hold is decoded and hashed as well.
    """

    paths: Collection[str] | None
    decoded: bool = True

    def takes(self, path: str) -> bool:
        """Tell whether the bytes of a pack are read."""
        return self.paths is None or path in self.paths


QUICK, PACKS, FULL = Level(frozenset(), decoded=False), Level(None, decoded=False), Level(None)
