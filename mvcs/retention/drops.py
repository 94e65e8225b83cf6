"""Drop records: which exact layers were given up on purpose, so that dropped differs from lost.

`docs/format/drops.md` is the specification.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import ConflictError, CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.objects import MAX_NUMBER, ObjectId, Pairs, as_id, as_integer, as_list, as_pairs, cbor, seal, unseal
from mvcs.retention.record_row import RecordRow
from mvcs.store import UNREADABLE_ERRORS, Backend, refuse_changes

FOLDER = "retention/drops"
FOLDED = 64
ITEMS = 4  # of a drop, the last one not always there
_MAGIC = b"MVCSDRP1"
MAX_RECORD = 64 << 20
ATTEMPTS = 8


@dataclass(frozen=True)
class Drop:
    """The exact layer of one commit, which was given up.

    Attributes:
        commit: whose it was.
        packs: the names of the packs of the layer.
        time: microseconds since 1970-01-01 UTC.
        more: what a later version says of it, which is kept; None for nothing.
    """

    commit: ObjectId
    packs: tuple[str, ...]
    time: int
    more: Pairs | None = None

    @property
    def item(self) -> list[cbor.Value]:
        """The encoded form in a record."""
        said = [] if self.more is None else [[list(pair) for pair in self.more]]
        return [self.commit, [bytes.fromhex(name) for name in self.packs], self.time, *said]


@dataclass(frozen=True)
class DropRecord:
    """A numbered record of drops; every 64th takes over those of the records before it.

    Attributes:
        number: 0 for the first; never reused.
        drops: what was given up.
    """

    number: int
    drops: tuple[Drop, ...]

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return seal(_MAGIC, [self.number, [drop.item for drop in self.drops]])

    @classmethod
    def decode(cls, data: bytes) -> "DropRecord":
        """Read the bytes of a record.

        Raises:
            CorruptionError: they are damaged.
            UnsupportedFormatError: another version wrote them.
        """
        value = unseal(_MAGIC, data, "a drop record", MAX_RECORD)
        number, drops = as_list(value, "a drop record", 2)
        return cls(
            as_integer(number, "a record's number", 0, MAX_NUMBER + 1),
            tuple(map(_drop, as_list(drops, "drops"))),
        )


def _drop(value: cbor.Value) -> Drop:
    items = as_list(value, "a drop")
    commit, packs, time = as_list(items[:3], "a drop", 3)
    if len(items) > ITEMS:
        raise UnsupportedFormatError("a drop says more than this version knows", hint="upgrade mvcs")
    more = as_pairs(items[3], "what a drop says") if len(items) == ITEMS else None
    names = tuple(as_id(pack).hex() for pack in as_list(packs, "a drop's packs"))
    return Drop(as_id(commit), names, as_integer(time, "a drop's time", -(1 << 62), 1 << 62), more)


def drops_row(backend: Backend) -> RecordRow[DropRecord]:
    """Return the drop records of a store."""
    return RecordRow(backend, FOLDER, "a drop record", DropRecord.decode, MAX_RECORD, None)


class DropLog:
    """The drop records of a store."""

    def __init__(self, backend: Backend) -> None:
        """Keep the records in `backend`."""
        self._backend, self._row = backend, drops_row(backend)

    def append(self, drops: tuple[Drop, ...]) -> DropRecord:
        """Record drops durably; only then may their packs be deleted.

        Raises:
            UnsupportedFormatError: a newer mvcs upgraded the store.
        """
        refuse_changes(self._backend)
        while True:
            newest = self._row.newest_number()
            number = 0 if newest is None else newest + 1
            try:
                folded, taken = self._folded(number)
                record = DropRecord(number, (*folded, *drops))
                self._backend.create(self._row.path(number), record.encode())
            except (ConflictError, NotFoundError):
                continue  # another writer took the number, or folded the same records, first
            if self._is_counted(record):
                self._delete_folded(number, taken)
                return record
            self._backend.delete(self._row.path(number))

    def drops(self) -> Iterator[Drop]:
        """Yield everything that was given up, newest record first.

        Raises:
            CorruptionError: a record is damaged.
            NotFoundError: records go faster than they can be read.
        """
        found, damaged = self.survey()
        if damaged:
            raise damaged[0]
        yield from found

    def survey(self) -> tuple[list[Drop], list[MvcsError]]:
        """Return what readable records say was given up, newest first, and what is wrong with the others.

        Raises:
            CorruptionError: something else lies among the records.
            NotFoundError: records go faster than they can be read.
        """
        for attempt in reversed(range(ATTEMPTS)):
            newest, numbers = self._row.newest_number(), self._numbers()
            live = _live(numbers)
            # A folding that goes on while we list or read: it is there when we look again.
            if attempt and not _is_whole(live, newest):
                continue
            try:
                return self._read(numbers, set(live))
            except NotFoundError:
                if not attempt:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def numbered(self) -> list[tuple[int, Drop]]:
        """Return every drop with the number of its record, newest first, as far as records can be read.

        The order is that of the records, which counts, and not that of the clocks of those who wrote them.
        """
        found: dict[bytes, tuple[int, Drop]] = {}  # what is folded stands in two records for a moment
        for number in self._numbers():
            with suppress(CorruptionError, NotFoundError, UnsupportedFormatError):
                for drop in reversed(self._row.load(number).drops):
                    found.setdefault(cbor.dumps(drop.item), (number, drop))
        return list(found.values())

    def _read(self, numbers: list[int], live: set[int]) -> tuple[list[Drop], list[MvcsError]]:
        drops: list[Drop] = []
        damaged: list[MvcsError] = []
        for number in numbers:
            try:
                record = self._row.load(number)
            except NotFoundError:
                if number in live:
                    raise
            except (CorruptionError, UnsupportedFormatError) as error:
                damaged.append(error)
            else:
                drops += reversed(record.drops) if number in live else ()
        return drops, damaged

    def _folded(self, number: int) -> tuple[list[Drop], set[int]]:
        """Return the drops that record `number` takes over, and from which records: every 64th does so.

        One that is damaged, or of a later version, stays where it is, and tells that something was dropped.
        """
        drops: list[Drop] = []
        taken: set[int] = set()
        for old in range(number - FOLDED + 1, number) if number % FOLDED == FOLDED - 1 else ():
            try:
                drops += self._row.load(old).drops
                taken.add(old)
            except NotFoundError:
                if self._backend.size(self._row.path(number)) is not None:
                    raise
            except (CorruptionError, UnsupportedFormatError):
                continue
        return drops, taken

    def _is_counted(self, record: DropRecord) -> bool:
        """Tell whether no folding left the record out: one frees numbers, which a sleeper may take."""
        fold = record.number - record.number % FOLDED + FOLDED - 1
        if record.number == fold or self._backend.size(self._row.path(fold)) is None:
            return True
        taken = self._row.load(fold).drops
        return all(drop in taken for drop in record.drops)

    def _delete_folded(self, number: int, taken: set[int]) -> None:
        """Remove records that a later one took over, those included that an interrupted writer left."""
        if number % FOLDED == FOLDED - 1:
            for old in self._numbers():
                if old < number and old % FOLDED != FOLDED - 1 and (old in taken or self._is_readable(old)):
                    self._backend.delete(self._row.path(old))

    def _is_readable(self, number: int) -> bool:
        try:
            self._row.load(number)
        except UNREADABLE_ERRORS:
            return False
        return True

    def _numbers(self) -> list[int]:
        return self._row.numbers()[::-1]


def _live(numbers: list[int]) -> list[int]:
    """Return the records that no listed one took over; those others may be deleted at any moment."""
    folded = {number // FOLDED for number in numbers if number % FOLDED == FOLDED - 1}
    return [n for n in numbers if n % FOLDED == FOLDED - 1 or n // FOLDED not in folded]


def _is_whole(live: list[int], newest: int | None) -> bool:
    """Tell whether no record is missing, as when some were folded while the folder was being listed."""
    count = max(live[0] if live else -1, -1 if newest is None else newest) + 1
    folds = range(FOLDED - 1, count, FOLDED)
    return sorted(live) == [*folds, *range(count - count % FOLDED, count)]
