"""One record of the log of condemned packs: how some packs stand from here on.

`docs/format/condemned.md` is the specification; this module is the only reader and writer of these bytes.
"""

from dataclasses import dataclass
from enum import IntEnum

from mvcs.errors import UnsupportedFormatError
from mvcs.objects import MAX_NUMBER, as_id, as_integer, as_list, as_text, record_name, seal, unseal

FOLDER = "gc"
MAX_RECORD = 1 << 26
MAX_PACKS = 1 << 20
"""Packs that a writer puts into one record."""
_MAGIC = b"MVCSCND1"
_TIME_LIMIT = 1 << 62


class Standing(IntEnum):
    """How a pack stands by the newest record that names it."""

    CONDEMNED = 0
    RELEASED = 1
    GOING = 2
    GONE = 3


@dataclass(frozen=True)
class CondemnedRecord:
    """What is said of some packs, of either layer.

    Attributes:
        number: 0 for the first of the store.
        standing: what is said.
        packs: names of the packs.
        time: microseconds since 1970-01-01 UTC.
        author: who says it.
    """

    number: int
    standing: Standing
    packs: tuple[str, ...]
    time: int
    author: str

    @property
    def path(self) -> str:
        """Where the record lies."""
        return record_path(self.number)

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        names = [bytes.fromhex(name) for name in self.packs]
        return seal(_MAGIC, [self.number, int(self.standing), list(names), self.time, self.author])

    @classmethod
    def decode(cls, data: bytes) -> "CondemnedRecord":
        """Read the bytes of a record.

        Raises:
            CorruptionError: they are damaged.
            UnsupportedFormatError: a later version wrote them.
        """
        what = "a record of packs marked for deletion"
        number, kind, packs, time, author = as_list(unseal(_MAGIC, data, what, MAX_RECORD), what, 5)
        standing = as_integer(kind, "a record's kind")
        if standing not in set(Standing):
            raise UnsupportedFormatError(f"packs stand in a way {standing}", hint="upgrade mvcs")
        return cls(
            as_integer(number, "a record's number", 0, MAX_NUMBER + 1),
            Standing(standing),
            tuple(as_id(name).hex() for name in as_list(packs, "a record's packs")),
            as_integer(time, "a record's time", -_TIME_LIMIT, _TIME_LIMIT),
            as_text(author, "a record's author"),
        )


def record_path(number: int) -> str:
    """Return where the record of a number lies."""
    return f"{FOLDER}/{record_name(number)}"
