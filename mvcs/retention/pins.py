"""Pins: commits that keep both layers whatever the rules say.

`docs/format/retention.md` is the specification.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mvcs.errors import CorruptionError
from mvcs.objects import MAX_NUMBER, ObjectId, as_id, as_integer, as_list, as_text, cbor, seal, unseal
from mvcs.refs import now_microseconds
from mvcs.retention.record_row import RecordRow
from mvcs.store import Backend

FOLDER = "retention/pins"
MAX_RECORD = 1 << 22
_MAGIC = b"MVCSPIN1"
_TIME_LIMIT = 1 << 62
Change = Callable[[Mapping[ObjectId, str]], Mapping[ObjectId, str]]


@dataclass(frozen=True)
class PinRecord:
    """All commits that are pinned from a time on.

    Attributes:
        number: 0 for the first of the store.
        pins: why, by commit.
        time: microseconds since 1970-01-01 UTC.
        author: who changed them.
    """

    number: int
    pins: Mapping[ObjectId, str]
    time: int
    author: str

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        pins: list[cbor.Value] = [[commit, reason] for commit, reason in self.pins.items()]
        return seal(_MAGIC, [self.number, pins, self.time, self.author])

    @classmethod
    def decode(cls, data: bytes) -> "PinRecord":
        """Read the bytes of a record.

        Raises:
            CorruptionError: they are damaged, or name a commit twice.
            UnsupportedFormatError: another version wrote them.
        """
        what = "a record of pins"
        number, pins, time, author = as_list(unseal(_MAGIC, data, what, MAX_RECORD), what, 4)
        items = [as_list(pin, "a pin", 2) for pin in as_list(pins, "pins")]
        named = {as_id(commit): as_text(reason, "a pin's reason") for commit, reason in items}
        if len(named) != len(items):
            raise CorruptionError("a record of pins names a commit twice")
        return cls(
            as_integer(number, "a record's number", 0, MAX_NUMBER + 1),
            named,
            as_integer(time, "a record's time", -_TIME_LIMIT, _TIME_LIMIT),
            as_text(author, "a record's author"),
        )


def pins_row(backend: Backend) -> RecordRow[PinRecord]:
    """Return the records of pins of a store."""
    return RecordRow(backend, FOLDER, "a record of pins", PinRecord.decode, MAX_RECORD)


def pinned(backend: Backend) -> Mapping[ObjectId, str]:
    """Return why commits are pinned, by commit.

    Raises:
        CorruptionError: the newest record is damaged or lost, so that nobody can tell.
        UnsupportedFormatError: a later version wrote it.
    """
    record = pins_row(backend).newest()
    return {} if record is None else record.pins


def pin(backend: Backend, commit: ObjectId, reason: str, author: str) -> PinRecord:
    """Pin a commit, or change why it is pinned."""
    return _changed(backend, author, lambda pins: {**pins, commit: reason})


def unpin(backend: Backend, commit: ObjectId, author: str) -> PinRecord:
    """Take a pin away; rules decide from then on."""
    return _changed(backend, author, lambda pins: {key: why for key, why in pins.items() if key != commit})


def _changed(backend: Backend, author: str, change: Change) -> PinRecord:
    def make(newest: PinRecord | None, number: int) -> PinRecord:
        pins = change({} if newest is None else newest.pins)
        return PinRecord(number, pins, now_microseconds(), author)

    return pins_row(backend).append(make)
