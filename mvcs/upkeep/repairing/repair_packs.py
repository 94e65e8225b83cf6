"""Packs that are damaged or missing come again, from a store that has them or from what is left of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from mvcs.errors import CorruptionError, NotFoundError, StorageError, UnsupportedFormatError
from mvcs.progress import Progress
from mvcs.reports import Mended
from mvcs.store import (
    MAX_FILE,
    Footer,
    ObjectStore,
    inspect_pack,
    is_no_file,
    is_whole_pack,
    name_of,
)
from mvcs.upkeep.repairing.ended_elsewhere import EndedElsewhere
from mvcs.upkeep.repairing.rebuilding import Rebuilding
from mvcs.upkeep.repairing.set_aside import SetAside
from mvcs.upkeep.repairing.sources import Source
from mvcs.upkeep.repairing.wanted_packs import PackKey, WantedPacks

STREAMS = 4  # packs in memory at a time
_UNFIT = (CorruptionError, NotFoundError, UnsupportedFormatError)


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
        elsewhere: brings what lost packs held in packs of other names.
        mended: what came.
    """

    store: ObjectStore
    wanted: WantedPacks
    sources: Sequence[Source]
    aside: SetAside | None
    progress: Progress
    note: Callable[[str], None]
    elsewhere: EndedElsewhere
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
        self.elsewhere.run(lost - self._odd)  # the way is free again once a person moved what lies there
        lost = self._remade(lost, self._rebuilt)
        return (lost | self._partly) - self.elsewhere.needless

    def _remade(self, lost: set[PackKey], make: Callable[[list[PackKey]], set[PackKey]]) -> set[PackKey]:
        """Make packs again for as long as any comes of it; return what is still lost."""
        while made := make(sorted(lost - self._hopeless - self.elsewhere.needless)):
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
            names = (doubted | self.wanted.names()) - self.elsewhere.needless
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
        except _UNFIT:
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
            except (*_UNFIT, StorageError) as error:
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
