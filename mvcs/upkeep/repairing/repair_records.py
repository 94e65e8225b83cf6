"""Damaged records of refs, rules, pins and drops: a flipped bit is turned back, or a record follows them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, StorageError, UnsupportedFormatError
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId, record_name, short_id
from mvcs.refs import (
    HEADS,
    NOTES,
    REMOTES,
    TAGS,
    DamagedRecord,
    FoundRecord,
    RefChange,
    RefRecord,
    RefStore,
    check_note,
    check_tag,
    encode_name,
    now_microseconds,
)
from mvcs.reports import Mended
from mvcs.retention import (
    Drop,
    DropLog,
    DropRecord,
    Keeps,
    Layer,
    PinRecord,
    RecordRow,
    Rule,
    RuleRecord,
    drops_row,
    pins_row,
    rules_row,
)
from mvcs.store import (
    UNREADABLE_ERRORS,
    Backend,
    ObjectStore,
    odd_is_damage,
    pack_path,
    turned_back,
)
from mvcs.upkeep.repairing.workspace import SetAside, Source, WantedPacks

MAX_RECORD = 1 << 20
_FURTHEST = 1000  # numbers between two records: what lies further away is none of the row
_CENTURY = 100 * 365 * 86400 * 1_000_000
KEEP_ALL = tuple(Rule(layer, Keeps.NEWER, (_CENTURY,)) for layer in (Layer.EXACT, Layer.DATA))
Rows = RecordRow[RuleRecord] | RecordRow[PinRecord]
RECORD_SEARCH = 1 << 29  # bytes: records of up to 8 KiB
FLIPPED = "a flipped bit was corrected"


@dataclass
class RefRepair:
    """Mends records of refs.

    Attributes:
        store: the store, whose packs were mended before.
        refs: its refs.
        sources: stores of the same project.
        aside: keeps what others take the place of; None in a rehearsal.
        author: who repairs.
        unpublished: paths of packs that operations at work have on record: no ref named them yet.
        note: is told what cannot be mended, and why.
        mended: what was.
    """

    store: ObjectStore
    refs: RefStore
    sources: Sequence[Source]
    aside: SetAside | None
    author: str
    unpublished: set[str]
    note: Callable[[str], None]
    mended: list[Mended] = field(default_factory=list)

    def run(self) -> None:
        """Mend what can be mended; of names that cannot, nothing is changed."""
        for kind in (REMOTES, TAGS, NOTES, HEADS):
            for name in self._listed(kind):
                try:
                    self._turn_back(kind, name)
                    self._pass_over(kind, name)
                except StorageError:
                    raise
                except MvcsError as error:  # of this name; another writer may have been first
                    self.note(f"'{name}' was not mended: {error.message}")

    def _listed(self, kind: str) -> list[str]:
        try:
            return self.refs.listed(kind)
        except MvcsError as error:
            self.note(error.message)
            return []

    def _turn_back(self, kind: str, name: str) -> None:
        above: FoundRecord | None = None
        for found in list(self.refs.row(kind, name)):
            if isinstance(found, DamagedRecord) and not found.passed_over:
                path = f"refs/{kind}/{encode_name(name)}/{record_name(found.number)}"
                with suppress(*UNREADABLE_ERRORS):
                    self._turn_back_record(path, found.number, above)
            above = found

    def _turn_back_record(self, path: str, number: int, above: FoundRecord | None) -> None:
        wanted = above.previous if isinstance(above, RefRecord) else None
        try:
            data = self.store.backend.read_small(path, MAX_RECORD)
        except StorageError:
            return  # of what a disk does not give, or what is no file, no bit can be turned back
        records = TurnedRecords(self.store.backend, self.aside, self.mended)
        records.turn_back(path, data, lambda tried: _is_record(tried, number, wanted))

    def _pass_over(self, kind: str, name: str) -> None:
        """Write the next record where the newest is damaged: what it said, as far as anything tells."""
        top = self.refs.top(kind, name)
        if not isinstance(top, DamagedRecord) or isinstance(top.error, UnsupportedFormatError):
            return  # what a newer version wrote is no damage
        ways = {HEADS: self._branch, TAGS: self._tag, REMOTES: self._tracked, NOTES: self._notes}
        for change in ways[kind](name):
            record = self.refs.update(kind, name, self.refs.top(kind, name), change)
            path = f"refs/{kind}/{encode_name(name)}/{record.key}"
            stands = "" if record.target is None or kind == NOTES else f" at {short_id(record.target)}"
            how = f"'{name}' stands{stands} again: {change.action.partition(': ')[2]}"
            self.mended.append(Mended(path, how, len(record.encode()), whole=kind != HEADS))

    def _tag(self, name: str) -> Iterator[RefChange]:
        for source, record in self._elsewhere(TAGS, name):
            check_tag(name, record)
            yield self._change(record, f"as in {source}", record.content)
            return
        self.note(f"where the tag '{name}' stood is not known: no remote has it")

    def _tracked(self, name: str) -> Iterator[RefChange]:
        remote, _, branch = name.partition("/")
        for source, record in self._elsewhere(HEADS, branch):
            if source == f"'{remote}'":
                yield self._change(record, "as it stands over there")
                return

    def _notes(self, name: str) -> Iterator[RefChange]:
        have = {one.target for one in self.refs.row(NOTES, name) if isinstance(one, RefRecord)}
        for source in self.sources:
            for record in reversed(list(RefStore(source.backend).row(NOTES, name))):
                if isinstance(record, RefRecord) and record.target not in have:
                    check_note(name, record)
                    have.add(record.target)
                    yield self._change(record, f"as in {source.name}", record.content)

    def _branch(self, name: str) -> Iterator[RefChange]:
        graph = Graph(self.store)
        last = self.refs.last_whole(HEADS, name)
        stood = None if last is None else last.target
        found: dict[ObjectId, Revision] = {}
        for revision in (*self._named_elsewhere(graph, name), *self._unnamed(graph, name)):
            if stood is None or graph.is_ancestor(stood, revision):
                found[revision.id] = revision
        tip = next((one for one in found.values() if _is_behind_all(graph, one, found)), None)
        if tip is None:
            several = ", ".join(short_id(identifier) for identifier in found) or "none is left that may be it"
            self.note(f"where the branch '{name}' stood is not known: {several}")
            return
        action = "repair: its newest record is damaged, and this is the newest commit that it can have named"
        yield RefChange(tip.id, self.author, action)

    def _named_elsewhere(self, graph: Graph, name: str) -> Iterator[Revision]:
        """Yield where remotes have the branch, as far as the commits are here."""
        records = [record for _, record in self._elsewhere(HEADS, name)]
        tracked = self.refs.survey(REMOTES).whole
        records += [record for other, record in tracked.items() if other.partition("/")[2] == name]
        for record in records:
            with suppress(*UNREADABLE_ERRORS):
                yield graph.load(record.target or ObjectId(b""))

    def _unnamed(self, graph: Graph, branch: str) -> Iterator[Revision]:
        """Yield the newest commits of the store that no ref of another name leads to."""
        named: set[ObjectId] = set()
        for kind in (HEADS, TAGS, REMOTES):
            for name, record in self.refs.survey(kind).whole.items():
                if kind == REMOTES and name.partition("/")[2] == branch:
                    continue
                with suppress(*UNREADABLE_ERRORS):
                    tip = graph.load(record.target or ObjectId(b""))
                    named.update(one.id for one in graph.walk([tip], without=frozenset(named)))
        found: dict[ObjectId, Revision] = {}
        for commit in self.store.manifests.listed():
            with suppress(*UNREADABLE_ERRORS):
                own = self.store.manifests.first(commit).placement.own
                if commit not in named and not self.unpublished.issuperset(map(pack_path, own)):
                    found[commit] = graph.load(commit)
        behind = {parent for one in found.values() for parent in one.commit.parents}
        yield from (one for one in found.values() if one.id not in behind)

    def _elsewhere(self, kind: str, name: str) -> Iterator[tuple[str, RefRecord]]:
        """Yield what sources have under a name, if its commit is here."""
        graph = Graph(self.store)
        for source in self.sources:
            with suppress(MvcsError):
                record = RefStore(source.backend).read(kind, name)
                if record is not None and record.target is not None:
                    graph.load(record.target)
                    yield source.name, record

    def _change(self, record: RefRecord, how: str, content: bytes = b"") -> RefChange:
        return RefChange(record.target, self.author, f"repair: {how}", content)


def _is_record(data: bytes, number: int, wanted: bytes | None) -> bool:
    try:
        record = RefRecord.decode(data)
    except UNREADABLE_ERRORS:
        return False
    return record.number == number and wanted in (None, bytes(32), record.digest)


def _is_behind_all(graph: Graph, tip: Revision, others: Iterable[ObjectId]) -> bool:
    """Tell whether a commit has all others behind it."""
    try:
        return all(graph.is_ancestor(other, tip) for other in others)
    except UNREADABLE_ERRORS:
        return False


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


@dataclass
class DropRepair:
    """Mends drop records.

    Attributes:
        wanted: tells of commits and their exact layers.
        aside: keeps what others take the place of; None in a rehearsal.
        note: is told what is taken for granted.
        mended: what was mended.
    """

    wanted: WantedPacks
    aside: SetAside | None
    note: Callable[[str], None]
    mended: list[Mended] = field(default_factory=list)

    def run(self) -> None:
        """Mend each record that is damaged; one that a newer version wrote is left alone."""
        row = drops_row(self.wanted.store.backend)
        try:
            with odd_is_damage():
                numbers = row.numbers()
        except CorruptionError as error:
            self.note(f"{error.message}; it was left alone")
            return
        for number in reversed(numbers):
            try:
                row.load(number)
            except NotFoundError:
                continue  # it was folded
            except (CorruptionError, UnsupportedFormatError) as error:
                self._mend(row, number, error)

    def _mend(self, row: RecordRow[DropRecord], number: int, error: MvcsError) -> None:
        path = row.path(number)
        records = TurnedRecords(row.backend, self.aside, self.mended)
        if records.turn_back(path, _bytes_of(row, path), partial(row.is_good, number)):
            return
        if isinstance(error, UnsupportedFormatError):
            return
        record = DropRecord(number, self._absent())
        packs = sum(len(drop.packs) for drop in record.drops)
        self.note(f"'{path}' was damaged: {packs} exact packs that are not there count as dropped on purpose")
        how = "it names what is not there, as the one before may have"
        records.put(path, record.encode(), how, whole=False)

    def _absent(self) -> tuple[Drop, ...]:
        """Return drops of all exact packs that commits name, that are not there, and that no record names."""
        backend, time = self.wanted.store.backend, now_microseconds()
        known = {name for drop in DropLog(backend).survey()[0] for name in drop.packs}
        found = []
        for revision in self.wanted.revisions():
            names = (name for name in revision.written.exact_packs if name not in known)
            gone = tuple(name for name in names if backend.size(pack_path(name, exact=True)) is None)
            if gone:
                found.append(Drop(revision.id, gone, time))
        return tuple(found)


def _bytes_of(row: RecordRow[DropRecord], path: str) -> bytes:
    """Return the bytes of a damaged record; of what is larger than one nothing can be turned back."""
    try:
        return row.backend.read_small(path, row.limit)
    except CorruptionError:
        return b""


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
