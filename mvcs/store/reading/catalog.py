"""Which packs are known and where each object lies; fed by footers, which are hints and checked on use."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from mvcs.errors import LostError, MvcsError, NotFoundError
from mvcs.objects import ObjectId, half, short_id
from mvcs.store.backend import Backend
from mvcs.store.manifests import Manifests
from mvcs.store.packs.footer import Footer, Placed
from mvcs.store.reading.chains import Chain, CircleError, ClosedError, FindRuns, LocateApart, depth_of, trace
from mvcs.store.reading.located import ChunkPlace, Located, Run
from mvcs.store.reading.object_index import ObjectIndex
from mvcs.store.reading.pack_files import (
    EXACT_FOLDER,
    PARALLEL_READERS,
    UNREADABLE_ERRORS,
    VALUE_FOLDER,
    pack_name,
    read_footer,
)

_T = TypeVar("_T")
LOOKED = 4  # footers of packs that are not attached
_SOME = 4 * PARALLEL_READERS
_LISTINGS = 3
_CIRCLES = 64  # entries that lead back which one way down goes round
KEPT_LINKS = 512  # of a chain that stays in memory: more than real ones have


def _knows_nothing(_: ObjectId) -> None:
    return None


class Catalog:
    """The footers that are loaded, and an index of the objects they name.

    Objects of exact layers are kept apart: they are found only when asked for, and never reused. So are packs
    that a listing alone showed: a writer that died may have left them, and they go with what else it left.

    Attributes:
        manifests: in which packs the data of commits lie.
        damaged: the places of entries that are known to be damaged; other copies of their objects come first.
        avoided: packs that writers do not lean on, since a collector wants them gone.
        explains: is asked for a better error where an object is nowhere; it may know that it was dropped.
    """

    def __init__(self, backend: Backend, manifests: Manifests) -> None:
        """Start empty; packs are attached as they are needed."""
        self._backend = backend
        self.manifests = manifests
        self._footers: dict[tuple[str, bool], Footer] = {}
        self._failed: dict[tuple[str, bool], MvcsError] = {}
        self.damaged: set[ChunkPlace] = set()
        self.avoided: frozenset[str] = frozenset()
        self.explains: Callable[[ObjectId], MvcsError | None] = _knows_nothing
        self._index = ObjectIndex(self.damaged)
        self._looked: dict[tuple[str, bool], Footer] = {}
        self._listed: set[str] = set()
        self._salvaged = False  # whether the index has entries of packs without footers
        self._settled = False
        self._chains: dict[ChunkPlace, Chain] = {}
        self._depths: dict[ChunkPlace, int] = {}
        self._lock = threading.Lock()

    def attach(self, name: str, *, exact: bool = False) -> Footer:
        """Load the footer of a pack that a commit needs, once.

        Raises:
            NotFoundError: the pack is not there.
            CorruptionError: its footer is damaged.
        """
        if self._is_attached(name, exact=exact):
            return self._footers[name, exact]
        return self.add(name, self.look(name, exact=exact), exact=exact)

    def look(self, name: str, *, exact: bool = False) -> Footer:
        """Return a pack's footer; writers come to lean on nothing by it.

        Raises:
            NotFoundError: the pack is not there.
            CorruptionError: its footer is damaged.
        """
        found = self._footers.get((name, exact)) or self._looked.get((name, exact))
        if found is not None:
            return found
        try:
            return self._note_looked(name, read_footer(self._backend, name, exact=exact), exact=exact)
        except UNREADABLE_ERRORS as error:
            self._failed[name, exact] = error
            raise

    def _note_looked(self, name: str, footer: Footer, *, exact: bool) -> Footer:
        # What is looked at is often attached next.
        with self._lock:
            self._looked[name, exact] = footer
            while len(self._looked) > LOOKED:
                del self._looked[next(iter(self._looked))]
        return footer

    def _is_attached(self, name: str, *, exact: bool) -> bool:
        return (name, exact) in self._footers and (exact or name not in self._listed)

    def add(self, name: str, footer: Footer, *, exact: bool = False) -> Footer:
        """Take a footer that was just written or read."""
        with self._lock:
            if not self._is_attached(name, exact=exact):
                self._footers[name, exact] = footer
                self._index.enter(name, footer, exact=exact)
            if not exact:
                self._listed.discard(name)
            self._failed.pop((name, exact), None)
        return footer

    def enter(self, name: str, placed: Placed, *, exact: bool) -> None:
        """Take one entry of a pack whose footer cannot be read."""
        with self._lock:
            self._salvaged = True
            self._index.enter(name, Footer((placed,)), exact=exact)

    def attach_all(self, names: Iterable[str], *, exact: bool = False) -> None:
        """Load several footers: from another machine side by side; of a disk's, threads would cost more."""
        missing = [name for name in names if not self._is_attached(name, exact=exact)]
        if len(missing) < 2 or self._backend.near:
            for name in missing:
                self.attach(name, exact=exact)
            return
        with ThreadPoolExecutor(PARALLEL_READERS) as pool:
            # Some at a time: the first that is missing ends it.
            for start in range(0, len(missing), _SOME):
                some = missing[start : start + _SOME]
                # Entered in the order of their names here: of several copies the first to come is read.
                for name, footer in zip(some, pool.map(partial(self.look, exact=exact), some), strict=True):
                    self.add(name, footer, exact=exact)

    def attach_commit(self, commit: ObjectId) -> None:
        """Load the footers of all packs that the value layer of a commit needs.

        Where one of them is gone or damaged, all others of the store: they may hold the same objects.
        """
        try:
            self.attach_all(self.manifests.placement(commit).packs)
        except UNREADABLE_ERRORS:
            self.attach_everything()

    def attach_layer(self, names: Iterable[str]) -> None:
        """Load the footers of an exact layer; where one is damaged, those of all others, as above."""
        try:
            self.attach_all(names, exact=True)
        except UNREADABLE_ERRORS:
            self.attach_everything(exact=True)

    def attach_everything(self, *, exact: bool = False) -> list[MvcsError]:
        """Load every pack of the value or exact layers that a listing shows, for reading alone.

        Returns:
            What could not be read.
        """
        problems: list[MvcsError] = []
        for path in () if self._settled else self._backend.list(EXACT_FOLDER if exact else VALUE_FOLDER):
            name = pack_name(path)
            if name is None or (name, exact) in self._footers:
                continue
            try:
                self._list(name, self.look(name, exact=exact), exact=exact)
            except UNREADABLE_ERRORS as error:
                problems.append(error)
        return problems

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Load every pack, and take what none of them has for missing meanwhile, without another look.

        Whoever checks a whole store meets many objects that are gone: a listing and an explanation for each
        would take far longer than the check.
        """
        for exact in (False, True):
            # A pack that goes while its footer is read may be stored anew, where a listing shows it.
            for _ in range(_LISTINGS):
                if not any(isinstance(error, NotFoundError) for error in self.attach_everything(exact=exact)):
                    break
        self._settled = True
        try:
            yield
        finally:
            self._settled = False

    def _list(self, name: str, footer: Footer, *, exact: bool) -> None:
        if exact:
            self.add(name, footer, exact=True)
            return
        with self._lock:
            self._footers[name, False] = footer
            self._listed.add(name)
            self._index.enter_stray(name, footer)

    def vouches(self, packs: Iterable[str]) -> bool:
        """Tell whether commits that are known, or writers here, need or made all of these packs."""
        return self._listed.isdisjoint(packs)

    def avoid(self, packs: Iterable[str]) -> None:
        """Note which packs no writer should come to need from now on."""
        self.avoided = frozenset(packs)

    def known(self, name: str, *, exact: bool = False) -> Footer | None:
        """Return the footer of a pack, if it is loaded."""
        return self._footers.get((name, exact))

    def loaded(self) -> list[Footer]:
        """Return the footers that are loaded."""
        with self._lock:
            return list(self._footers.values())

    def keep(self, names: Iterable[str]) -> None:
        """Forget all footers but these, so that a long run's memory stays bounded."""
        kept = set(names)
        with self._lock:
            none_leaves = all(exact or name in kept for name, exact in self._footers)
            is_whole = none_leaves and not self._listed and not self._salvaged
            self._footers = {
                key: footer for key, footer in self._footers.items() if not key[1] and key[0] in kept
            }
            if is_whole:
                self._index.keep_value()
            else:
                # Made anew: an object of a forgotten pack may lie in a kept one as well.
                self._index = ObjectIndex(self.damaged)
                for (name, exact), footer in self._footers.items():
                    self._index.enter(name, footer, exact=exact)
            self._listed, self._looked, self._salvaged = set(), {}, False
            self._chains, self._depths = {}, {}

    def forget(self, names: Iterable[str]) -> None:
        """Forget packs that are gone."""
        with self._lock:
            kept = {name for name, exact in self._footers if not exact}
        self.keep(kept.difference(names, self._listed))

    def distrust(self, *places: ChunkPlace) -> None:
        """Note that entries are damaged: other copies are preferred to them, and writers make new ones."""
        with self._lock:
            self.damaged.update(places)
            self._chains, self._depths = {}, {}

    def trust_pack(self, name: str, *, exact: bool = False) -> None:
        """Note that a pack was written anew: what was known of its damage is no more."""
        with self._lock:
            self.damaged -= {place for place in self.damaged if place[:2] == (name, exact)}

    def distrust_pack(self, name: str, *, exact: bool = False) -> None:
        """Note that a pack is damaged in a way that costs all of its entries."""
        footer = self.known(name, exact=exact)
        self.distrust(*((name, exact, placed.offset) for placed in (footer.entries if footer else ())))

    def find(self, identifier: ObjectId, *, exact: bool = False) -> Located | None:
        """Return where an object lies whole among the attached packs; exact layers only when asked for."""
        return self._index.find(identifier, exact=exact)

    def locate(self, identifier: ObjectId, *, exact: bool = False) -> Located:
        """Return where an object lies, listing the store when no loaded pack has it whole.

        A copy that is known to be damaged is given when there is no other.

        Raises:
            NotFoundError: no pack of the store holds it.
            CorruptionError: nor does any, but one cannot be read.
        """
        found = self._index.whole(identifier, exact=exact)
        if found is not None:
            return found
        for layer in (False, True) if exact else (False,):
            self.attach_everything(exact=layer)
        found = self._index.any_copy(identifier, exact=exact)
        if found is None:
            raise self._missing(identifier, exact=exact)
        return found

    def _missing(self, identifier: ObjectId, *, exact: bool) -> MvcsError:
        damaged = (
            error
            for key, error in list(self._failed.items())
            if key[1] <= exact and not isinstance(error, NotFoundError)
        )
        told = None if self._settled else self.explains(identifier)
        error = next(damaged, None)
        if told is not None:
            return told
        if error is not None:
            message = f"object {short_id(identifier)} cannot be found: {error.message}"
            return type(error)(message, hint=error.hint)
        return LostError(
            f"object {short_id(identifier)} is not in the store '{self._backend.url}'",
            hint="run 'mvcs fsck' to see which commits need it",
        )

    def with_prefix(self, prefix: str, *, exact: bool = False) -> dict[ObjectId, Located]:
        """Return the objects of one layer in loaded packs whose id starts with hexadecimal digits."""
        with self._lock:
            return self._index.with_prefix(prefix, exact=exact)

    def copies(self, identifier: ObjectId, *, exact: bool = False) -> list[Located]:
        """Return every place in loaded packs where an object lies, whole or not."""
        with self._lock:
            return list(self._index.copies(identifier, exact=exact))

    def depth_of(self, located: Located) -> int:
        """Return the longest way from an object of a value layer down to an entry without bases, in steps.

        Raises:
            NotFoundError: a base is missing.
            CorruptionError: there are more of them than any writer makes, or they run in a circle.
        """
        depths = self._depths
        if located.place in depths:
            return depths[located.place]
        return self._anywhere(lambda locate, runs: depth_of(located, locate, runs, depths))

    def runs(self, identifiers: Iterable[ObjectId], *, exact: bool = False) -> list[Run] | None:
        """Return where objects of value layers lie, or of exact ones, as runs; None where each is located."""
        return self._index.runs([half(identifier) for identifier in identifiers], exact=exact)

    def chain_of(self, located: Located) -> Chain:
        """Return the entries behind an object whose own entry is known.

        Raises:
            NotFoundError: a base is missing.
            CorruptionError: there are more of them than any writer makes, or they run in a circle.
        """
        chains = self._chains
        found = chains.get(located.place)
        if found is None:
            found = self.chain_above(located, lambda _: False)
            if len(found.links) <= KEPT_LINKS:
                chains[located.place] = found
        return found

    def chain_above(self, located: Located, is_held: Callable[[ChunkPlace], bool]) -> Chain:
        """Return what `chain_of` does, but for the entries that are held, and what these need."""
        return self._anywhere(lambda locate, runs: trace([located], locate, is_held, runs))

    def _anywhere(self, work: Callable[[LocateApart, FindRuns], _T]) -> _T:
        try:
            return self._round(work, self._index.locate)
        except (NotFoundError, CircleError):
            # What no loaded pack has whole is looked for in the whole store, as any object is.
            return self._round(work, self._locate)

    def _round(self, work: Callable[[LocateApart, FindRuns], _T], locate: LocateApart) -> _T:
        """Do work without the entries from which every way comes back, as far as others have copies."""
        closed = set[ChunkPlace]()

        def open_locate(identifier: ObjectId, exact: bool, without: Collection[ChunkPlace]) -> Located:  # noqa: FBT001 - as `trace` calls it
            try:
                return locate(identifier, exact, {*without, *closed})
            except NotFoundError as error:
                locate(identifier, exact, ())
                raise ClosedError(error.message) from error

        while True:
            try:
                return work(open_locate, (lambda _: None)) if closed else work(locate, self._index.runs)
            except CircleError as error:
                if error.place in closed or len(closed) == _CIRCLES:
                    raise
                closed.add(error.place)

    def _locate(self, identifier: ObjectId, exact: bool, without: Collection[ChunkPlace]) -> Located:  # noqa: FBT001 - as `trace` calls it
        if not without:
            return self.locate(identifier, exact=exact)
        self.attach_everything()
        return self.elsewhere(identifier, exact, without)

    def elsewhere(self, identifier: ObjectId, exact: bool, without: Collection[ChunkPlace]) -> Located:  # noqa: FBT001 - as `trace` calls it
        """Return where an object lies whole in any loaded pack, and at none of some places.

        Raises:
            NotFoundError: no loaded pack has it whole elsewhere.
        """
        return self._index.locate(identifier, exact, without)
