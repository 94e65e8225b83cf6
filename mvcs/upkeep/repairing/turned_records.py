"""Records that are damaged: a flipped bit is turned back, and what takes their place is put there."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mvcs.reports import Mended
from mvcs.store import Backend, turned_back
from mvcs.upkeep.repairing.set_aside import SetAside

RECORD_SEARCH = 1 << 29  # bytes: records of up to 8 KiB
FLIPPED = "a flipped bit was corrected"


@dataclass
class TurnedRecords:
    """Puts good records in the place of damaged ones.

    Attributes:
        backend: the store.
        aside: keeps what others take the place of; None in a rehearsal.
        mended: what was mended.
    """

    backend: Backend
    aside: SetAside | None
    mended: list[Mended] = field(default_factory=list)

    def turn_back(self, path: str, data: bytes, is_good: Callable[[bytes], bool]) -> bool:
        """Turn the one bit back without which a record is not good; tell whether there is one."""
        good = turned_back(data, is_good, most=RECORD_SEARCH)
        if good is None:
            return False
        self.put(path, good, FLIPPED)
        return True

    def put(self, path: str, data: bytes, how: str, *, whole: bool = True) -> None:
        """Put a record in the place of another one, which is kept aside."""
        if self.aside is not None:
            self.aside.keep(path)
        self.backend.replace(path, data)
        self.mended.append(Mended(path, how, len(data), whole))
