"""What is remembered of refs from one look to the next: a newest record that vanishes is missed."""

from typing import Protocol

from mvcs.errors import CorruptionError
from mvcs.refs.record import RefRecord


class RolledBackError(CorruptionError):
    """A ref stands at an older record than was seen before, or at another one of that number."""


class RefMemory(Protocol):
    """Remembers the newest record of each ref that was ever seen. Losing it loses no more than the check."""

    def seen(self, kind: str, name: str) -> tuple[int, str] | None:
        """Return number and mark of the newest record that was seen; None when none was."""

    def saw(self, kind: str, name: str, record: RefRecord, *, wrote: bool = False) -> None:
        """Remember a record that is newer than what was seen; at once when this process `wrote` it."""

    def missed(self, error: RolledBackError) -> None:
        """Tell a person, once, what whoever only reads goes on in spite of."""

    def how_to_forget(self) -> str:
        """Return what a person does to go on from what is there."""


def record_mark(record: RefRecord) -> str:
    """Return what tells a record from another one of its number."""
    return record.digest.hex()[:16]
