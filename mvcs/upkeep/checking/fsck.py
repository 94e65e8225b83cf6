"""fsck: every record, every pack, every object hashed again, and everything a commit needs is there."""

import pathlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from mvcs.errors import (
    CorruptionError,
    MvcsError,
    NotFoundError,
    StorageError,
    UsageError,
    raise_if_denied,
    some_of,
)
from mvcs.history import CountingGraph, Graph, Revision
from mvcs.local import HEAD_LOG, HeadLog, LocalRecords, SeenRefs, StoreWatch, is_known_file
from mvcs.objects import (
    ExactTensor,
    ObjectId,
    QuantizedTensor,
    Tree,
    is_prefix,
    is_record_name,
    record_name,
    short_id,
)
from mvcs.progress import Progress
from mvcs.refs import (
    HEADS,
    NOTES,
    REMOTES,
    TAGS,
    DamagedRecord,
    RefRecord,
    RefStore,
    check_note,
    check_tag,
    decode_name,
    encode_name,
    is_segment,
    lost_end_error,
    record_mark,
    recordless_error,
    refuse_ambiguous,
)
from mvcs.reports import FsckReport, Problem, as_size
from mvcs.restore import has_chunks, located_chunks, open_reading, value_key
from mvcs.retention import DataDrops, DropLog, pins_row, rules_row
from mvcs.store import (
    COPY_HINT,
    EXACT_FOLDER,
    FETCH_HINT,
    KNOWN,
    VALUE_FOLDER,
    Backend,
    ObjectStore,
    WrittenCommit,
    pack_name,
    pack_path,
    read_upgrades,
)
from mvcs.upkeep.checking.pack_check import FULL, Level, PackCheck

SAID = 72  # characters of a message
_LAYER = "exact layer"
_ON_THE_WAY = ("ref", "history", "commit")  # kinds of problems behind which more packs may be needed
NAMED = 4
_RECORDS = ("retention/drops", "format")  # of other folders later versions may say what lies there
KINDS = (HEADS, TAGS, REMOTES, NOTES)
LATER_KINDS = ("signatures",)  # reserved: this version looks into none of them
FOLDER = "refs"
PUSHED = "push"
_ANNOTATIONS = {TAGS: check_tag, NOTES: check_note}


@dataclass
class Fsck:
    """One check of a store. It only reads, and others may write meanwhile.

    Refs are read first, then what they lead to, and drops last: what goes while the check looks was given up
    before it went. What looked wrong for that reason alone is taken back at the end.

    Attributes:
        store: the store, freshly opened, so that nothing remembered hides a problem.
        refs: its refs.
        progress: is told the packs done.
        seen: what this clone saw of refs before; None for a bare store.
        unpublished: tells which packs operations of this clone have on record; None where nobody works, and a
            store without refs may be what a first push or a clone left.
        notes: what is worth knowing but not wrong.
    """

    store: ObjectStore
    refs: RefStore
    progress: Progress
    seen: SeenRefs | None = None
    unpublished: Callable[[], set[str]] | None = None
    notes: list[str] = field(default_factory=list)
    _found: list[tuple[Problem, str | None]] = field(default_factory=list)
    _reached: set[str] = field(default_factory=set)
    _commits: dict[ObjectId, Revision] = field(default_factory=dict)
    _layers: dict[str, ObjectId] = field(default_factory=dict)
    _blobs: set[tuple[ObjectId, int]] = field(default_factory=set)  # found, with the lengths trees name
    _tensors: set[ExactTensor | QuantizedTensor] = field(default_factory=set)  # with chunks as they need

    def __post_init__(self) -> None:
        """Look at nothing yet."""
        self._given_up = DataCheck(self.store)

    def run(self, level: Level, check_head: Callable[[], Revision | None] | None = None) -> FsckReport:
        """Check everything, and packs as far as a level says."""
        self.notes += (
            f"the store was upgraded for newer versions ('{found.name}'): "
            "what this one takes for lost or damaged may be as it should be"
            for found in read_upgrades(self.store.backend)
            if found.name not in KNOWN
        )
        self.notes += filter(None, [strays(self.store.backend)])
        self._retention()
        head = None if check_head is None else self._head(check_head)
        if self.seen is not None:
            self.seen.all()  # before the refs: another process may see more while they are read
        refs = RefCheck(self.store.backend, self.refs, self.seen, self._report, self.notes.append)
        rows = refs.rows()
        with self.store.catalog.settled():
            self._follow(rows, head)
            packs = PackCheck(self.store, self.progress, self._reached, self._layers, self.notes.append)
            packs.folder(VALUE_FOLDER, level)
            packs.folder(EXACT_FOLDER, level)
            packs.tell(self._report, self._commits.values(), self._given_up.dropped)
        refs.vanished(rows)
        # Before the refs are read again: what ended by then is behind one.
        unpublished = None if self.unpublished is None else self.unpublished()
        self._look_again()
        if unpublished is not None:
            self._nameless(rows, unpublished)
        dropped = self._dropped()
        self._given_up.tell(self.notes.append, self._commits)
        problems = [problem for problem, path in self._found if not self._is_over(path, dropped)]
        self._leftovers()
        return FsckReport(not problems, packs.objects, packs.size, problems, self.notes)

    def _follow(self, rows: Mapping[str, list[RefRecord]], head: Revision | None) -> None:
        """Check the commits that refs lead to, and those behind HEAD."""
        graph = CountingGraph(self.store)
        for name, revision in self._loaded(graph, _tips(rows)):
            self._history(graph, name, revision)
        if head is not None:
            self._history(graph, "HEAD", head)

    def remembered(self, local: pathlib.Path) -> None:
        """Check what a clone alone remembers."""
        for subject, error in LocalRecords(local).damaged():
            if subject == HEAD_LOG:
                self._report("HEAD", "reflog", error)
            else:  # a power cut may take what was written last of it
                self.notes.append(f"{error.message}; what it remembered is forgotten")
        doubt = HeadLog(local).doubt(0)
        if doubt is not None:
            self.notes.append(f"{doubt}; 'mvcs gc' keeps every commit until that is past its grace")

    def _report(
        self,
        kind: str,
        subject: str,
        error: MvcsError,
        pack: str | None = None,
        objects: Sequence[str] = (),
    ) -> None:
        """Report what is wrong; `pack` is where it lies, if it may be given up meanwhile."""
        raise_if_denied(error)
        self._found.append((Problem(kind, subject, error.message, _advice(error), list(objects)), pack))

    def _head(self, check_head: Callable[[], Revision | None]) -> Revision | None:
        try:
            return check_head()
        except MvcsError as error:
            self._report("HEAD", "HEAD", error)
            return None

    def _look_again(self) -> None:
        """Follow refs once more, as far as they moved: what was written meanwhile belongs to somebody."""
        graph = CountingGraph(self.store)
        for kind in (HEADS, TAGS, REMOTES):
            for record in self.refs.survey(kind).whole.values():
                with suppress(MvcsError):
                    tip = graph.load(record.target or ObjectId(b""))
                    for revision in graph.walk([tip], without=self._commits):
                        self._reach(revision)

    def _retention(self) -> None:
        """Read every record of rules and pins: behind a damaged one nobody can tell what may go."""
        for row in (rules_row(self.store.backend), pins_row(self.store.backend)):
            for path, error in row.faults():
                self._report("retention", path, error)

    def _nameless(self, rows: Mapping[str, list[RefRecord]], unpublished: set[str]) -> None:
        """Report commits of a store where no ref is left; one that lost some says so itself."""
        named = any(records for subject, records in rows.items() if not subject.startswith(f"{NOTES}/"))
        if named or any(problem.kind == "ref" for problem, _ in self._found):
            return
        found = {written.id: Revision(written) for written in self._ended(unpublished)}
        behind = {parent for revision in found.values() for parent in revision.commit.parents}
        newest = [identifier.hex() for identifier in found if identifier not in behind | self._commits.keys()]
        if newest:
            lost = NotFoundError(
                f"no branch or tag is left, and packs hold {len(found)} commits; "
                f"none is behind {', '.join(sorted(newest)[:3])}",
                hint="'mvcs branch NAME ID' names one again; 'mvcs fetch' brings the names a remote has",
            )
            self._report("ref", "refs", lost)

    def _ended(self, unpublished: set[str]) -> Iterable[WrittenCommit]:
        """Yield the commits that packs end which no operation has on record."""
        for footer in self.store.catalog.loaded():
            for written in footer.commits[:1]:
                if pack_path(written.pack) not in unpublished:
                    yield written

    def _reach(self, revision: Revision) -> None:
        self._commits[revision.id] = revision
        footer = self.store.catalog.attach(revision.written.pack)
        self._reached.update((revision.written.pack, *footer.needed, *revision.written.exact_packs))

    def _is_over(self, path: str | None, dropped: set[str]) -> bool:
        """Tell whether what was wrong with a pack went with it, as others may give it up while we look."""
        if path is None or self.store.backend.size(path) is not None:
            return False
        name = pack_name(path) or ""
        return name in dropped if path.startswith(f"{EXACT_FOLDER}/") else name not in self._reached

    def _dropped(self) -> set[str]:
        """Return which packs were given up; behind a damaged record, none counts as lost."""
        try:
            drops, damaged = DropLog(self.store.backend).survey()
        except MvcsError as error:
            drops, damaged = [], [error]
        dropped = {name for drop in drops for name in drop.packs}
        if not damaged:
            return dropped
        for problem in damaged:
            self._report("drop record", "retention/drops", problem)
        missing = {pack_name(path or "") or "" for found, path in self._found if found.kind == _LAYER}
        unknown = missing - dropped
        if unknown:
            self.notes.append(
                f"{len(unknown)} missing {'pack' if len(unknown) == 1 else 'packs'} of exact layers: "
                "dropped on purpose or lost, only the damaged record tells"
            )
        return dropped | unknown

    def _loaded(
        self, graph: Graph, tips: dict[str, tuple[ObjectId, str | None]]
    ) -> Iterable[tuple[str, Revision]]:
        for name, (target, pack) in tips.items():
            try:
                yield name, graph.load(target)
            except MvcsError as error:
                self._report("ref", name, error)

    def _history(self, graph: Graph, name: str, tip: Revision) -> None:
        try:
            for revision in graph.walk([graph.load(tip.id)]):
                if revision.id not in self._commits:
                    self._commits[revision.id] = revision
                    self._commit(revision)
        except MvcsError as error:
            self._report("history", name, error)

    def _commit(self, revision: Revision) -> None:
        subject = f"commit {short_id(revision.id)}"
        try:
            self._reach(revision)
            self.store.catalog.attach_all(self.store.catalog.attach(revision.written.pack).needed)
            reading = open_reading(self.store, revision, self.progress)
            for named in set(reading.tree.blobs()) - self._blobs:
                self.store.named_blob(*named)
                self._blobs.add(named)
            for tensor in {leaf.tensor for leaf in reading.tree.leaves} - self._tensors:
                self.store.check_lengths(tensor)
                self._tensors.add(tensor)
            self._given_up.check(revision, reading.tree)
        except (CorruptionError, NotFoundError) as error:
            self._report("commit", subject, CorruptionError(error.message, hint=FETCH_HINT))
        except MvcsError as error:
            self._report("commit", subject, error)
        self._layers |= dict.fromkeys(revision.written.exact_packs, revision.commit.tree)
        for path in (pack_path(name, exact=True) for name in revision.written.exact_packs):
            if self.store.backend.size(path) is None:
                lost = NotFoundError(
                    "a pack of its exact layer is missing and was not dropped on purpose", hint=COPY_HINT
                )
                self._report(_LAYER, subject, lost, path)

    def _leftovers(self) -> None:
        """Name the packs that nobody needs; where history ends early, nobody can tell."""
        if any(problem.kind in _ON_THE_WAY for problem, _ in self._found):
            self.notes.append("what is wrong with refs and commits hides which packs nobody needs")
            return
        paths = [path for folder in (VALUE_FOLDER, EXACT_FOLDER) for path in self.store.backend.list(folder)]
        left = {path: name for path in paths if (name := pack_name(path)) not in self._reached and name}
        commits = self._unnamed(left)
        before = list[int]()
        for path, name in left.items():
            size, revision = self.store.backend.size(path), commits.get(name)
            if size is not None and revision is not None and revision.id in self._commits:
                before.append(size)
            elif size is not None:
                self.notes.append(f"'{path}' ({as_size(size)}) {_whose(revision)}")
        if before:
            packs = "1 pack" if len(before) == 1 else f"{len(before)} packs"
            self.notes.append(
                f"{packs} ({as_size(sum(before))}) of commits rewritten are left: "
                "'mvcs gc' deletes what nothing needs"
            )

    def _unnamed(self, left: Mapping[str, str]) -> dict[str, Revision]:
        """Return the commits that no ref leads to, by the packs among those left that they need."""
        commits: dict[str, Revision] = {}
        for path, name in left.items():
            with suppress(MvcsError):
                footer = self.store.catalog.attach(name, exact=path.startswith(f"{EXACT_FOLDER}/"))
                for written in footer.commits[:1]:
                    commits |= dict.fromkeys((*written.exact_packs, *footer.own, name), Revision(written))
        return commits


def _tips(rows: Mapping[str, list[RefRecord]]) -> dict[str, tuple[ObjectId, str | None]]:
    return {
        name: (records[0].target, records[0].pack)
        for name, records in rows.items()
        if records and records[0].target is not None and not name.startswith(f"{NOTES}/")
    }


def _whose(revision: Revision | None) -> str:
    """Say of a pack what it may be that no ref leads to."""
    unnamed = "belongs to no commit of a branch or tag"
    if revision is None:
        return f"{unnamed}: left by interrupted work or a deleted branch, or being written"
    name, said = short_id(revision.id), revision.commit.message.partition("\n")[0][:SAID]
    called = f" '{said}'" if said else ""
    return f"{unnamed}, but to {name}{called}: 'mvcs branch NAME {name}' keeps that in sight"


@dataclass(frozen=True)
class CheckedClone:
    """What one clone knows of its store.

    Attributes:
        local: `.mvcs`.
        seen: what it saw of refs before.
        watch: tells of looks before, and is told what is damaged.
        check_head: returns the commit that HEAD stands on without a branch, and raises what is wrong with it.
        unpublished: tells which packs its operations have on record; None before it has a HEAD.
    """

    local: pathlib.Path
    seen: SeenRefs
    watch: StoreWatch
    check_head: Callable[[], Revision | None]
    unpublished: Callable[[], set[str]] | None


def check_store(
    store: ObjectStore, progress: Progress, level: Level = FULL, clone: CheckedClone | None = None
) -> FsckReport:
    """Check a store from its bytes, and what a clone of it knows.

    Args:
        store: the store, of which nothing was read yet.
        progress: is told the packs done.
        level: how far it looks into packs.
        clone: whose store it is; None for a bare one.
    """
    fsck = Fsck(store, RefStore(store.backend), progress)
    if clone is None:
        return fsck.run(level)
    fsck.seen, fsck.unpublished = clone.seen, clone.unpublished
    fsck.remembered(clone.local)
    looks = clone.watch.looks(store.backend)
    report = fsck.run(level, clone.check_head)
    if level == FULL:
        with suppress(StorageError):  # of a folder that cannot be written nothing is remembered
            clone.watch.checked(fsck.store.catalog.damaged)
    return replace(report, looks=looks)


def _advice(error: MvcsError) -> str | None:
    """Return the hint of an error without the advice to run fsck, which this is."""
    if error.hint is None:
        return None
    return "; ".join(part for part in error.hint.split("; ") if "'mvcs fsck'" not in part) or FETCH_HINT


@dataclass
class DataCheck:
    """Looks for the chunks of commits whose packs are attached.

    Attributes:
        store: where they lie.
    """

    store: ObjectStore
    _meanwhile: set[ObjectId] = field(default_factory=set)

    @cached_property
    def _drops(self) -> DataDrops:
        return DataDrops.of(self.store.backend)

    @property
    def dropped(self) -> Container[ObjectId]:
        """The commits whose data were dropped on purpose."""
        return self._drops.found.keys()

    def check(self, revision: Revision, tree: Tree) -> None:
        """Check that every chunk of a commit can be decoded, unless its data were dropped.

        Raises:
            NotFoundError: one is nowhere.
            CorruptionError: a chain of bases has no end.
        """
        if self._drops.get(revision.id) is not None and not all(
            has_chunks(self.store, leaf) for leaf in tree.leaves
        ):
            return
        try:
            self._locate(tree)
        except NotFoundError:
            # What goes while the check looks is on record before it goes.
            if DataDrops.of(self.store.backend).get(revision.id) is None:
                raise
            self._meanwhile.add(revision.id)

    def _locate(self, tree: Tree) -> None:
        for leaf in {value_key(leaf): leaf for leaf in tree.leaves}.values():
            for located in located_chunks(self.store, leaf):
                self.store.catalog.depth_of(located)

    def tell(self, note: Callable[[str], None], commits: Iterable[ObjectId]) -> None:
        """Say of how many of some commits the data were dropped, be they there until a collector comes."""
        dropped = sum(one in self.dropped or one in self._meanwhile for one in commits)
        if dropped:
            what = "1 commit" if dropped == 1 else f"{dropped} commits"
            note(f"the data of {what} were dropped on purpose; 'mvcs log' marks them")


def strays(backend: Backend) -> str | None:
    """Return what is worth knowing of files that are none of a store; nothing where there are none."""
    found = [name for name in backend.children("") if not is_known_file(name)]
    for folder in _RECORDS:
        found += [f"{folder}/{name}" for name in backend.children(folder) if not is_record_name(name)]
    if not found:
        return None
    names = some_of([f"'{path}'" for path in found], NAMED)
    are = "is no part of a store, and was" if len(found) == 1 else "are no part of a store, and were"
    return f"{names} {are} left alone"


@dataclass
class RefCheck:
    """One check of all refs of a store.

    Attributes:
        backend: the store.
        refs: its refs, without a memory, so that what is wrong is said once and here.
        seen: what this clone saw of them before; None for a bare store.
        report: is told what is wrong: a kind, a subject and the error.
        note: is told what was wrong and is dealt with.
    """

    backend: Backend
    refs: RefStore
    seen: SeenRefs | None
    report: Callable[[str, str, MvcsError], None]
    note: Callable[[str], None]

    def rows(self) -> dict[str, list[RefRecord]]:
        """Check all records and return the whole ones by `KIND/NAME`, newest first."""
        self._strays()
        return {
            f"{kind}/{name}": records
            for kind in KINDS
            for name in self._names(kind)
            if (records := self._row(kind, name)) is not None
        }

    def _names(self, kind: str) -> list[str]:
        try:
            return self.refs.listed(kind)
        except MvcsError as error:
            self.report("ref", kind, error)
            return []

    def _row(self, kind: str, name: str) -> list[RefRecord] | None:
        try:
            row = list(self.refs.row(kind, name))
        except MvcsError as error:
            self.report("ref", f"{kind}/{name}", error)
            return None
        if not row:
            self.note(recordless_error(kind, name).message)
        records = [found for found in row if isinstance(found, RefRecord)]
        damage = [found for found in row if isinstance(found, DamagedRecord)]
        self._damaged(kind, name, damage)
        for problem in (*_annotations(kind, name, records), lost_end_error(kind, name, row)):
            if problem is not None:
                self.report("ref", f"{kind}/{name}", problem)
        self._seen_before(kind, name, records, {found.number for found in damage})
        return records

    def _damaged(self, kind: str, name: str, damage: list[DamagedRecord]) -> None:
        """Report what is damaged; what the record after it was knowingly written on is only worth a note."""
        for found in damage:
            if found.passed_over:
                self.note(f"{found.error.message}; it was passed over by the record after it")
            else:
                self.report("ref", f"{kind}/{name}", found.error)

    def _strays(self) -> None:
        """Report what is no record: it may hide one, and nothing reads it."""
        with suppress(MvcsError):
            for path in self._foreign():
                error = CorruptionError(f"'{path}' is no ref record", hint="move it out of the store")
                self.report("ref", path, error)

    def _foreign(self) -> Iterator[str]:
        children = self.backend.children
        known = (*KINDS, *LATER_KINDS)
        yield from (f"{FOLDER}/{name}" for name in children(FOLDER) if name not in known)
        for kind in KINDS:
            for segment in children(f"{FOLDER}/{kind}"):
                folder = f"{FOLDER}/{kind}/{segment}"
                if not is_segment(segment) or not _may_be_called(kind, decode_name(segment)):
                    yield folder
                else:
                    yield from (f"{folder}/{name}" for name in children(folder) if not is_record_name(name))

    def _seen_before(
        self, kind: str, name: str, records: list[RefRecord], damaged: Collection[int] = ()
    ) -> None:
        seen = None if self.seen is None else self.seen.seen(kind, name)
        if seen is None or self.seen is None or seen[0] in damaged:
            return  # reported as damaged
        number, told = seen
        same = next((record for record in records if record.number == number), None)
        if same is None and records and records[0].number > number:
            return  # trimmed since
        if same is None or record_mark(same) != told:
            state = "is gone" if same is None else "is another one now"
            error = CorruptionError(
                f"record {number} of '{name}', which was seen here, {state}: it was set back",
                hint=f"copy '{FOLDER}/{kind}/{encode_name(name)}/{record_name(number)}' "
                "from a clone or a backup; "
                f"to continue from what is there, {self.seen.how_to_forget()}",
            )
            self.report("ref", f"{kind}/{name}", error)

    def vanished(self, rows: dict[str, list[RefRecord]]) -> None:
        """Report names that lost all their records, and commits that were pushed and are unheard of."""
        for subject in self.seen.all() if self.seen is not None else ():
            kind, _, name = subject.partition("/")
            if kind in KINDS and name not in self._names(kind):
                self._seen_before(kind, name, [])
        for subject, records in rows.items():
            kind, _, tracked = subject.partition("/")
            if kind == REMOTES:
                self._pushed(tracked, [record for record in records if record.action == PUSHED])

    def _pushed(self, tracked: str, records: list[RefRecord]) -> None:
        """What was pushed from a branch here stood in its row, which keeps all its newest records."""
        remote, _, name = tracked.partition("/")
        try:
            row = list(self.refs.history(HEADS, name))
        except MvcsError:
            return  # reported where the row was read
        if row and row[-1].number != 0:
            return
        known = {record.target for record in row}
        for record in records:
            if record.target is not None and record.target not in known:
                error = NotFoundError(
                    f"commit {short_id(record.target)} was pushed from '{name}' to '{remote}', "
                    "and no record of the branch names it: it was set back",
                    hint=f"'mvcs branch NAME {short_id(record.target)}' keeps it in sight",
                )
                self.report("ref", f"{HEADS}/{name}", error)


def _annotations(kind: str, name: str, records: list[RefRecord]) -> Iterator[MvcsError]:
    """Decode the tags and notes that records carry, and compare them with what the records name."""
    check = _ANNOTATIONS.get(kind)
    for record in records if check is not None else ():
        try:
            if record.target is not None and check is not None:
                check(name, record)
        except MvcsError as error:
            yield error


def _may_be_called(kind: str, name: str) -> bool:
    if kind == NOTES:
        return len(name) == 64 and is_prefix(name)
    try:
        refuse_ambiguous(name)
    except UsageError:
        return False
    return True
