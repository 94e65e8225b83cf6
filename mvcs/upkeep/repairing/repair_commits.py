"""Manifests that are damaged or lost are made again, and what commits lack is brought from any copy of it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, groupby

from mvcs.errors import (
    ConflictError,
    CorruptionError,
    LostError,
    MvcsError,
    NotFoundError,
    StorageError,
    UnsupportedFormatError,
)
from mvcs.history import Graph, Revision
from mvcs.objects import Blob, Kind, ObjectId, object_id, short_id
from mvcs.progress import Progress
from mvcs.refs import Moved, now_microseconds
from mvcs.remotes import Claims, Completeness, Decodable
from mvcs.reports import Mended
from mvcs.retention import dropped_why
from mvcs.store import (
    DROPPED_DATA,
    UNREADABLE_ERRORS,
    DataDrop,
    Located,
    Manifest,
    Manifests,
    ObjectStore,
    Overlay,
    Placement,
    RestoreLimits,
    Rewriter,
    WrittenCommit,
    decode_placement,
    encode_placement,
    exact_packs,
    has_upgrade,
    is_no_file,
    last_entry,
    manifest_path,
    pack_path,
    salvage,
    value_packs,
)
from mvcs.upkeep.checking.fsck import commits_behind
from mvcs.upkeep.repairing.repair_records import TurnedRecords
from mvcs.upkeep.repairing.workspace import PackKey, SetAside, Source, WantedPacks

MADE_AGAIN = "it was made again"
MOVED = "it names other packs that hold the same"
GIVEN_UP = "a record that was damaged may have said so"
_LIMITS = RestoreLimits(max_depth=1 << 10, max_cost=1e15)
_MOST = 1 << 24


@dataclass
class CommitRepair:
    """Mends manifests, and sees that all of a commit lies in packs that are whole.

    Attributes:
        wanted: tells which commits the store has to have.
        sources: stores of the same project, the likeliest first.
        aside: keeps what is taken out; None in a rehearsal.
        author: who repairs.
        progress: is told the commits done.
        allow: is told what objects unpack to, and raises where that is too much.
        note: is told what does not come, and why.
        mended: what came and what was taken out.
        at_work: names of packs that running operations have on record.
        all_asked: whether every remote is among the sources.
        needless: lost packs that no commit needs any more.
        hopeless: why commits could not be mended.
    """

    wanted: WantedPacks
    sources: Sequence[Source]
    aside: SetAside | None
    author: str
    progress: Progress
    allow: Callable[[int], None]
    note: Callable[[str], None]
    at_work: frozenset[str] = frozenset()
    all_asked: bool = True
    mended: list[Mended] = field(default_factory=list)
    needless: set[PackKey] = field(default_factory=set)
    _lost: set[str] = field(default_factory=set)
    hopeless: dict[ObjectId, str] = field(default_factory=dict)
    _given_up: list[ObjectId] = field(default_factory=list)
    _uncounted: set[ObjectId] = field(default_factory=set)
    _view: ObjectStore | None = None

    # Manifests.

    def records(self) -> None:
        """Mend the manifests of all commits that refs and HEAD lead to, as far as anything tells of them."""
        due, graph = dict[ObjectId, list[int]](), Graph(self.wanted.store.apart())

        def load(commit: ObjectId) -> Revision:
            due[commit] = [0]  # until that is known
            numbers = sorted({0, *self._manifests.numbers(commit)})
            due[commit] = [number for number in numbers if not self._is_whole(commit, number)]
            return self._told(graph, commit)

        found = [item for item in commits_behind(self.wanted.tips(), load) if due[item[0]]]
        for commit, revision in reversed(
            found
        ):  # parents first: what lies in their packs is not the commit's
            try:
                if isinstance(revision, MvcsError):
                    raise revision
                for number in due[commit]:
                    self._mend_record(revision, number)
            except MvcsError as error:
                if isinstance(error, StorageError) and not is_no_file(error):
                    raise
                self.note(f"the manifest of commit {short_id(commit)} was not mended: {error.message}")
        self._view = None

    @property
    def _manifests(self) -> Manifests:
        return Manifests(self.wanted.store.backend)  # nothing of it is remembered

    def _is_whole(self, commit: ObjectId, number: int) -> bool:
        """Return whether a record is intact; one with a single flipped bit is mended first."""
        try:
            return self._manifests.numbered(commit, number) is not None
        except NotFoundError:
            return number != 0  # it was superseded, and collected
        except UnsupportedFormatError:
            return True  # a newer version wrote it
        except CorruptionError:
            path = manifest_path(commit, number)
        try:
            data = self.wanted.store.backend.read_small(path, _MOST)
        except MvcsError:
            return False
        return self._turned.turn_back(path, data, lambda tried: _is_record(tried, commit, number))

    @cached_property
    def _turned(self) -> TurnedRecords:
        return TurnedRecords(self.wanted.store.backend, self.aside, self.mended)

    def _told(self, graph: Graph, commit: ObjectId) -> Revision:
        """Return a commit as its manifest tells of it or that of a later one, or its pack, or another store.

        Raises:
            MvcsError: nothing does.
        """
        with suppress(MvcsError):
            return graph.load(commit)
        with suppress(MvcsError):
            return self._told_by_pack(commit)
        for source in self.sources:
            with suppress(MvcsError):
                written = Manifests(source.backend).first(commit).written
                known = {one.id: one for one in self.wanted.revisions()}
                Claims(known, exact_packs(self.wanted.store.backend), self._manifests).check(written)
                return Revision(written)
        raise NotFoundError(f"commit {short_id(commit)} is in no pack and no other store")

    def _told_by_pack(self, commit: ObjectId) -> Revision:
        view = self._listed()
        content = bytes(view.read(Kind.COMMIT, commit))
        footer = view.catalog.look(view.catalog.locate(commit).pack)
        told = last_entry(footer.entries, bytes(view.read(Kind.CHUNK, footer.entries[-1].ids[0])))
        if told is None:
            raise CorruptionError(f"the pack of commit {short_id(commit)} does not say its sizes")
        raw, stored, exact, depth = told.sizes
        stored += footer.tail.pack_length if footer.tail else 0
        self._uncounted.add(commit)
        return Revision(WrittenCommit(commit, content, raw, stored, exact, depth, told.exact_packs))

    def _listed(self) -> ObjectStore:
        """Return a view of every pack of the store whose footer can be read."""
        if self._view is None:
            self._view = self.wanted.store.apart()
            self._view.catalog.attach_everything()
        return self._view

    def _mend_record(self, revision: Revision, number: int) -> None:
        if number == 0:
            self._make_first(revision)
        else:
            is_newest = number == next(iter(self._manifests.numbers(revision.id)), number)
            self._replace(revision, number, is_newest=is_newest)

    def _make_first(self, revision: Revision) -> None:
        graph, parents = Graph(self.wanted.store.apart()), list[Revision]()
        for parent in revision.commit.parents:
            with suppress(*UNREADABLE_ERRORS):
                parents.append(graph.load(parent))
        placement, _ = self._placed(revision)
        manifest = Manifest(revision.written, placement, graph.ancestors(parents))
        manifest = manifest.counted() if revision.id in self._uncounted else manifest
        path, data, backend = manifest_path(revision.id, 0), manifest.encode(), self.wanted.store.backend
        if backend.size(path) is not None:
            self._turned.put(path, data, MADE_AGAIN, whole=False)
        else:
            backend.create(path, data)
            self.mended.append(Mended(path, MADE_AGAIN, len(data), whole=False))

    def _placed(self, revision: Revision) -> tuple[Placement, list[ObjectId]]:
        """Work out in which packs a commit lies, as far as it is there; return what is nowhere as well."""
        view = self._listed()
        packs, missing = dict[str, None](), list[ObjectId]()
        needs = {revision.commit.tree: Kind.TREE}
        with suppress(*UNREADABLE_ERRORS):
            needs = _needs(view, revision)
        for identifier in [*needs, revision.id]:
            try:
                packs |= dict.fromkeys(view.catalog.chain_of(view.catalog.locate(identifier)).packs)
            except UNREADABLE_ERRORS:
                missing.append(identifier)
        earlier = set[str]()
        for parent in revision.commit.parents:
            with suppress(*UNREADABLE_ERRORS):
                earlier.update(self._manifests.placement(parent).packs)
        with suppress(*UNREADABLE_ERRORS):
            earlier.discard(view.catalog.locate(revision.id).pack)
        own = tuple(name for name in packs if name not in earlier)
        return Placement(own, tuple(sorted(packs.keys() & earlier))), missing

    def _replace(self, revision: Revision, number: int, *, is_newest: bool) -> None:
        """Put what is true now in the place of a damaged record; where a newer one is there, take it out."""
        path = manifest_path(revision.id, number)
        if is_newest:
            placement = self._placement_again(revision, path)
            data = encode_placement(revision.id, replace(placement, number=number))
            self._turned.put(path, data, MADE_AGAIN, whole=False)
            return
        if self.aside is not None:
            self.aside.keep(path)
        self.wanted.store.backend.delete(path)
        self.mended.append(Mended(path, "taken out: another record says where the data lie", 0, whole=False))

    def _placement_again(self, revision: Revision, path: str) -> Placement:
        """Return where a commit lies, as far as it is anywhere; what is missing is what fsck tells of."""
        placement, missing = self._placed(revision)
        if not missing or revision.commit.tree in missing:
            return placement
        rest = {revision.id, *_needs(self._listed(), revision, data=False)}
        if not rest.isdisjoint(missing) or not has_upgrade(self.wanted.store.backend, DROPPED_DATA):
            return placement
        self.note(
            f"'{path}' was damaged, and of commit {short_id(revision.id)} only the history is there: its "
            "data count as dropped on purpose"
        )
        return replace(placement, dropped=DataDrop(now_microseconds(), why=GIVEN_UP))

    # What commits lack.

    def move(self, lost: Collection[PackKey]) -> None:
        """Bring what commits lack, or have in lost packs alone, into packs of other names."""
        values = {key for key in lost if not key.exact}
        named = values & self.wanted.names()
        self._lost.update(key.name for key in values)
        complete = Completeness(self.wanted.store.apart())
        due = (one for one in self.wanted.revisions() if one.id not in self.hopeless)
        lacking = [revision for revision in due if self._lacks(revision, complete)]
        if lacking:
            self.progress.start("mending commits", len(lacking), "commits")
            self._mend(lacking[::-1])
            self.progress.finish()
        # Damaged packs that no commit needs any more stay: a collector alone knows who may come to need them.
        is_known = not any(isinstance(found, MvcsError) for _, found in self.wanted.commits())
        self.needless |= (values if is_known else named) - self.wanted.names()

    def _lacks(self, revision: Revision, complete: Completeness) -> bool:
        try:
            placement = self._manifests.placement(revision.id)
            complete.check(revision, placement.packs, data=placement.dropped is None)
        except UNREADABLE_ERRORS:
            return True
        if placement.dropped is not None and placement.dropped.is_loss and self.sources:
            return True  # the data may have turned up
        return not self._lost.isdisjoint(placement.packs)

    def give_up(self, commits: Collection[ObjectId], heads: Collection[ObjectId]) -> list[ObjectId]:
        """Record that data of commits are lost, so that nothing waits for them; their manifests stay.

        Packs stay for the collector: somebody may come to need what is whole of them. What only the past of
        refs and of HEAD leads to is looked at as well, since a collector marks it.

        Args:
            commits: those of which something is lost.
            heads: commits that branches and HEAD stand on, whose data stay what they are.

        Returns:
            Those whose data were given up.
        """
        # What is stored near something lost is of no use to anybody.
        self._lost |= {place[0] for place in self._target().catalog.damaged}
        complete, drop = Completeness(self.wanted.store.apart()), DataDrop.of_loss(now_microseconds())
        lost = {*commits, *self.hopeless}.difference(heads)
        due = [one for one in self.wanted.ever() if one.id in lost or self._lacks(one, complete)]
        self._mend([one for one in due[::-1] if one.id not in heads], lost, drop)
        return self._given_up

    def _mend(
        self, revisions: Iterable[Revision], lost: Collection[ObjectId] = (), drop: DataDrop | None = None
    ) -> None:
        """Bring what commits lack; with `drop`, give up the data of those that are lost or lack something."""
        target, union = self._target(), self._union()
        for revision in revisions:
            try:
                self._mend_one(revision, target, union, drop, is_lost=revision.id in lost)
                self.hopeless.pop(revision.id, None)
            except MvcsError as error:
                self.hopeless[revision.id] = f"commit {short_id(revision.id)} was not mended: {error.message}"
            self.progress.advance(1)

    def _target(self) -> ObjectStore:
        """Return a view of the packs that stay, in which all is found that they decode without others.

        Those of operations at work may be deleted by these again: what they hold is stored once more.
        """
        view = self.wanted.store.apart()
        names = sorted(value_packs(view.backend) - self._lost - self.at_work)
        placed = []
        for name in names:
            with suppress(*UNREADABLE_ERRORS):
                placed += [(name, one) for one in view.catalog.attach(name).entries]
        there = Decodable((name, one.entry.base_ids, one.ids) for name, one in placed)
        gone = [(name, False, one.offset) for name, one in placed if not there.holds(one.entry.base_ids)]
        view.catalog.distrust(*gone)
        return view

    def _union(self) -> ObjectStore:
        """Return a view of every pack here and in the sources, of lost ones as far as they can be read."""
        backend = self.wanted.store.backend
        for source in reversed(self.sources):
            backend = Overlay(source.backend, backend) if backend is not source.backend else backend
        union = ObjectStore(backend, self.wanted.store.memory)
        for name in sorted(self._lost):
            with suppress(MvcsError):
                try:
                    union.catalog.attach(name)
                except CorruptionError:
                    salvage(union, name, exact=False)
        return union

    def _mend_one(
        self,
        revision: Revision,
        target: ObjectStore,
        union: ObjectStore,
        drop: DataDrop | None,
        *,
        is_lost: bool,
    ) -> None:
        manifests = self._manifests
        read = manifests.placement(revision.id)
        with suppress(MvcsError):  # what lies elsewhere is looked for there first
            union.catalog.attach_all(name for name in self._packs_elsewhere(revision.id))
        dropped = None if read.dropped is None or read.dropped.is_loss else read.dropped
        needs, missing = dict[ObjectId, Kind](), list[ObjectId]()
        try:
            if is_lost and dropped is None:
                raise LostError("something of it is lost")
            needs, missing = _readable(revision, target, union, data=dropped is None)
        except UNREADABLE_ERRORS:
            was, dropped = dropped, dropped or self._dropped_elsewhere(revision.id) or read.dropped or drop
            if dropped is None or (was is not None and drop is None):
                raise
            try:
                needs, missing = _readable(revision, target, union, data=False)
            except UNREADABLE_ERRORS:
                if drop is None and read.packs:
                    raise
                self._move(Moved(revision.id, Placement(dropped=dropped), read), {})
                return
        links = [union.catalog.locate(identifier) for identifier in missing]
        self.allow(sum(link.length for link in links))
        kept = [name for name in read.own if name not in self._lost and target.catalog.known(name)]
        rewriter = Rewriter(union, target, _LIMITS, salts=_salts(revision.id, read.number))
        try:
            for entry in _by_entry(union, links):
                is_due = not all(rewriter.holds(link.id) for link in entry)
                if is_due and not (_is_true(union, entry[0]) and rewriter.adopt(entry[0])):
                    rewriter.encode(entry, _bases, {})
            placement = rewriter.finish(revision.written, needs, kept)
            rewriter.prove()
            for identifier in missing:
                target.read(needs[identifier], identifier)
        finally:
            rewriter.close()
        there = all(target.catalog.known(name) for name in read.packs)
        if there and dropped == read.dropped and set(placement.packs) <= set(read.packs):
            return  # elsewhere it would lie no better
        homes = {link.pack for link in links}
        names = [one.name for one in self.sources if any(one.backend.size(pack_path(name)) for name in homes)]
        how = (
            f"copied from {' and '.join(names)}, out of other packs" if names else "stored again from others"
        )
        said = {pack_path(name): how for name in rewriter.packs}
        self._move(Moved(revision.id, replace(placement, dropped=dropped), read), said)

    def _move(self, move: Moved, said: Mapping[str, str]) -> None:
        """Record where a commit lies now, and say what was written for that."""
        backend = self.wanted.store.backend
        if replace(move.now, number=move.read.number) == move.read:
            return
        moved = self.wanted.refs.duties.move(self._manifests, [move], self.author)
        if not moved:
            raise ConflictError("another writer moved it meanwhile")
        if move.now.dropped is not None and move.now.dropped.is_loss and move.read.dropped is None:
            self._given_up.append(move.commit)
        paths = {**said, manifest_path(move.commit, moved[0].now.number): MOVED}
        self.mended += (Mended(path, how, backend.size(path) or 0) for path, how in paths.items())

    def _packs_elsewhere(self, commit: ObjectId) -> Iterator[str]:
        for source in self.sources:
            with suppress(MvcsError):
                yield from Manifests(source.backend).placement(commit).packs

    def _dropped_elsewhere(self, commit: ObjectId) -> DataDrop | None:
        """Return what a source says of data that were given up there; nothing while others may have them."""
        for source in self.sources if self.all_asked else ():
            with suppress(MvcsError):
                drop = Manifests(source.backend).placement(commit).dropped
                if drop is not None and not drop.is_loss and commit not in self.wanted.heads():
                    return replace(drop, rules=None, why=dropped_why(source.backend, drop))
        return None


def _readable(
    revision: Revision, target: ObjectStore, union: ObjectStore, *, data: bool
) -> tuple[dict[ObjectId, Kind], list[ObjectId]]:
    """Return what a commit needs, and which of that `target` lacks; all of these can be read from `union`.

    Raises:
        NotFoundError: something is nowhere.
        CorruptionError: or damaged.
    """
    needs = _needs(union, revision, data=data)
    missing = [identifier for identifier in needs if target.catalog.find(identifier) is None]
    for identifier in missing:
        union.read(needs[identifier], identifier)
    return needs, missing


def _needs(store: ObjectStore, revision: Revision, *, data: bool = True) -> dict[ObjectId, Kind]:
    """Return all objects of a commit's value layer but the commit, as far as these can be told.

    Raises:
        NotFoundError: the tree is nowhere.
        CorruptionError: it is damaged.
    """
    found = {revision.commit.tree: Kind.TREE}
    tree = store.tree(revision.commit.tree)
    if data:
        found |= dict.fromkeys((chunk for leaf in tree.leaves for chunk in leaf.value_chunks()), Kind.CHUNK)
    for identifier, _ in tree.blobs():
        found[identifier] = Kind.BLOB
        if data:
            found |= dict.fromkeys(Blob.decode(store.read(Kind.BLOB, identifier)).chunks, Kind.CHUNK)
    return found


def _by_entry(store: ObjectStore, links: Iterable[Located]) -> Iterator[list[Located]]:
    """Yield objects by the entries that they lie in, bases first."""
    ordered = sorted(links, key=lambda link: (store.catalog.depth_of(link), link.place))
    for _, members in groupby(ordered, key=lambda link: link.place):
        yield list(members)


def _is_true(store: ObjectStore, link: Located) -> bool:
    """Tell whether an entry holds all that its footer says, also of what nobody asked for."""
    try:
        for number, member in enumerate(link.placed.entry.members):
            store.read_copy(member.kind, link.placed.ids[number], link._replace(member=number))
    except UNREADABLE_ERRORS:
        return False
    return True


def _bases(link: Located) -> tuple[ObjectId, ...]:
    return link.placed.entry.base_ids[link.member : link.member + 1]


def _salts(commit: ObjectId, number: int) -> Callable[[int], bytes]:
    """Return what makes packs unlike those of other commands, which a rehearsal draws as well.

    Two repairs may so write the same pack: neither deletes it again.
    """
    start, drawn = b"repair" + commit + number.to_bytes(8), count()
    return lambda size: object_id(Kind.CHUNK, start + next(drawn).to_bytes(8))[:size]


def _is_record(data: bytes, commit: ObjectId, number: int) -> bool:
    try:
        return decode_placement(data, commit).number == number
    except UNREADABLE_ERRORS:
        return False
