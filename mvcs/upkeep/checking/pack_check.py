"""fsck of packs: each is hashed, every object read again, and one problem told for each pack at fault."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from mvcs.delta import Content
from mvcs.errors import (
    CorruptionError,
    MvcsError,
    NotFoundError,
    UnsupportedFormatError,
    raise_if_denied,
    some_of,
)
from mvcs.history import Revision
from mvcs.machine import processors
from mvcs.objects import Kind, ObjectId, QuantizedTensor, Tree, element_count, half, short_id
from mvcs.progress import Progress
from mvcs.quantize import OtherValuesError
from mvcs.store import (
    EXACT_FOLDER,
    MAX_FILE,
    UNREADABLE_ERRORS,
    ChunkPlace,
    Footer,
    Located,
    ObjectStore,
    check_header,
    how_to_get_back,
    name_of,
    pack_name,
    pack_path,
    read_entry,
    salvage,
)

STREAMS = 4  # packs in memory at a time, where they are hashed alone
MOST_THREADS = 8
LARGE = 1 << 20  # bytes of a pack from which on its entries are decoded side by side
OTHER_NAME = "its bytes do not hash to its name"
# What is restored at most, so that a few bytes do not cost hours: no real history comes near.
_LEAST_RESTORED, _MOST_RESTORED = 4 << 30, 4096  # bytes, and times the bytes of all packs
Report = Callable[[str, str, MvcsError, str | None, Sequence[str]], None]
UNRESTORABLE_HINT = "no copy of it can differ: whoever wrote it has to commit that again"
_NAMED = 3  # reasons, objects and commits that a message names


@dataclass(frozen=True)
class Level:
    """How far a check of packs goes. Footers are always read.

    Attributes:
        paths: the packs of which every byte is compared with its checksum; None for all.
        decoded: whether what these hold is decoded and hashed as well.
    """

    paths: Collection[str] | None
    decoded: bool = True

    def takes(self, path: str) -> bool:
        """Tell whether the bytes of a pack are read."""
        return self.paths is None or path in self.paths


QUICK, PACKS, FULL = Level(frozenset(), decoded=False), Level(None, decoded=False), Level(None)


@dataclass
class Fault:
    """What is wrong with one pack, or because of it.

    Attributes:
        error: the first error.
        reasons: what was found in it, in the order in which it was.
        objects: ids of what cannot be read on its account, here and in packs that lean on it.
    """

    error: MvcsError
    reasons: dict[str, None] = field(default_factory=dict)
    objects: dict[ObjectId, None] = field(default_factory=dict)

    def told(self, advice: str, commits: Sequence[ObjectId]) -> MvcsError:
        """Return all of it as one error, with the commits that lose something by it.

        Its hint is `advice` where the bytes are wrong.
        """
        said = [some_of(list(self.reasons) or [self.error.message], _NAMED, "; ")]
        if self.objects:
            many = "1 object" if len(self.objects) == 1 else f"{len(self.objects)} objects"
            said.append(f"{many} cannot be read: {_shortened(self.objects)}")
        if commits:
            lose = "1 commit loses" if len(commits) == 1 else f"{len(commits)} commits lose"
            said.append(f"{lose} something by it: {_shortened(commits)}")
        hint = advice if isinstance(self.error, CorruptionError) else self.error.hint
        return MvcsError("; ".join(said), hint=hint)


class Cause(NamedTuple):
    """Why an object cannot be read.

    Attributes:
        path: the pack at fault.
        is_missing: whether something is missing rather than damaged.
    """

    path: str
    is_missing: bool


@dataclass
class PackCheck:
    """The check of all packs of a store.

    Attributes:
        store: the store.
        progress: is told the packs done.
        reached: packs that commits need.
        beside: by the packs that were written for commits, all that these commits need.
        layers: the trees whose exact layers lie in packs, by the names of these.
        note: is told what is worth knowing but not wrong.
        objects: how many there are in packs whose footers could be read; of a sample those in it.
        size: of those packs, in bytes.
    """

    store: ObjectStore
    progress: Progress
    reached: Collection[str]
    beside: Mapping[str, Collection[str]]
    layers: Mapping[str, ObjectId]
    note: Callable[[str], None]
    objects: int = 0
    size: int = 0
    _faults: dict[str, Fault] = field(default_factory=dict)
    _unreadable: dict[ObjectId, Cause] = field(default_factory=dict)
    _lost_at: dict[ChunkPlace, bool] = field(default_factory=dict)
    _footless: list[str] = field(default_factory=list)
    _skipped: list[Located] = field(default_factory=list)
    _compared: set[ObjectId] = field(default_factory=set)
    _unrestorable: dict[ObjectId, MvcsError] = field(default_factory=dict)
    _room: int = 0

    def folder(self, folder: str, level: Level) -> None:
        """Check the packs of a folder, as far as a level says."""
        paths = self.store.backend.list(folder)
        exact = folder == EXACT_FOLDER
        if level.decoded and not exact:
            stored = sum(self.store.backend.sizes(folder).values())
            self._room = max(_LEAST_RESTORED, _MOST_RESTORED * stored)
        # The base of an object of an exact layer may lie in any pack of that layer.
        names = [name for path in paths if (name := pack_name(path)) and path == pack_path(name, exact=exact)]
        names += self._unlisted(names) if exact else ()
        names = self._bases_first(names, exact=exact)
        self.progress.start("checking packs", len(paths), "packs")
        for path in paths:
            name = pack_name(path)
            if name is None or path != pack_path(name, exact=exact):
                self.note(f"'{path}' is not a pack; it was left alone")
                self.progress.advance(1)
        if not level.decoded:
            self._hashed(
                [pack_path(name, exact=exact) for name in names if level.takes(pack_path(name, exact=exact))]
            )
        for name in names:
            path = pack_path(name, exact=exact)
            try:
                self._pack(path, name, exact=exact, level=level)
            except MvcsError as error:
                self._wrong(path, error)
            self.progress.advance(1)
        self.progress.finish()

    def _bases_first(self, names: Iterable[str], *, exact: bool) -> list[str]:
        """Return packs behind those that their entries are stored near, so that chains are read once."""
        footers: dict[str, Footer | None] = {}
        for name in names:
            footers[name] = None
            try:
                footers[name] = self.store.catalog.attach(name, exact=exact)
            except MvcsError:
                self._footless.append(pack_path(name, exact=exact))
        homes = {
            half(identifier): name
            for name, footer in footers.items()
            for placed in (footer.entries if footer else ())
            for identifier in placed.ids
        }
        found: dict[str, None] = {}
        stack = list(reversed(footers))
        while stack:
            name = stack.pop()
            footer = footers.pop(name, None)
            if footer is None:  # it was met before, maybe as a base of itself
                found.setdefault(name)
                continue
            bases = {homes.get(base) for placed in footer.entries for base in placed.entry.base_ids}
            stack += [name, *(base for base in bases if base in footers)]
        return list(found)

    def _unlisted(self, names: Collection[str]) -> list[str]:
        """Return packs of layers that lie there and are not listed, as a folder of that name is not."""
        backend, listed = self.store.backend, set(names)
        unlisted = [name for name in self.layers if name not in listed] if backend.near else []
        return [name for name in unlisted if backend.size(pack_path(name, exact=True)) is not None]

    def _hashed(self, paths: Sequence[str]) -> None:
        """Compare packs with their names side by side, and do no more with them."""
        remaining = iter(paths)
        with ThreadPoolExecutor(STREAMS) as pool:
            while batch := list(islice(remaining, STREAMS)):
                for path, error in zip(batch, pool.map(self._other_name, batch), strict=True):
                    if error is not None:
                        self._wrong(path, error)

    def _other_name(self, path: str) -> MvcsError | None:
        try:
            data = self.store.backend.read_small(path, MAX_FILE)
            check_header(data)
        except MvcsError as error:
            return error
        return None if name_of(data) == pack_name(path) else CorruptionError(OTHER_NAME)

    def tell(
        self,
        report: Report,
        revisions: Iterable[Revision],
        dropped: Container[ObjectId] = (),
        *,
        hidden: bool = False,
    ) -> None:
        """Report what was found, one problem for each pack that is at fault, the worst first, then commits.

        What is wrong with a pack that no commit needs is noted.

        Args:
            report: is told of each.
            revisions: the commits of the store: those that lose something are named.
            dropped: those of them whose data were dropped.
            hidden: whether other commits may be there, so that nobody can tell what none needs.
        """
        for exact in (False, True) if self._unreadable else ():
            self._spread([link for link in self._skipped if link.exact == exact])
        objects = {path: fault.objects for path, fault in self._faults.items()}
        commits = losing(self.store, revisions, objects, dropped)
        for path in sorted(objects, key=lambda path: len(objects[path]), reverse=True):
            error = self._faults[path].told(
                how_to_get_back(exact=path.startswith(f"{EXACT_FOLDER}/")), commits[path]
            )
            if not hidden and pack_name(path) not in self.reached and not commits[path]:
                self.note(f"no commit of a branch or tag needs '{path}': {error.message}")
                continue
            report("pack", path, error, path, [identifier.hex() for identifier in objects[path]])
        for revision in revisions if self._unrestorable else ():
            self._tell_unrestorable(report, revision)

    def _tell_unrestorable(self, report: Report, revision: Revision) -> None:
        with suppress(*UNREADABLE_ERRORS):
            tree = self.store.tree(revision.commit.tree)
            lost = {tensor.id for tensor in _quantized(tree) if tensor.id in self._unrestorable}
            for tensor in sorted(lost):
                error = self._unrestorable[tensor]
                told = CorruptionError(
                    f"tensor {short_id(tensor)} is there and cannot be restored: {error.message}",
                    hint=UNRESTORABLE_HINT,
                )
                report("commit", f"commit {short_id(revision.id)}", told, None, [tensor.hex()])

    def _pack(self, path: str, name: str, *, exact: bool, level: Level) -> None:
        try:
            footer = self.store.catalog.attach(name, exact=exact)
        except CorruptionError:
            if level.decoded and level.takes(path):
                self._without_footer(path, name, exact=exact)
            raise
        if level.decoded and not level.takes(path):
            self._skipped += [Located(name, exact, placed, 0) for placed in footer.entries]
            return
        self.size += self.store.backend.size(path) or 0
        self.objects += sum(len(placed.ids) for placed in footer.entries)
        if not level.decoded:
            return
        data = self.store.backend.read_small(path, MAX_FILE)
        if name_of(data) != name:
            self._wrong(path, CorruptionError(OTHER_NAME))
        check_header(data)
        if not self._leant(self.store, name):
            self.note(f"'{path}' was not looked into: the tree of its commit cannot be read")
            return
        links = [Located(name, exact, placed, 0) for placed in footer.entries]
        sound = self._sound(data, links) if len(data) >= LARGE else set()
        for link in links:
            placed = link.placed
            try:
                self._entry(path, data, link, is_sound=placed.offset in sound)
            except MvcsError as error:
                self.store.catalog.distrust(link.place)
                self._wrong(path, error)
                for identifier in placed.ids:
                    self._lost(path, identifier, error)
        self.store.lean_off(name)

    def _without_footer(self, path: str, name: str, *, exact: bool) -> None:
        """Note what a scan finds: ordinary reads never scan, but repair does."""
        with suppress(CorruptionError, NotFoundError):
            view = self.store.apart()
            self._leant(view, name)
            found = salvage(view, name, exact=exact)
            self.note(f"'{path}' without its footer: {found}")

    def _leant(self, view: ObjectStore, name: str) -> bool:
        """Have a view know what the entries of a pack may be near; tell whether that can be known."""
        try:
            if name in self.layers:
                view.lean_on(self.store.tree(self.layers[name]), [name])
        except UNREADABLE_ERRORS:
            return False
        return True

    def _sound(self, data: bytes, links: Sequence[Located]) -> set[int]:
        """Decode and hash entries side by side; return where those lie of which nothing is wrong."""
        with ThreadPoolExecutor(min(processors(), MOST_THREADS)) as pool:
            found = pool.map(partial(self._is_sound, data), links)
            return {link.placed.offset for link, sound in zip(links, found, strict=True) if sound}

    def _is_sound(self, data: bytes, link: Located) -> bool:
        placed = link.placed
        if self._known_cause(link) is not None:
            return False
        try:
            if read_entry(data, placed.offset)[0] != placed.entry:
                return False
            for number, member in enumerate(placed.entry.members):
                self.store.read_copy(member.kind, placed.ids[number], link._replace(member=number))
        except MvcsError:
            return False
        return True

    def _entry(self, path: str, data: bytes, link: Located, *, is_sound: bool) -> None:
        """Check an entry; of one that is sound only what its trees say is left to be looked at."""
        placed = link.placed
        if not is_sound and read_entry(data, placed.offset)[0] != placed.entry:
            raise CorruptionError(f"no entry lies at offset {placed.offset}")
        for number, member in enumerate(placed.entry.members):
            if not is_sound or member.kind is Kind.TREE:
                self._object(path, member.kind, link._replace(member=number))

    def _object(self, path: str, kind: Kind, located: Located) -> None:
        """Read this very copy: that another one is whole does not make up for it."""
        identifier = located.placed.ids[located.member]
        known = self._known_cause(located)
        if known is not None:
            self._unread(known, located, CorruptionError("what it is stored near cannot be read"))
            return
        try:
            content = self.store.read_copy(kind, identifier, located)
            if kind is Kind.TREE:
                self._values(path, identifier, content)
        except MvcsError as error:
            self._unread(self._culprit(kind, located, error), located, error)

    def _known_cause(self, link: Located) -> Cause | None:
        """Return why an entry cannot be read where a base of it could not: chains may be long."""
        for base in link.placed.entry.bases:
            if base.chunk is not None:
                values = self._values_cause(base.id, link.pack)
                if values is not None:
                    return values
                continue
            cause = self._unreadable.get(base.id)
            if cause is None:
                continue
            copy = self.store.catalog.find(base.id, exact=link.exact)
            # What cannot be read is no copy any more, be it for what it is near.
            is_missing = cause.is_missing if copy is None else self._lost_at.get(copy.place)
            if is_missing is not None:
                return Cause(cause.path, is_missing)
        return None

    def _values_cause(self, tensor: ObjectId, pack: str) -> Cause | None:
        """Return why the values cannot be restored that an entry of an exact layer is near."""
        found = self.store.leant_on(tensor, pack)
        causes = (self._unreadable.get(half(chunk)) for chunk in _behind(found))
        return next((cause for cause in causes if cause), None)

    def _spread(self, links: Sequence[Located]) -> None:
        """Go by footers through packs that were not read: what is near something unreadable is so, too."""
        users: dict[ObjectId, list[Located]] = defaultdict(list)
        for link in links:
            for base in link.placed.entry.bases:
                users[base.id].append(link)
        for name in {link.pack for link in links if link.exact}:
            self._leant(self.store, name)
        queue = deque(links)
        while queue:
            link = queue.popleft()
            cause = None if link.place in self._lost_at else self._known_cause(link)
            if cause is None:
                continue
            for number in range(len(link.placed.ids)):
                near = CorruptionError("what it is stored near cannot be read")
                self._unread(cause, link._replace(member=number), near)
            queue += chain.from_iterable(users[half(name)] for name in link.placed.ids)

    def _unread(self, cause: Cause, located: Located, error: MvcsError) -> None:
        """Note that an object cannot be read because of a pack, where something is damaged or missing."""
        self._lost_at[located.place] = cause.is_missing
        self._unreadable.setdefault(half(located.id), cause)
        # What interrupted work left may lack its bases; nothing needs it.
        if not cause.is_missing or located.pack in self.reached:
            self._lost(cause.path, located.id, error)

    def _values(self, path: str, identifier: ObjectId, content: Content) -> None:
        """Restore what no tree before this one had, so that its digests are compared."""
        try:
            tree = self.store.last_tree.get(identifier, lambda: content)
        except (CorruptionError, UnsupportedFormatError):
            return  # what was made so is told of with its commit: the pack is as it was written
        due: list[QuantizedTensor] = []
        for tensor in _quantized(tree):
            if tensor.id in self._compared or self._is_known_lost(tensor):
                continue
            self._compared.add(tensor.id)
            size = element_count(tensor.shape) * tensor.dtype.itemsize
            if size > self._room:
                what = f"the values of {short_id(tensor.id)}"
                self.note(f"'{path}': {what} were not compared: they take {size} bytes")
                continue
            self._room -= size
            due.append(tensor)
        with ThreadPoolExecutor(min(processors(), MOST_THREADS)) as pool:
            for tensor, error in zip(due, pool.map(self._restored, due), strict=True):
                if isinstance(error, OtherValuesError):
                    self._lost(path, tensor.id, error)
                elif error is not None:
                    self._unrestorable[tensor.id] = error

    def _restored(self, tensor: QuantizedTensor) -> MvcsError | None:
        """Restore a tensor; return why that fails though every chunk of it is whole.

        Chunks that are damaged are told of where they lie.
        """
        for index in range(tensor.chunk_count):
            try:
                self._other_values(tensor, index)
            except OtherValuesError as error:
                return error
            except (CorruptionError, NotFoundError) as error:
                return error if self._is_there(tensor) else None
        return None

    def _is_there(self, tensor: QuantizedTensor) -> bool:
        """Tell whether every chunk behind a tensor can be read."""
        try:
            for chunk in _behind(tensor):
                self.store.read(Kind.CHUNK, chunk)
        except UNREADABLE_ERRORS:
            return False
        return True

    def _is_known_lost(self, tensor: QuantizedTensor) -> bool:
        return any(half(chunk) in self._unreadable for chunk in _behind(tensor))

    def _other_values(self, tensor: QuantizedTensor, index: int) -> None:
        """Restore one chunk; only where values differ are chunks hashed, since one may be damaged."""
        try:
            self.store.unproven_values(tensor, index)
        except OtherValuesError:
            self.store.restored_chunk(tensor, index)

    def _culprit(self, kind: Kind, located: Located, error: MvcsError) -> Cause:
        """Return which pack makes an object unreadable; what is at fault there is no longer relied on."""
        useless = self.store.useless(kind, located)
        found = next((link for link in useless if link.place not in self.store.catalog.damaged), None)
        if found is not None:
            self.store.catalog.distrust(found.place)
        first = useless[0] if useless else located
        known = (self._unreadable.get(base.id) for base in first.placed.entry.bases)
        path = (
            next((cause.path for cause in known if cause), None)
            or self._without(first)
            or pack_path(first.pack, exact=first.exact)
        )
        cause = Cause(path, isinstance(error, NotFoundError))
        for link in (first, *useless):
            self._note(link, cause)
        return cause

    def _note(self, link: Located, cause: Cause) -> None:
        """Note why an entry cannot be used, so that its chain is not gone through again."""
        self._lost_at.setdefault(link.place, cause.is_missing)
        for identifier in link.placed.ids:
            self._unreadable.setdefault(half(identifier), cause)

    def _without(self, link: Located) -> str | None:
        """Return the path of the unreadable pack that a base of an entry lies in; None where it is none."""
        with suppress(MvcsError):
            for base in link.placed.entry.bases:
                self.store.catalog.locate(base.id, exact=link.exact)
            return None
        needed = self.beside.get(link.pack, ())
        told = next((path for path in self._footless if pack_name(path) in needed), None)
        told = told or next((pack_path(name) for name in needed if self._is_lost(name)), None)
        # An exact layer leans on values as well, and its footer does not tell where they lie.
        return told or (self._footless[0] if len(self._footless) == 1 else None)

    def _is_lost(self, name: str) -> bool:
        """Tell whether a commit needs a pack that is not there."""
        return name in self.reached and self.store.catalog.known(name) is None

    def _wrong(self, path: str, error: MvcsError) -> None:
        raise_if_denied(error)
        self._faults.setdefault(path, Fault(error)).reasons.setdefault(error.message)

    def _lost(self, path: str, identifier: ObjectId, error: MvcsError) -> None:
        raise_if_denied(error)
        self._unreadable.setdefault(half(identifier), Cause(path, is_missing=False))
        self._faults.setdefault(path, Fault(error)).objects.setdefault(identifier)


def _shortened(identifiers: Iterable[ObjectId]) -> str:
    return some_of([short_id(identifier) for identifier in identifiers], _NAMED)


def _behind(tensor: QuantizedTensor | None) -> Iterator[ObjectId]:
    """Yield every chunk that restoring a tensor needs."""
    while tensor is not None:
        yield from tensor.chunk_ids()
        tensor = tensor.source


def _quantized(tree: Tree) -> Iterator[QuantizedTensor]:
    return (leaf.tensor for leaf in tree.leaves if isinstance(leaf.tensor, QuantizedTensor))


def losing(
    store: ObjectStore,
    revisions: Iterable[Revision],
    faults: Mapping[str, Collection[ObjectId]],
    dropped: Container[ObjectId] = (),
) -> dict[str, list[ObjectId]]:
    """Return the commits that need one of the objects which cannot be read on account of each pack.

    Args:
        store: where trees are read; one that cannot be read is what its commit loses.
        revisions: the commits, in the order in which they are named.
        faults: the objects, by the paths of packs.
        dropped: commits whose data were dropped, and which lose none of these any more.
    """
    objects = {path: frozenset(found) for path, found in faults.items() if found}
    commits: dict[str, list[ObjectId]] = {path: [] for path in faults}
    for revision in revisions if objects else ():
        needed = frozenset(_needed(store, revision, data=revision.id not in dropped))
        for path, unread in objects.items():
            if not unread.isdisjoint(needed):
                commits[path].append(revision.id)
    return commits


def _needed(store: ObjectStore, revision: Revision, *, data: bool) -> Iterator[ObjectId]:
    yield from (revision.id, revision.commit.tree)
    try:
        tree = store.tree(revision.commit.tree)
        yield from _in_tree(tree) if data else dict(tree.blobs())
    except UNREADABLE_ERRORS:
        return


def _in_tree(tree: Tree) -> Iterator[ObjectId]:
    yield from (identifier for identifier, _ in tree.blobs())
    for leaf in tree.leaves:
        if isinstance(leaf.tensor, QuantizedTensor):
            yield leaf.tensor.id
        yield from leaf.value_chunks()
        yield from leaf.original.chunks if leaf.original else ()
