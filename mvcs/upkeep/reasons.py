"""`mvcs why`: what keeps something in a store, or that nothing does; and which record gave it up."""

import datetime as dt
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.errors import MvcsError, NotFoundError, UsageError, some_of
from mvcs.history import Graph, Revision
from mvcs.local import Place
from mvcs.memory import NOTHING
from mvcs.objects import Blob, Kind, ObjectId, Tree, half, path_text, short_id
from mvcs.refs import HEADS, REMOTES, TAGS, DamagedRecord, RefRecord, RefStore, now_microseconds
from mvcs.reports import DROPPED, NEEDED, PAST, UNNEEDED, DropInfo, Why, WhyStep, as_utc
from mvcs.retention import Drop, DropLog, Ruling, dropped_why
from mvcs.store import (
    EXACT_FOLDER,
    UNREADABLE_ERRORS,
    VALUE_FOLDER,
    Backend,
    CondemnedLog,
    DataDrop,
    Footer,
    Manifests,
    ObjectStore,
    Standing,
    pack_name,
    pack_path,
)
from mvcs.upkeep.collecting.leftovers import held

_LEAVING = (Standing.CONDEMNED, Standing.GOING)
_NAMED = 5
COMMIT = Kind.COMMIT.name.lower()
_NOUNS = {HEADS: "branch", TAGS: "tag", REMOTES: "remote branch"}
_VALUE, EXACT_VALUES = "its values", "its exact values"
PACK = "pack"


@dataclass(frozen=True)
class Named:
    """One thing in a store.

    Attributes:
        kind: "commit", "tree", "chunk", "blob" or "pack".
        id: its id, or its name, in hexadecimal.
        packs: the paths of the packs where it lies.
        bytes: of its content, or of the pack; None where that was not asked.
    """

    kind: str
    id: str
    packs: tuple[str, ...]
    bytes: int | None = None

    @property
    def object(self) -> ObjectId:
        """Its id, if it has one."""
        return ObjectId(bytes.fromhex(self.id))

    @property
    def names(self) -> set[str]:
        """The names of these packs."""
        return {name for path in self.packs if (name := pack_name(path))}

    @classmethod
    def of_object(cls, store: ObjectStore, identifier: ObjectId, kind: Kind, length: int | None) -> "Named":
        """Return an object, with all places where it lies; every pack has to be attached."""
        copies = store.catalog.copies(identifier, exact=True)
        paths = {pack_path(copy.pack, exact=copy.exact) for copy in copies}
        return cls(kind.name.lower(), identifier.hex(), tuple(sorted(paths)), length)


@dataclass
class Users:
    """The objects that cannot be decoded without a given one, and how they lean on it.

    Attributes:
        steps: how many bases lie between, by half an object's id; 0 for the object itself.
        toward: the next object on the way down, likewise.
        known: kind and id of every object that was met, likewise.
    """

    steps: dict[ObjectId, int]
    toward: dict[ObjectId, ObjectId] = field(default_factory=dict)
    known: dict[ObjectId, tuple[Kind, ObjectId]] = field(default_factory=dict)

    @classmethod
    def of(cls, identifier: ObjectId, footers: Iterable[Footer]) -> "Users":
        """Look through footers for what is stored near an object, for what is near that, and so on."""
        near: dict[ObjectId, set[ObjectId]] = defaultdict(set)
        found = cls({half(identifier): 0})
        for footer in footers:
            for placed in footer.entries:
                members = zip(placed.entry.members, placed.ids, strict=True)
                found.known |= {half(name): (member.kind, name) for member, name in members}
                for base, name in zip(placed.entry.bases, placed.ids, strict=bool(placed.entry.bases)):
                    if base.chunk is None:
                        near[base.id].add(half(name))
        queue = deque(found.steps)
        while queue:
            below = queue.popleft()
            for name in sorted(near[below] - found.steps.keys()):
                found.steps[name], found.toward[name] = found.steps[below] + 1, below
                queue.append(name)
        return found

    def way_down(self, name: ObjectId) -> list[WhyStep]:
        """Return the steps from an object to the one that all lean on, both included."""
        result = [self._step(name, "which is a part of that")]
        while (base := self.toward.get(name)) is not None:
            result.append(self._step(base, "which that is stored near"))
            name = base
        return result

    def _step(self, name: ObjectId, said: str) -> WhyStep:
        kind, identifier = self.known.get(name, (Kind.CHUNK, name))
        return WhyStep(kind.name.lower(), identifier.hex(), said)


@dataclass(frozen=True)
class Origin:
    """What leads to a commit without another one.

    Attributes:
        step: how it is called.
        commit: where it stands, or stood.
        until: when it went elsewhere, in microseconds since 1970-01-01 UTC; None where it stands there.
    """

    step: WhyStep
    commit: ObjectId
    until: int | None = None


@dataclass(frozen=True)
class Reached:
    """A commit, and the shortest way to it.

    Attributes:
        revision: the commit.
        origin: where the way begins.
        back: how many commits back it lies.
    """

    revision: Revision
    origin: Origin
    back: int

    @property
    def steps(self) -> list[WhyStep]:
        """The way to it."""
        commit = self.revision.commit
        far = "where it stands" if self.origin.until is None else "where it stood"
        said = far if not self.back else f"{self.back} commit{'s' if self.back > 1 else ''} back"
        step = "" if commit.step is None else f", step {commit.step}"
        message = commit.message.strip("\n").partition("\n")[0]
        told = f"{said}{step}{': ' if message else ''}{message}"
        return [self.origin.step, WhyStep("commit", self.revision.id.hex(), told)]


class Origins:
    """All that leads into the history of a store.

    Attributes:
        now: where refs and HEAD stand.
        past: where they stood, as far as records are kept, the newest of each first.
        doubts: what cannot be read.
    """

    def __init__(self, place: Place) -> None:
        """Read all records of refs."""
        self.now: list[Origin] = []
        self.past: list[Origin] = []
        self.doubts: list[str] = []
        refs = RefStore(place.backend)
        for kind in (HEADS, TAGS, REMOTES):
            for name in refs.listed(kind):
                self._take(kind, name, refs.row(kind, name))
        self._head(place)

    def _take(self, kind: str, name: str, row: Iterable[RefRecord | DamagedRecord]) -> None:
        until: int | None = None
        for back, record in enumerate(row):
            if isinstance(record, DamagedRecord):
                self.doubts.append(record.error.message)
                continue
            if record.target is not None and not back:
                self.now.append(Origin(WhyStep(_NOUNS[kind], name), record.target))
            elif record.target is not None:
                step = WhyStep("reflog", f"{name}@{{{back}}}", _NOUNS[kind])
                self.past.append(Origin(step, record.target, until))
            until = record.time

    def _head(self, place: Place) -> None:
        with suppress(*UNREADABLE_ERRORS):
            found = held(place, GRACE_DAYS * DAY_SECONDS)
            if found.commit is not None:
                self.now.append(Origin(WhyStep("HEAD", "HEAD", "on no branch"), found.commit))
            said = f"HEAD stood there within the last {GRACE_DAYS:.0f} days"
            steps = ((WhyStep("reflog", f"HEAD@{short_id(each)}", said), each) for each in sorted(found.past))
            self.past += [Origin(step, commit, 0) for step, commit in steps]


@dataclass(frozen=True)
class Ways:
    """Tells how a commit leads to one thing.

    Attributes:
        store: where it lies; every pack is attached where it is an object.
        named: the thing.
        users: what leans on it, where it is an object.
    """

    store: ObjectStore
    named: Named
    users: Users | None = None

    def within(self, revision: Revision) -> list[WhyStep] | None:
        """Return the steps from a commit to the thing; None where it does not need that.

        Raises:
            CorruptionError: what the commit needs cannot be told.
            NotFoundError: likewise.
        """
        if self.named.kind == COMMIT:
            return [] if revision.id == self.named.object else None
        roles = roles_of(self.store.manifests, revision)
        packs = self.named.names & roles.keys()
        if not packs:
            return None
        pack = min(packs)
        if self.users is None:
            return [WhyStep(PACK, pack, roles[pack])]
        return self._held(revision, self.users) or [WhyStep(PACK, pack, f"{roles[pack]}: it lies in there")]

    def _held(self, revision: Revision, users: Users) -> list[WhyStep] | None:
        tree, best = revision.commit.tree, None
        for identifier, step in held_by(self.store, tree, self.store.tree(tree)):
            far = users.steps.get(half(identifier))
            if far is not None and (best is None or far < best[0]):
                best = (far, identifier, step)
        if best is None:
            return None
        way = users.way_down(half(best[1]))
        return way if best[2].kind == "tree" else [best[2], *way]


@dataclass(frozen=True)
class DropsTold:
    """The drops of a store that can be read: of exact layers from their records, of data from manifests.

    Attributes:
        backend: the store.
        numbered: those of exact layers, each with the number of its record, the newest first.
    """

    backend: Backend
    numbered: Sequence[tuple[int, Drop]]

    @classmethod
    def of(cls, backend: Backend) -> "DropsTold":
        """Read the records of exact layers."""
        return cls(backend, DropLog(backend).numbered())

    @property
    def packs(self) -> set[str]:
        """The names of all packs that were given up."""
        return {name for _, drop in self.numbered for name in drop.packs}

    def of_names(self, commit: ObjectId | None, packs: Collection[str]) -> list[DropInfo]:
        """Return what gave up a commit's layer or data, or one of some packs."""
        return [
            *(() if commit is None else self.of_data(commit)),
            *(
                DropInfo(number, drop.commit.hex(), len(drop.packs), as_utc(drop.time))
                for number, drop in self.numbered
                if drop.commit == commit or not set(packs).isdisjoint(drop.packs)
            ),
        ]

    def of_layer(self, revision: Revision, *, exact: bool) -> list[DropInfo]:
        """Return what gave up the exact layer of a commit, or else its data, where these count as dropped."""
        if exact:
            return self.of_names(None, revision.written.exact_packs)
        found = self.of_data(revision.id)
        return found if found and found[0].taken_back is None else []

    def of_data(self, commit: ObjectId) -> list[DropInfo]:
        """Return what a commit's manifest says of data that were given up, the newest first."""
        manifests, found = Manifests(self.backend), dict[DataDrop, DropInfo]()
        back: int | None = None
        for number in manifests.numbers(commit):
            with suppress(*UNREADABLE_ERRORS):
                drop = manifests.numbered(commit, number).dropped
                if drop is None:
                    back = number
                    continue
                why = dropped_why(self.backend, drop) or None
                told = DropInfo(number, commit.hex(), 0, as_utc(drop.time), why, data=True, taken_back=back)
                found[drop] = found.get(drop, told)
        return list(found.values())


def explain(place: Place, text: str, revision: Revision | None) -> Why:
    """Say what keeps something alive, or what dropped it.

    Args:
        place: the repository.
        text: an id, a prefix of one, or the name of a pack.
        revision: the commit that the text names; None where it names none that is known.

    Raises:
        NotFoundError: nothing of that name is there, was dropped, or is named by a commit that is reached.
        UsageError: it names several things.
    """
    return _Search(place).explain(text, revision)


@dataclass
class _Search:
    """One search through a store."""

    place: Place
    notes: list[str] = field(default_factory=list)

    @cached_property
    def _store(self) -> ObjectStore:
        return ObjectStore(self.place.backend, self.place.memory)

    @cached_property
    def _graph(self) -> Graph:
        return Graph(ObjectStore(self.place.backend, NOTHING))

    @cached_property
    def _origins(self) -> Origins:
        return Origins(self.place)

    @cached_property
    def _log(self) -> CondemnedLog:
        log = CondemnedLog(self.place.backend, now_microseconds)
        log.look()
        return log

    @cached_property
    def _drops(self) -> DropsTold:
        return DropsTold.of(self.place.backend)

    def explain(self, text: str, revision: Revision | None) -> Why:
        """Say what is known of the thing of that name."""
        named = self._of(text, revision)
        if named is None:
            return self._dropped(text)
        steps, origin = self._way(named)
        if origin is None:
            self._doubt()
        if named.kind == COMMIT and named.object is not None:
            self._tell_pinned(named.object)
        state = UNNEEDED if origin is None else NEEDED if origin.until is None else PAST
        return Why(
            named.kind,
            named.id,
            state,
            steps,
            list(named.packs),
            named.bytes,
            as_utc(round(written * 1e6)) if (written := self._written(named)) is not None else None,
            as_utc(origin.until) if origin is not None and origin.until else None,
            self._drops.of_names(named.object if named.kind == COMMIT else None, named.names),
            self.notes,
            *self._standing(named),
        )

    def _tell_pinned(self, commit: ObjectId) -> None:
        with suppress(MvcsError):  # fsck tells what is wrong with pins
            if commit in Ruling.of(self.place.backend).pins:
                self.notes.append("it is pinned, so no rule lets its data go")

    def _standing(self, named: Named) -> tuple[str | None, dt.datetime | None]:
        """Say what a collector does with a commit, or with all packs of something else."""
        names = {named.id} if named.kind == COMMIT else named.names
        records = [self._log.standing(name) for name in sorted(names)]
        found = [record for record in records if record is not None and record.standing in _LEAVING]
        if not found or len(found) < len(records):
            return None, None
        last = max(found, key=lambda record: record.number)
        return last.standing.name.lower(), as_utc(last.time)

    def _of(self, text: str, revision: Revision | None) -> Named | None:
        if revision is None:
            return found_by(text, self._store)
        store = self._store
        store.catalog.attach_everything()
        return Named.of_object(store, revision.id, Kind.COMMIT, len(revision.written.content))

    def _doubt(self) -> None:
        """Say why something may be kept all the same; of what nothing leads to nobody can tell since when."""
        if self._origins.doubts:
            self.notes.append(f"a ref may have led to it: {self._origins.doubts[0]}")

    def _written(self, named: Named) -> float | None:
        times = [self.place.backend.modified(path) for path in named.packs]
        return max((time for time in times if time is not None), default=None)

    def _way(self, named: Named) -> tuple[list[WhyStep], Origin | None]:
        """Return the shortest way to something: from where refs stand, and else from where they stood."""
        search = self._ways_to(named)
        for origins in (self._origins.now, self._origins.past):
            best: tuple[int, Reached, list[WhyStep]] | None = None
            for found in reached(self._graph, origins):
                if best is not None and found.back >= best[0]:
                    break
                with suppress(*UNREADABLE_ERRORS):
                    way = search.within(found.revision)
                    if way is not None and (best is None or found.back + len(way) < best[0]):
                        best = (found.back + len(way), found, way)
            if best is not None:
                return [*best[1].steps, *best[2]], best[1].origin
            for origin in origins:  # without its manifest nothing is behind a commit
                if named.kind == COMMIT and origin.commit == named.object:
                    return _unread(origin), origin
        return [], None

    def _ways_to(self, named: Named) -> Ways:
        if named.kind in (PACK, COMMIT):
            return Ways(self._store, named)
        for exact in (False, True):
            self._store.catalog.attach_everything(exact=exact)
        return Ways(self._store, named, Users.of(named.object, self._store.catalog.loaded()))

    def _dropped(self, text: str) -> Why:
        """Look for something that is gone in the records of drops, and in the trees of commits.

        Raises:
            NotFoundError: nothing names it.
        """
        gone = {name for name in self._log.of(Standing.GONE) if name.startswith(text)}
        if len(gone) == 1:
            (name,) = gone
            record = self._log.standing(name)
            time = None if record is None else as_utc(record.time)
            return Why(PACK, name, DROPPED, [], [], notes=self.notes, standing="gone", stands=time)
        packs = {name for name in self._drops.packs if name.startswith(text)}
        if len(packs) == 1:
            (name,) = packs
            drops = self._drops.of_names(None, packs)
            return Why(PACK, name, DROPPED, self._way_to_commit(drops[0].commit), [], drops=drops)
        if (found := self._lost_name(text) or self._named_by_commits(text)) is not None:
            return found
        raise NotFoundError(
            f"nothing in this store is called '{text}', nor does a commit name it",
            hint="a tensor's id names no object: 'mvcs show REV --json' has them; "
            "'mvcs cat-file REV' shows what a commit names",
        )

    def _named_by_commits(self, text: str) -> Why | None:
        """Say of what is nowhere which commit names it: one that did not drop it comes first."""
        dropped: Why | None = None
        for found in self._every():
            with suppress(*UNREADABLE_ERRORS):
                for identifier, step in self._contents(found.revision):
                    if identifier.hex().startswith(text):
                        why = self._lost(identifier.hex(), found, step)
                        if why.state == NEEDED:
                            return why
                        dropped = dropped or why
        return dropped

    def _every(self) -> Iterator[Reached]:
        return reached(self._graph, [*self._origins.now, *self._origins.past])

    def _contents(self, revision: Revision) -> "Iterable[tuple[bytes, WhyStep]]":
        store = self._store
        store.catalog.attach_commit(revision.id)
        tree = revision.commit.tree
        return held_by(store, tree, store.tree(tree))

    def _lost(self, identifier: str, found: Reached, step: WhyStep) -> Why:
        """Say of an object that a commit names, and no pack holds, whether it was dropped."""
        drops, notes = self._drops.of_layer(found.revision, exact=step.said == EXACT_VALUES), self.notes
        if not drops:
            short = short_id(found.revision.id)
            notes = [*notes, f"commit {short} needs it, and no record says that it was dropped: it is lost"]
        steps = [*found.steps, step, WhyStep("chunk", identifier, "which is a part of that")]
        return Why("chunk", identifier, DROPPED if drops else NEEDED, steps, [], drops=drops, notes=notes)

    def _way_to_commit(self, commit: str) -> list[WhyStep]:
        found = (item.steps for item in self._every() if item.revision.id.hex() == commit)
        return next(found, [])

    def _lost_name(self, text: str) -> Why | None:
        """Say what needs a pack, or names a commit, that the store does not have; None where nothing does."""
        met: dict[str, Why] = {}
        commits: dict[str, list[ObjectId]] = {}
        every = [*self._origins.now, *self._origins.past]
        for found in reached(self._graph, every):
            with suppress(*UNREADABLE_ERRORS):
                for name, role in roles_of(self._store.manifests, found.revision).items():
                    if name.startswith(text) and name not in self._drops.packs:
                        steps = [*found.steps, WhyStep(PACK, name, role)]
                        met.setdefault(name, _lost_why(PACK, name, steps, found.origin))
                        commits.setdefault(name, []).append(found.revision.id)
        for origin in every:
            name = origin.commit.hex()
            if name.startswith(text):
                met.setdefault(name, _lost_why(COMMIT, name, _unread(origin), origin))
        if len(met) != 1:
            return None
        ((name, why),) = met.items()
        why.notes.extend(_told(commits.get(name, [])))
        return why


def _lost_why(kind: str, name: str, steps: list[WhyStep], origin: Origin) -> Why:
    until = as_utc(origin.until) if origin.until else None
    return Why(kind, name, NEEDED if origin.until is None else PAST, steps, [], until=until)


def _unread(origin: Origin) -> list[WhyStep]:
    return [origin.step, WhyStep(COMMIT, origin.commit.hex(), "which cannot be read")]


def _told(commits: Collection[ObjectId]) -> Iterator[str]:
    if commits:
        needs = "1 commit needs it" if len(commits) == 1 else f"{len(commits)} commits need it"
        yield f"it is not in the store, and {needs}: {some_of([short_id(each) for each in commits], _NAMED)}"
    else:
        yield "it is not in the store: its manifest is missing or damaged"
    yield "'mvcs repair' brings it back from a remote that has it, or says what is lost"


def roles_of(manifests: Manifests, revision: Revision) -> dict[str, str]:
    """Return the packs that a commit needs, each with what for.

    Raises:
        CorruptionError: its manifest cannot be read.
        NotFoundError: likewise.
    """
    placement = manifests.placement(revision.id)
    return {
        **dict.fromkeys(placement.others, "which it reads, of an earlier commit"),
        **dict.fromkeys(revision.written.exact_packs, "which holds its exact layer"),
        **dict.fromkeys(placement.own, "which was written for it"),
    }


def reached(graph: Graph, origins: Iterable[Origin]) -> Iterator[Reached]:
    """Yield all commits behind some origins, each once, the nearest first; damage ends a way."""
    queue: deque[Reached] = deque()
    seen: set[ObjectId] = set()
    for origin in origins:
        if origin.commit not in seen:
            with suppress(*UNREADABLE_ERRORS):
                queue.append(Reached(graph.load(origin.commit), origin, 0))
                seen.add(origin.commit)
    while queue:
        found = queue.popleft()
        yield found
        for parent in found.revision.commit.parents:
            if parent not in seen:
                seen.add(parent)
                with suppress(*UNREADABLE_ERRORS):
                    queue.append(Reached(graph.load(parent), found.origin, found.back + 1))


def held_by(store: ObjectStore, tree_id: ObjectId, tree: Tree) -> Iterator[tuple[ObjectId, WhyStep]]:
    """Yield the id of every object of a tree, which is one of them, with where it stands."""
    yield tree_id, WhyStep("tree", tree_id.hex(), "what it holds")
    for leaf, path in zip(tree.leaves, tree.leaf_paths(), strict=True):
        where = path_text(path)
        yield from ((chunk, WhyStep("path", where, _VALUE)) for chunk in leaf.value_chunks())
        if leaf.original is not None:
            yield from ((chunk, WhyStep("path", where, EXACT_VALUES)) for chunk in leaf.original.chunks)
    for identifier, _ in tree.blobs():
        step = WhyStep("blob", identifier.hex(), "a file of it")
        yield identifier, step
        for chunk in Blob.decode(store.read(Kind.BLOB, identifier)).chunks:
            yield chunk, step


def found_by(text: str, store: ObjectStore) -> Named | None:
    """Return what a prefix names, of packs and of objects; None where the store has nothing of that name.

    Raises:
        UsageError: it names several things.
    """
    packs = {
        path: size for path, size in _packs(store.backend).items() if (pack_name(path) or "").startswith(text)
    }
    found = [Named(PACK, pack_name(path) or "", (path,), size) for path, size in packs.items()]
    for exact in (False, True):
        store.catalog.attach_everything(exact=exact)
    objects = store.catalog.with_prefix(text, exact=True) | store.catalog.with_prefix(text)
    for identifier, located in objects.items():
        member = located.placed.entry.members[located.member]
        found.append(Named.of_object(store, identifier, member.kind, member.length))
    if len(found) > 1:
        kinds = ", ".join(sorted(f"{one.kind} {one.id[:12]}" for one in found)[:4])
        raise UsageError(f"'{text}' abbreviates {len(found)} things", hint=f"type more digits: {kinds}")
    return found[0] if found else None


def _packs(backend: Backend) -> dict[str, int]:
    return backend.sizes(VALUE_FOLDER) | backend.sizes(EXACT_FOLDER)
