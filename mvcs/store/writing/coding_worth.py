"""Whether coding an exact layer is worth its time, from how long coding and writing took so far."""

from dataclasses import dataclass, field
from threading import Lock

# Below these, what was measured is mostly chance; small states are always coded.
_CODED, _WRITTEN = 16 << 20, 32 << 20
# What was measured long ago counts less: beyond so many bytes all sums are halved.
_REMEMBERED = 1 << 30


@dataclass
class CodingWorth:
    """Bytes and seconds of the exact chunks of a process. Safe to use from several threads.

    Attributes:
        raw: bytes that were coded.
        coded: bytes that they became.
        coding: seconds that took.
        written: bytes of exact layers that were written.
        writing: seconds that took.
    """

    raw: float = 0.0
    coded: float = 0.0
    coding: float = 0.0
    written: float = 0.0
    writing: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    @property
    def outruns(self) -> bool:
        """Whether the disk takes bytes as they are in less time than they take to be coded and written."""
        with self._lock:
            if self.raw < _CODED or self.written < _WRITTEN:
                return False
            return self.writing / self.written * (1.0 - self.coded / self.raw) < self.coding / self.raw

    def note_coded(self, raw: int, coded: int, seconds: float) -> None:
        """Count a chunk that was coded."""
        with self._lock:
            self.raw, self.coded, self.coding = _added(
                (self.raw, self.coded, self.coding), (raw, coded, seconds)
            )

    def note_written(self, count: int, seconds: float) -> None:
        """Count bytes that were written."""
        with self._lock:
            self.written, self.writing = _added((self.written, self.writing), (count, seconds))


def _added(sums: tuple[float, ...], more: tuple[float, ...]) -> tuple[float, ...]:
    share = 0.5 if sums[0] > _REMEMBERED else 1.0
    return tuple(share * old + new for old, new in zip(sums, more, strict=True))
