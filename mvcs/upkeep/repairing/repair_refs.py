"""Records of refs that are damaged: a bit turned back where that proves itself, else a record behind them.

What a branch stood on is told by commits that nothing else names, and by what remotes have of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.errors import MvcsError, StorageError, UnsupportedFormatError
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
)
from mvcs.reports import Mended
from mvcs.store import UNREADABLE_ERRORS, ObjectStore, commit_footers, pack_path
from mvcs.upkeep.repairing.set_aside import SetAside
from mvcs.upkeep.repairing.sources import Source
from mvcs.upkeep.repairing.turned_records import TurnedRecords

MAX_RECORD = 1 << 20


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
        yield RefChange(tip.id, tip.written.pack, self.author, action)

    def _named_elsewhere(self, graph: Graph, name: str) -> Iterator[Revision]:
        """Yield where remotes have the branch, as far as the commits are here."""
        records = [record for _, record in self._elsewhere(HEADS, name)]
        tracked = self.refs.survey(REMOTES).whole
        records += [record for other, record in tracked.items() if other.partition("/")[2] == name]
        for record in records:
            with suppress(*UNREADABLE_ERRORS):
                yield graph.load(record.target or ObjectId(b""), record.pack)

    def _unnamed(self, graph: Graph, branch: str) -> Iterator[Revision]:
        """Yield the newest commits of the store that no ref of another name leads to."""
        named: set[ObjectId] = set()
        for kind in (HEADS, TAGS, REMOTES):
            for name, record in self.refs.survey(kind).whole.items():
                if kind == REMOTES and name.partition("/")[2] == branch:
                    continue
                with suppress(*UNREADABLE_ERRORS):
                    tip = graph.load(record.target or ObjectId(b""), record.pack)
                    named.update(one.id for one in graph.walk([tip], without=frozenset(named)))
        ended: dict[ObjectId, Revision] = {}
        with suppress(*UNREADABLE_ERRORS):
            for footer, _ in commit_footers(self.store.backend):
                graph.learn(footer)
                for written in footer.commits:
                    if pack_path(written.pack) not in self.unpublished and written.id not in named:
                        ended[written.id] = Revision(written)
        behind = {parent for one in ended.values() for parent in one.commit.parents}
        yield from (one for one in ended.values() if one.id not in behind)

    def _elsewhere(self, kind: str, name: str) -> Iterator[tuple[str, RefRecord]]:
        """Yield what sources have under a name, if its commit is here."""
        graph = Graph(self.store)
        for source in self.sources:
            with suppress(MvcsError):
                record = RefStore(source.backend).read(kind, name)
                if record is not None and record.target is not None:
                    graph.load(record.target, record.pack)
                    yield source.name, record

    def _change(self, record: RefRecord, how: str, content: bytes = b"") -> RefChange:
        return RefChange(record.target, record.pack, self.author, f"repair: {how}", content)


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
