"""Packs that are damaged or missing come again, from a store that has them or from what is left of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from mvcs.errors import MvcsError, NotFoundError, StorageError
from mvcs.objects import Kind, ObjectId, QuantizedTensor, Tree, object_id
from mvcs.progress import Progress
from mvcs.reports import Mended
from mvcs.store import (
    MAX_FILE,
    UNREADABLE_ERRORS,
    Footer,
    ObjectStore,
    Placed,
    RebuiltPack,
    Salvage,
    inspect_pack,
    is_no_file,
    is_whole_pack,
    name_of,
    rebuild_pack,
    salvage,
)
from mvcs.upkeep.repairing.repair_commits import CommitRepair
from mvcs.upkeep.repairing.workspace import PackKey, SetAside, Source, WantedPacks

STREAMS = 4  # packs in memory at a time
_REFUSED = (*UNREADABLE_ERRORS, StorageError)
_Place = tuple[QuantizedTensor, int]


@dataclass(frozen=True)
class Copy:
    """The bytes of a whole pack that were compared with its name, every entry with its checksum."""

    key: PackKey
    data: bytes
    footer: Footer
    how: str


@dataclass
class PackRepair:
    """Brings packs again.

    Attributes:
        store: the store, a view of which nothing was read yet.
        wanted: tells which packs commits need.
        sources: where good copies may lie, the likeliest first.
        aside: keeps what others take the place of; None in a rehearsal.
        progress: is told the packs done.
        note: is told what goes wrong and stops nothing.
        commits: brings what lost packs held in packs of other names.
        mended: what came.
    """

    store: ObjectStore
    wanted: WantedPacks
    sources: Sequence[Source]
    aside: SetAside | None
    progress: Progress
    note: Callable[[str], None]
    commits: CommitRepair
    mended: list[Mended] = field(default_factory=list)
    _partly: set[PackKey] = field(default_factory=set)
    _hopeless: set[PackKey] = field(default_factory=set)
    _odd: set[PackKey] = field(default_factory=set)

    def run(self, suspects: Iterable[PackKey]) -> set[PackKey]:
        """Bring what is missing, and those of the suspects that are damaged; return what could not be had.

        A pack that came may name others, so this goes on until nothing new is wanted. What one lacks may
        lie in another that is made again. What no store has by its name may come in other packs; only where
        it does not, packs are made again in part.
        """
        lost = self._remade(self._brought(set(suspects)), self._whole)
        self.commits.move(lost - self._odd)  # the way is free again once a person moved what lies there
        lost = self._remade(lost, self._rebuilt)
        return (lost | self._partly) - self.commits.needless

    def _remade(self, lost: set[PackKey], make: Callable[[list[PackKey]], set[PackKey]]) -> set[PackKey]:
        """Make packs again for as long as any comes of it; return what is still lost."""
        while made := make(sorted(lost - self._hopeless - self.commits.needless)):
            lost = (lost - made) | self._brought(lost - made)
        return lost

    def _whole(self, left: list[PackKey]) -> set[PackKey]:
        return {key for key in left if self._rebuild(key, part=False)}

    def _rebuilt(self, left: list[PackKey]) -> set[PackKey]:
        """Make packs again; only where no other can be whole, one that is so in part."""
        return self._whole(left) or set(islice((key for key in left if self._rebuild(key, part=True)), 1))

    def _brought(self, doubted: set[PackKey]) -> set[PackKey]:
        tried, lost = set[PackKey](), set[PackKey]()
        while True:
            names = (doubted | self.wanted.names()) - self.commits.needless
            owed = sorted(key for key in names - tried if not self._is_there(key, key in doubted))
            tried |= names
            lost |= {key for key in owed if self._is_odd(key)}
            owed = [key for key in owed if key not in self._odd]
            if not owed:
                return lost
            self.progress.start("mending packs", len(owed), "packs")
            for key, copy in zip(owed, self._copies(owed), strict=True):
                if copy is None:
                    lost.add(key)
                else:
                    self._take(copy)
                self.progress.advance(1)
            self.progress.finish()

    def _rebuild(self, key: PackKey, *, part: bool) -> bool:
        found = Rebuilding(self.wanted, self._others).rebuilt(key)
        if found is None and self._has_footer(key):
            self._hopeless.add(key)  # what others hold is of no help
        if found is None or not (part or found.whole):
            return False
        if self.aside is not None:
            self.aside.keep(key.path)
        self.store.backend.replace(key.path, found.data)
        self.mended.append(Mended(key.path, found.how, len(found.data), found.whole))
        if not found.whole:
            self._partly.add(key)
        return True

    @cached_property
    def _others(self) -> list[ObjectStore]:
        return [ObjectStore(source.backend, self.store.memory) for source in self.sources]

    def _has_footer(self, key: PackKey) -> bool:
        try:
            return bool(self.store.catalog.look(key.name, exact=key.exact))
        except UNREADABLE_ERRORS:
            return False

    def _is_there(self, key: PackKey, doubted: bool) -> bool:  # noqa: FBT001 - called by position alone
        if not doubted:
            near = self.store.backend.near
            return self.store.backend.size(key.path) is not None and not (near and self._is_odd(key))
        try:
            return is_whole_pack(self.store.backend, key.name, exact=key.exact)
        except StorageError as error:  # a disk that does not give one file may give others
            self.note(error.message)
            return False

    def _is_odd(self, key: PackKey) -> bool:
        """Tell whether something lies there that is no file: nothing can take its place."""
        try:
            self.store.backend.head(key.path, 1)
        except NotFoundError:
            return False
        except StorageError as error:
            if not is_no_file(error):
                return False  # it is told where the pack is read
            if key not in self._odd:
                self._odd.add(key)
                self.note(f"{error.message}, so it was left alone: {error.hint}, and run 'mvcs repair' again")
            return True
        return False

    def _copies(self, keys: Sequence[PackKey]) -> Iterator[Copy | None]:
        remaining = iter(keys)
        with ThreadPoolExecutor(STREAMS) as pool:
            while batch := list(islice(remaining, STREAMS)):
                yield from pool.map(self._copy, batch)

    def _copy(self, key: PackKey) -> Copy | None:
        for source in self.sources:
            try:
                data = source.backend.read_small(key.path, MAX_FILE)
                return Copy(key, data, inspect_pack(key.name, data), f"copied from {source.name}")
            except NotFoundError:
                continue
            except (*UNREADABLE_ERRORS, StorageError) as error:
                self.note(f"'{key.path}' of {source.name} is unused: {error.message}")
        return None

    def _take(self, copy: Copy) -> None:
        """Put a good copy in its place, and what lay there aside; then see that it arrived."""
        key, backend = copy.key, self.store.backend
        if self.aside is not None:
            self.aside.keep(key.path)
        backend.replace(key.path, copy.data)
        if name_of(backend.read_small(key.path, MAX_FILE)) != key.name:
            raise StorageError(
                f"'{key.path}' was written and reads otherwise",
                hint="the disk is failing: clone to another one while it can be read",
            )
        self.store.catalog.add(key.name, copy.footer, exact=key.exact)
        self.mended.append(Mended(key.path, copy.how, len(copy.data)))


@dataclass
class OtherContents:
    """Finds contents of one damaged pack.

    Attributes:
        view: the store, which knows of no pack yet.
        pack: the name of the damaged one.
        exact: whether that is of an exact layer.
        tree: of the commit whose layer it is, or None.
        sources: stores of the same project.
    """

    view: ObjectStore
    pack: str
    exact: bool
    tree: Tree | None
    sources: Sequence[ObjectStore] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Know of all packs, and of what the damaged one is stored near."""
        for exact in (False, True):
            self.view.catalog.attach_everything(exact=exact)
        if self.exact and self.tree is not None:
            self.view.lean_on(self.tree, [self.pack])

    def of(self, placed: Placed) -> bytes | None:
        """Return the contents of all members of an entry; None where one is nowhere else."""
        self.view.catalog.distrust((self.pack, self.exact, placed.offset))
        parts = []
        for member, identifier in zip(placed.entry.members, placed.ids, strict=True):
            found = next(self._copies(member.kind, identifier), None)
            if found is None:
                return None
            parts.append(found)
        return b"".join(parts)

    def near(self, placed: Placed) -> bytes | None:
        """Return what the members are stored near; None where one of it cannot be read."""
        parts = []
        with suppress(*_REFUSED):
            for base, member in zip(placed.entry.bases, placed.entry.members, strict=True):
                if base.chunk is None:
                    parts.append(self.view.read(member.kind, base.id, exact=self.exact))
                else:
                    parts.append(bytes(self.view.base_values(base.id, base.chunk, self.pack)))
            return b"".join(parts)
        return None

    def _copies(self, kind: Kind, identifier: ObjectId) -> Iterator[bytes]:
        for store in (self.view, *self.sources):
            with suppress(MvcsError):
                yield bytes(store.read(kind, identifier, exact=self.exact and store is self.view))
        place = self._restoring.get(identifier)
        if place is not None:
            with suppress(*_REFUSED):
                values = bytes(self.view.restored_chunk(*place))
                if object_id(Kind.CHUNK, values) == identifier:
                    yield values

    @cached_property
    def _restoring(self) -> dict[ObjectId, _Place]:
        """Chunks as they were handed over, by id, and what restores to them if nothing was lost."""
        found: dict[ObjectId, _Place] = {}
        for leaf in self.tree.leaves if self.tree is not None and self.exact else ():
            if leaf.original is not None and isinstance(leaf.tensor, QuantizedTensor):
                for index, chunk in enumerate(leaf.original.chunks):
                    found.setdefault(chunk, (leaf.tensor, index))
        return found


@dataclass(frozen=True)
class Rebuilding:
    """Makes packs again from their own bytes.

    Attributes:
        wanted: tells of the commits of the store.
        others: stores of the same project.
    """

    wanted: WantedPacks
    others: Sequence[ObjectStore] = ()

    def rebuilt(self, key: PackKey) -> RebuiltPack | None:
        """Return a pack made again; None where nothing better than what lies there comes of it."""
        store = self.wanted.store
        try:
            data = store.backend.read_small(key.path, MAX_FILE)
        except (MvcsError, NotFoundError):
            return None
        view = store.apart()

        def salvaged() -> Salvage:
            if key.exact:
                self._lean(view, key.name)
            return salvage(view, key.name, exact=key.exact)

        def contents() -> OtherContents:
            tree = self._tree(view, key.name) if key.exact else None
            return OtherContents(view, key.name, key.exact, tree, self.others)

        with suppress(*UNREADABLE_ERRORS):
            return rebuild_pack(key.name, data, salvaged, contents)
        return None

    def _lean(self, view: ObjectStore, name: str) -> None:
        tree = self._tree(view, name)
        if tree is not None:
            view.lean_on(tree, [name])

    def _tree(self, view: ObjectStore, name: str) -> Tree | None:
        """Return the tree of the commit whose layer an exact pack is: stored near what it restores."""
        for revision in self.wanted.revisions():
            if name in revision.written.exact_packs:
                view.catalog.attach_commit(revision.id)
                with suppress(*UNREADABLE_ERRORS):
                    return view.tree(revision.commit.tree)
        return None
