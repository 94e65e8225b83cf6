"""The log of condemned packs, as one collector or writer has read it so far."""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import count

from mvcs.errors import ConflictError, CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.objects import MAX_NUMBER, is_record_name, record_number
from mvcs.store.backend import Backend
from mvcs.store.backend.odd_files import odd_is_damage
from mvcs.store.condemned.record import FOLDER, MAX_PACKS, MAX_RECORD, CondemnedRecord, Standing, record_path

FURTHEST = 1 << 12  # numbers between two records: what lies further away is none of the log


class CondemnedLog:
    """Reads the records of a store in their order, and adds the next one.

    Attributes:
        newest: number of the newest record that was read; -1 for none.
        unread: what is wrong with records that are damaged or lost, by number.
    """

    def __init__(self, backend: Backend, clock: Callable[[], int]) -> None:
        """Begin with nothing read; `clock` gives microseconds."""
        self._backend = backend
        self._clock = clock
        self._records: dict[str, CondemnedRecord] = {}
        self._said: list[CondemnedRecord] = []
        self.newest = -1
        self.unread: dict[int, MvcsError] = {}

    def of(self, *standings: Standing) -> set[str]:
        """Return the packs that stand so by what was read."""
        return {name for name, record in self._records.items() if record.standing in standings}

    def standing(self, pack: str) -> CondemnedRecord | None:
        """Return the newest record that names a pack."""
        return self._records.get(pack)

    def said(self, standing: Standing, after: int = -1) -> set[str]:
        """Return the packs of which that was said, in records behind a number, whatever was said later."""
        records = (record for record in self._said if record.number > after)
        return {name for record in records if record.standing is standing for name in record.packs}

    def look(self) -> None:
        """Read what was added; records that cannot be read are passed over.

        Raises:
            StorageError: the log cannot be read to its end.
        """
        for number in self._numbers():
            try:
                record = self._load(number)
            except (CorruptionError, NotFoundError, UnsupportedFormatError) as error:
                self.unread[number] = error
            else:
                self._take(record)
            self.newest = number

    def _numbers(self) -> Iterator[int]:
        """Yield the numbers that come next: those of a listing, then by name, since a listing may be late."""
        names = self._backend.children(FOLDER)
        numbers = (record_number(name) for name in names if is_record_name(name))
        fresh = self._joined(sorted(number for number in numbers if number > max(self.newest, 0)))
        first = self._first(fresh[0]) if fresh else self.newest + 1
        # Where the oldest were trimmed, number 0 stays, and what it says is long past.
        if self.newest >= 0 or first > 1:
            yield from range(first, fresh[-1] + 1) if fresh else ()
        elif fresh:
            yield from range(fresh[-1] + 1)
        for number in count(self.newest + 1):
            if not self._is_there(number):
                return
            yield number

    def _joined(self, listed: list[int]) -> list[int]:
        """Leave out files that bear numbers no writer has come to: they may be anybody's."""
        found: list[int] = []
        last = self.newest
        for number in listed:
            is_far = last > 0 and number - last > FURTHEST
            if is_far or number > MAX_NUMBER - FURTHEST:
                break
            found.append(number)
            last = number
        return found

    def _first(self, listed: int) -> int:
        """Return the oldest record that is new, by name: a listing may leave some out."""
        while listed > max(self.newest + 1, 1) and self._is_there(listed - 1):
            listed -= 1
        return listed

    def _is_there(self, number: int) -> bool:
        return self._backend.size(record_path(number)) is not None

    def _load(self, number: int) -> CondemnedRecord:
        path = record_path(number)
        with odd_is_damage():
            data = self._backend.read_small(path, MAX_RECORD)
        record = CondemnedRecord.decode(data)
        if record.number != number:
            raise CorruptionError(f"'{path}' lies under the number of another record")
        return record

    def say(self, standing: Standing, packs: Iterable[str], author: str) -> CondemnedRecord:
        """Add a record behind the newest that was read.

        Raises:
            ConflictError: another one was added meanwhile: look, and think again.
            StorageError: it cannot be written.
        """
        names = tuple(sorted(packs))[:MAX_PACKS]
        number = self.newest + 1
        record = CondemnedRecord(number, standing, names, self._clock(), author)
        self._backend.create(record.path, record.encode())
        self.newest = number
        self._take(record)
        return record

    def _take(self, record: CondemnedRecord) -> None:
        self._said.append(record)
        self._records.update(dict.fromkeys(record.packs, record))

    def say_of(
        self, standing: Standing, packs: Callable[[], Collection[str]], author: str
    ) -> CondemnedRecord | None:
        """Add a record of the packs of which that is to be said once all before it was read; None for none.

        Args:
            standing: what to say.
            packs: gives the packs by what was read so far; it is asked again when another record came first.
            author: who says it.

        Raises:
            StorageError: the log cannot be read or written.
        """
        while True:
            self.look()
            names = packs()
            if not names:
                return None
            try:
                return self.say(standing, names, author)
            except ConflictError:
                continue

    def trim(self, is_old: Callable[[str], bool]) -> None:
        """Delete the oldest records while none of their packs is condemned or going; the first one stays.

        Args:
            is_old: tells whether a record, by its path, was written so long ago that everybody has read it.
        """
        names = self._backend.children(FOLDER)
        numbers = sorted(record_number(name) for name in names if is_record_name(name))
        live = self.of(Standing.CONDEMNED, Standing.GOING)
        for number in numbers:
            if number == 0:
                continue
            if number >= self.newest or number in self.unread:
                return
            if not live.isdisjoint(self._load(number).packs) or not is_old(record_path(number)):
                return
            self._backend.delete(record_path(number))
