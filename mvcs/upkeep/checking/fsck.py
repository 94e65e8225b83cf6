"""fsck: every record, every pack, every object hashed again, and everything a commit needs is there."""

import pathlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from mvcs.errors import (
    CorruptionError,
    MvcsError,
    NotFoundError,
    StorageError,
    UsageError,
    raise_if_denied,
    some_of,
)
from mvcs.history import Graph, Revision
from mvcs.local import HEAD_LOG, HeadLog, LocalRecords, SeenRefs, StoreWatch, is_known_file
from mvcs.objects import ObjectId, is_prefix, is_record_name, record_name, short_id
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
from mvcs.remotes import Completeness
from mvcs.reports import FsckReport, Problem, as_size
from mvcs.retention import DropLog, pinned, pins_row, rules_row
from mvcs.store import (
    COPY_HINT,
    EXACT_FOLDER,
    FETCH_HINT,
    KNOWN,
    UNREADABLE_ERRORS,
    VALUE_FOLDER,
    Backend,
    ChunkPlace,
    ObjectStore,
    Placement,
    manifest_path,
    pack_name,
    pack_path,
    read_upgrades,
)
from mvcs.upkeep.checking.pack_check import FULL, Level, PackCheck

SAID = 72  # characters of a message
_LAYER = "exact layer"
_ON_THE_WAY = ("ref", "manifest", "commit")  # kinds of problems behind which more packs may be needed
NAMED = 4
_RECORDS = ("retention/drops", "format")  # of other folders later versions may say what lies there
KINDS = (HEADS, TAGS, REMOTES, NOTES)
LATER_KINDS = ("signatures",)  # reserved: this version looks into none of them
FOLDER = "refs"
PUSHED = "push"
_ANNOTATIONS = {TAGS: check_tag, NOTES: check_note}


@dataclass(frozen=True)
class _Found:
    """A problem, and what it is over with.

    Attributes:
        problem: what is wrong.
        path: the pack that it is about; None where it is about something else.
        commit: the commit that it is about, likewise.
    """

    problem: Problem
    path: str | None = None
    commit: ObjectId | None = None


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
    _found: list[_Found] = field(default_factory=list)
    _reached: set[str] = field(default_factory=set)
    _beside: dict[str, set[str]] = field(default_factory=dict)
    _commits: dict[ObjectId, Revision] = field(default_factory=dict)
    _placements: dict[ObjectId, Placement] = field(default_factory=dict)
    _layers: dict[str, ObjectId] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at nothing yet."""
        self._complete = Completeness(self.store)
        self._graph = Graph(self.store)

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
        others = [] if head is None else [head.id]
        with suppress(MvcsError):  # it was told what is wrong with pins
            others += pinned(self.store.backend)
        with self.store.catalog.settled():
            self._follow([*_tips(rows), *others])
            packs = PackCheck(
                self.store, self.progress, self._reached, self._beside, self._layers, self.notes.append
            )
            packs.folder(VALUE_FOLDER, level)
            packs.folder(EXACT_FOLDER, level)
            hidden = not self._commits or any(one.problem.kind in _ON_THE_WAY for one in self._found)
            # Of a commit without any pack all but its manifest was given up.
            bare = {commit for commit, placement in self._placements.items() if not placement.packs}
            revisions = [one for commit, one in self._commits.items() if commit not in bare]
            packs.tell(self._report, revisions, self._given_up(), hidden=hidden)
        refs.vanished(rows)
        # Before the refs are read again: what was published by then is behind one.
        unpublished = None if self.unpublished is None else self.unpublished()
        live = self._look_again(others)
        if unpublished is not None:
            self._nameless(rows, unpublished)
        dropped = self._dropped()
        drops = [placement.dropped for placement in self._placements.values() if placement.dropped]
        lost = sum(drop.is_loss for drop in drops)
        for count, how in ((len(drops) - lost, "dropped on purpose"), (lost, "lost and given up")):
            if count:
                what = "1 commit" if count == 1 else f"{count} commits"
                self.notes.append(f"the data of {what} were {how}; 'mvcs log' marks them")
        self._found = [one for one in self._found if not self._is_over(one, dropped, live)]
        self._leftovers()
        problems = [one.problem for one in self._found]
        return FsckReport(not problems, packs.objects, packs.size, problems, self.notes)

    @property
    def damaged(self) -> set[ChunkPlace]:
        """Where damage was found, but for packs that went meanwhile and that no commit needs."""
        gone = {
            name
            for name, exact in {place[:2] for place in self.store.catalog.damaged}
            if name not in self._reached and self.store.backend.size(pack_path(name, exact=exact)) is None
        }
        return {place for place in self.store.catalog.damaged if place[0] not in gone}

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
        path: str | None = None,
        objects: Sequence[str] = (),
        commit: ObjectId | None = None,
    ) -> None:
        """Report what is wrong; `path` is where it lies, `commit` whose it is, if that may go meanwhile."""
        raise_if_denied(error)
        problem = Problem(kind, subject, error.message, _advice(error), list(objects))
        self._found.append(_Found(problem, path, commit))

    def _head(self, check_head: Callable[[], Revision | None]) -> Revision | None:
        try:
            return check_head()
        except MvcsError as error:
            self._report("HEAD", "HEAD", error)
            return None

    def _retention(self) -> None:
        """Read every record of rules and pins: behind a damaged one nobody can tell what may go."""
        for row in (rules_row(self.store.backend), pins_row(self.store.backend)):
            for path, error in row.faults():
                self._report("retention", path, error)

    def _follow(self, tips: Iterable[ObjectId]) -> None:
        """Check the commits that refs, HEAD and pins lead to."""
        listed = self.store.manifests.listed()
        for commit, revision in commits_behind(tips, self._load):
            is_whole = self._records(commit, listed.get(commit, []))
            if isinstance(revision, Revision):
                self._commits[commit] = revision
                self._commit(revision)
            elif is_whole:
                self._report("commit", f"commit {short_id(commit)}", revision, commit=commit)

    def _load(self, commit: ObjectId) -> Revision:
        return self._commits.get(commit) or self._graph.load(commit)

    def _records(self, commit: ObjectId, listed: Sequence[int]) -> bool:
        """Read every record of a commit's manifest; tell whether all are whole."""
        manifests, is_whole = self.store.manifests, True
        # What was written behind the listing is asked for by its name.
        for number in sorted({0, *(listed or manifests.numbers(commit))}):
            try:
                manifests.numbered(commit, number)
            except MvcsError as error:
                if not (number and isinstance(error, NotFoundError)):  # it was superseded, and collected
                    self._report("manifest", manifest_path(commit, number), error, commit=commit)
                    is_whole = False
        return is_whole

    def _commit(self, revision: Revision) -> None:
        subject = f"commit {short_id(revision.id)}"
        try:
            placement = self._placement(revision)
        except MvcsError:
            placement = None  # it was reported with the record
        try:
            if placement is not None:
                self._check(revision, placement)
        except (CorruptionError, NotFoundError) as error:
            told = CorruptionError(error.message, hint=FETCH_HINT)
            self._report("commit", subject, told, commit=revision.id)
        except MvcsError as error:
            self._report("commit", subject, error, commit=revision.id)
        self._layers |= dict.fromkeys(revision.written.exact_packs, revision.commit.tree)
        for path in (pack_path(name, exact=True) for name in revision.written.exact_packs):
            if self.store.backend.size(path) is None:
                lost = NotFoundError(
                    "a pack of its exact layer is missing and was not dropped on purpose", hint=COPY_HINT
                )
                self._report(_LAYER, subject, lost, path, commit=revision.id)

    def _placement(self, revision: Revision) -> Placement:
        """Return where the data of a commit lie now; its packs count as needed."""
        placement = self._placements[revision.id] = self.store.manifests.placement(revision.id)
        self._reached.update((*placement.packs, *revision.written.exact_packs))
        for name in placement.own:
            self._beside.setdefault(name, set()).update(placement.packs)
        return placement

    def _check(self, revision: Revision, placement: Placement) -> None:
        """Check that a commit can be decoded from the packs of its placement; it may be moved meanwhile."""
        while True:
            try:
                self._complete.check(revision, placement.packs, data=placement.dropped is None)
            except UNREADABLE_ERRORS:
                before, placement = placement, self._placement(revision)
                if placement.number == before.number:
                    raise
            else:
                return

    def _given_up(self) -> list[ObjectId]:
        """Return the commits whose data were dropped on purpose."""
        return [commit for commit, placement in self._placements.items() if placement.dropped is not None]

    def _look_again(self, others: Iterable[ObjectId]) -> set[ObjectId]:
        """Follow refs once more: what was written meanwhile belongs to somebody, and what went to nobody.

        Returns:
            The commits that refs, HEAD and pins lead to now.
        """
        tips = [
            record.target
            for kind in (HEADS, TAGS, REMOTES)
            for record in self.refs.survey(kind).whole.values()
            if record.target is not None
        ]
        listed, live = self.store.manifests.listed(), set[ObjectId]()
        before, self._placements, self._reached = self._placements, {}, set()
        for commit, revision in commits_behind([*tips, *others], self._load):
            live.add(commit)
            known = before.get(commit)
            if not isinstance(revision, Revision):
                continue
            self._commits[commit] = revision
            if known is not None and listed.get(commit, [0])[0] == known.number:
                self._placements[commit] = known
                self._reached.update((*known.packs, *revision.written.exact_packs))
                continue
            with suppress(MvcsError):
                self._placement(revision)
        return live

    def _nameless(self, rows: Mapping[str, list[RefRecord]], unpublished: set[str]) -> None:
        """Report commits of a store where no ref is left; one that lost some says so itself."""
        named = any(records for subject, records in rows.items() if not subject.startswith(f"{NOTES}/"))
        if named or any(one.problem.kind == "ref" for one in self._found):
            return
        found = {revision.id: revision for revision in self._published(unpublished)}
        behind = {parent for revision in found.values() for parent in revision.commit.parents}
        newest = [identifier.hex() for identifier in found if identifier not in behind | self._commits.keys()]
        if newest:
            lost = NotFoundError(
                f"no branch or tag is left, and packs hold {len(found)} commits; "
                f"none is behind {', '.join(sorted(newest)[:3])}",
                hint="'mvcs branch NAME ID' names one again; 'mvcs fetch' brings the names a remote has",
            )
            self._report("ref", "refs", lost)

    def _published(self, unpublished: set[str]) -> Iterator[Revision]:
        """Yield the commits of the store but for those that an operation has on record."""
        for commit in self.store.manifests.listed():
            with suppress(MvcsError):
                manifest = self.store.manifests.first(commit)
                if not unpublished.issuperset(map(pack_path, manifest.placement.own)):
                    yield Revision(manifest.written)

    def _is_over(self, one: _Found, dropped: set[str], live: set[ObjectId]) -> bool:
        """Tell whether what was wrong went with what it was about: others may give that up while we look."""
        if one.commit is not None and one.commit not in live:
            return True
        if one.path is None or self.store.backend.size(one.path) is not None:
            return False
        name = pack_name(one.path) or ""
        return name not in self._reached or (one.path.startswith(f"{EXACT_FOLDER}/") and name in dropped)

    def _dropped(self) -> set[str]:
        """Return which exact packs were given up; behind a damaged record, none counts as lost."""
        try:
            drops, damaged = DropLog(self.store.backend).survey()
        except MvcsError as error:
            drops, damaged = [], [error]
        dropped = {name for drop in drops for name in drop.packs}
        if not damaged:
            return dropped
        for problem in damaged:
            self._report("drop record", "retention/drops", problem)
        missing = {pack_name(one.path or "") or "" for one in self._found if one.problem.kind == _LAYER}
        unknown = missing - dropped
        if unknown:
            self.notes.append(
                f"{len(unknown)} missing {'pack' if len(unknown) == 1 else 'packs'} of exact layers: "
                "dropped on purpose or lost, only the damaged record tells"
            )
        return dropped | unknown

    def _leftovers(self) -> None:
        """Name the packs that nobody needs; where history ends early, nobody can tell."""
        if any(one.problem.kind in _ON_THE_WAY for one in self._found):
            self.notes.append("what is wrong with refs and commits hides which packs nobody needs")
            return
        paths = [path for folder in (VALUE_FOLDER, EXACT_FOLDER) for path in self.store.backend.list(folder)]
        left = {path: name for path in paths if (name := pack_name(path)) not in self._reached and name}
        commits = self._owners() if left else {}
        before = list[int]()
        for path, name in left.items():
            size, revision = self.store.backend.size(path), commits.get(name)
            if size is not None and revision is not None and revision.id in self._placements:
                before.append(size)
            elif size is not None:
                self.notes.append(f"'{path}' ({as_size(size)}) {_whose(revision)}")
        if before:
            packs = "1 pack is" if len(before) == 1 else f"{len(before)} packs are"
            self.notes.append(
                f"{packs} left of commits that were stored again ({as_size(sum(before))}): "
                "'mvcs gc' deletes what nothing needs"
            )

    def _owners(self) -> dict[str, Revision]:
        """Return the commits that packs were written for, as far as no ref leads to them or they moved."""
        found: dict[str, Revision] = {}
        manifests = self.store.manifests
        for commit, numbers in manifests.listed().items():
            if commit in self._placements and len(numbers) == 1:
                continue
            with suppress(MvcsError):
                written = manifests.first(commit).written
                for number in numbers:
                    found |= dict.fromkeys(manifests.numbered(commit, number).own, Revision(written))
                found |= dict.fromkeys(written.exact_packs, Revision(written))
        return found


def commits_behind(
    tips: Iterable[ObjectId], load: Callable[[ObjectId], Revision]
) -> Iterator[tuple[ObjectId, Revision | MvcsError]]:
    """Yield each commit behind some once, tips first, or why it cannot be read.

    Args:
        tips: where to begin.
        load: returns a commit.
    """
    queue, met = deque(tips), set[ObjectId]()
    while queue:
        commit = queue.popleft()
        if commit in met:
            continue
        met.add(commit)
        try:
            revision = load(commit)
            queue.extend(revision.commit.parents)
        except MvcsError as error:
            yield commit, error
        else:
            yield commit, revision


def _tips(rows: Mapping[str, list[RefRecord]]) -> list[ObjectId]:
    return [
        records[0].target
        for name, records in rows.items()
        if records and records[0].target is not None and not name.startswith(f"{NOTES}/")
    ]


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
            clone.watch.checked(fsck.damaged)
    return replace(report, looks=looks)


def _advice(error: MvcsError) -> str | None:
    """Return the hint of an error without the advice to run fsck, which this is."""
    if error.hint is None:
        return None
    return "; ".join(part for part in error.hint.split("; ") if "'mvcs fsck'" not in part) or FETCH_HINT


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
