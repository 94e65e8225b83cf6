"""Damaged records of rules and pins: what cannot be had back keeps everything until rules are set anew."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.objects import ObjectId
from mvcs.refs import now_microseconds
from mvcs.reports import Mended
from mvcs.retention import Keeps, Layer, PinRecord, RecordRow, Rule, RuleRecord, pins_row, rules_row
from mvcs.store import Backend
from mvcs.upkeep.repairing.set_aside import SetAside
from mvcs.upkeep.repairing.turned_records import TurnedRecords

_FURTHEST = 1000  # numbers between two records: what lies further away is none of the row
_CENTURY = 100 * 365 * 86400 * 1_000_000
KEEP_ALL = tuple(Rule(layer, Keeps.NEWER, (_CENTURY,)) for layer in (Layer.EXACT, Layer.DATA))
Rows = RecordRow[RuleRecord] | RecordRow[PinRecord]


@dataclass
class RuleRepair:
    """Mends the rows of rules and pins.

    Attributes:
        backend: the store.
        aside: keeps what is taken out; None in a rehearsal.
        author: who repairs.
        note: is told what is kept from now on.
        mended: what was mended.
    """

    backend: Backend
    aside: SetAside | None
    author: str
    note: Callable[[str], None]
    mended: list[Mended] = field(default_factory=list)

    def run(self) -> None:
        """Mend both rows. Who cannot tell which rules or pins were in force keeps everything."""
        rules, pins = rules_row(self.backend), pins_row(self.backend)
        unknown_rules, unknown_pins = self._is_unknown(rules), self._is_unknown(pins)
        if unknown_pins:
            named = self._pins(pins)
            self._fill(pins, lambda number: PinRecord(number, named, now_microseconds(), self.author))
        if unknown_rules or (unknown_pins and rules.numbers()):
            self._fill(rules, lambda number: RuleRecord(number, KEEP_ALL, now_microseconds(), self.author))
            what = "rules" if unknown_rules else "pins"
            self.note(f"{what} were lost: everything is kept until 'mvcs retention set' sets rules again")

    def _is_unknown(self, row: Rows) -> bool:
        """Turn flipped bits back, take out what stays damaged, and tell whether anything is missing."""
        taken = False
        last = -1
        for number in row.numbers():
            try:
                row.load(number)
            except CorruptionError as error:
                if self._turn_back(row, number):
                    last = number
                    continue
                self._take_out(row.path(number), error)
                taken = True
                continue
            except NotFoundError:
                continue
            except UnsupportedFormatError:
                return False  # a later version knows more
            if number - last > _FURTHEST:
                self._take_out(row.path(number), CorruptionError("it lies far beyond the others"))
                taken = True
            else:
                last = number
        numbers = row.numbers()
        return taken or numbers != list(range(len(numbers)))

    def _turn_back(self, row: Rows, number: int) -> bool:
        path = row.path(number)
        try:
            data = self.backend.read_small(path, row.limit)
        except MvcsError:
            return False
        records = TurnedRecords(self.backend, self.aside, self.mended)
        return records.turn_back(path, data, partial(row.is_good, number))

    def _take_out(self, path: str, error: MvcsError) -> None:
        if self.aside is not None:
            self.aside.keep(path)
        self.backend.delete(path)
        self.mended.append(Mended(path, f"taken out: {error.message}", 0, whole=False))

    @staticmethod
    def _pins(row: RecordRow[PinRecord]) -> dict[ObjectId, str]:
        """Return all that was ever pinned: of a pin too many nothing is lost."""
        found: dict[ObjectId, str] = {}
        for number in row.numbers():
            found |= row.load(number).pins
        return found

    def _fill(self, row: Rows, make: Callable[[int], RuleRecord | PinRecord]) -> None:
        """Put a record at each number that is missing, and one more that is in force."""
        numbers = row.numbers()
        end = max(numbers, default=-1) + 1
        for number in sorted(set(range(end + 1)).difference(numbers)):
            record = make(number)
            self.backend.create(row.path(number), record.encode())
            self.mended.append(
                Mended(row.path(number), "it keeps everything", len(record.encode()), whole=False)
            )
