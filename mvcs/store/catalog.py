"""Which packs are known and where each object lies; fed by footers, which are hints and checked on use."""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.objects.ids import ObjectId, short
from mvcs.store.backend import Backend
from mvcs.store.chains import Chain, Located, Place, trace
from mvcs.store.footer import TRAILER_BYTES, Footer, Tail

VALUE_FOLDER, EXACT_FOLDER = "packs", "exact"
TAIL_GUESS = 1 << 16
READERS = 8
LOOKED = 4  # footers of packs that are not attached


def pack_path(name: str, *, exact: bool = False) -> str:
    """Return where the pack `name` lies in a store; packs of exact layers have a folder of their own."""
    return f"{EXACT_FOLDER if exact else VALUE_FOLDER}/{name[:2]}/{name}.pack"


def pack_name(path: str) -> str | None:
    """Return the name of the pack at `path`, None when the file is not a pack."""
    stem = path.rpartition("/")[2].removesuffix(".pack")
    is_name = len(stem) == 64 and all(digit in "0123456789abcdef" for digit in stem)
    return stem if is_name and path.endswith(".pack") else None


def read_footer(backend: Backend, name: str, *, exact: bool = False) -> Footer:
    """Read and check the footer of a pack with one or two short reads.

    Raises:
        NotFoundError: the pack is not there.
        CorruptionError: its end is damaged.
    """
    path = pack_path(name, exact=exact)
    try:
        end = backend.read(path, -TAIL_GUESS)
        tail = Tail.parse(end)
        wanted = tail.footer_length + TRAILER_BYTES
        if wanted > len(end):
            end = backend.read(path, -wanted)
        return tail.footer(end[-wanted:-TRAILER_BYTES], name)
    except NotFoundError as error:
        raise NotFoundError(
            error.message, hint="copy it from a clone or remote; 'mvcs fsck' shows what else is missing"
        ) from error
    except CorruptionError as error:
        raise CorruptionError(
            f"pack '{path}': {error.message}", hint="run 'mvcs fsck' to see what it touches"
        ) from error


class Catalog:
    """The footers that are loaded, and an index of the objects they name.

    Objects of exact layers are kept apart: they are found only when asked for, and never reused. So are packs
    that a listing alone showed: a writer that died may have left them, and they go with what else it left.
    """

    def __init__(self, backend: Backend) -> None:
        """Start empty; packs are attached as they are needed."""
        self._backend = backend
        self._footers: dict[tuple[str, bool], Footer] = {}
        self._index: tuple[dict[ObjectId, Located], dict[ObjectId, Located]] = ({}, {})
        self._looked: dict[tuple[str, bool], Footer] = {}
        self._listed: set[str] = set()
        self._strays: dict[ObjectId, Located] = {}
        self._chains: dict[Place, Chain] = {}
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
        return found or self._note_looked(name, read_footer(self._backend, name, exact=exact), exact=exact)

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
            self._footers[name, exact] = footer
            _enter(self._index[exact], name, footer, exact=exact)
            if not exact:
                self._listed.discard(name)
        return footer

    def attach_all(self, names: Iterable[str], *, exact: bool = False) -> None:
        """Load several footers side by side."""
        missing = [name for name in names if not self._is_attached(name, exact=exact)]
        if len(missing) < 2:
            for name in missing:
                self.attach(name, exact=exact)
            return
        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(lambda name: self.attach(name, exact=exact), missing))

    def attach_everything(self) -> list[MvcsError]:
        """Load every pack of the value layers that a listing shows, for reading alone.

        Returns:
            What could not be read.
        """
        problems: list[MvcsError] = []
        for path in self._backend.list(VALUE_FOLDER):
            name = pack_name(path)
            if name is None or (name, False) in self._footers:
                continue
            try:
                self._list(name, read_footer(self._backend, name))
            except (CorruptionError, NotFoundError, UnsupportedFormatError) as error:
                problems.append(error)
        return problems

    def _list(self, name: str, footer: Footer) -> None:
        with self._lock:
            self._footers[name, False] = footer
            self._listed.add(name)
            _enter(self._strays, name, footer, exact=False)

    def vouches(self, packs: Iterable[str]) -> bool:
        """Tell whether commits that are known, or writers here, need or made all of these packs."""
        return self._listed.isdisjoint(packs)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all footers but these, so that a long run's memory stays bounded."""
        kept = set(names)
        with self._lock:
            self._footers = {
                key: footer for key, footer in self._footers.items() if not key[1] and key[0] in kept
            }
            # Made anew: an object of a forgotten pack may lie in a kept one as well.
            index: dict[ObjectId, Located] = {}
            for (name, exact), footer in self._footers.items():
                _enter(index, name, footer, exact=exact)
            self._index = (index, {})
            self._listed, self._strays = set(), {}
            self._chains, self._looked = {}, {}

    def forget(self, names: Iterable[str]) -> None:
        """Forget packs that are gone."""
        with self._lock:
            kept = {name for name, exact in self._footers if not exact}
        self.keep(kept.difference(names, self._listed))

    def distrust(self, identifier: ObjectId) -> None:
        """Forget the entry of an object that is damaged: a writer that has its content stores it again."""
        with self._lock:
            index = self._index[False]
            found = index.get(identifier)
            for name in set(found.placed.ids) if found else ():
                if found and name in index and index[name].place == found.place:
                    del index[name]

    def find(self, identifier: ObjectId, *, exact: bool = False) -> Located | None:
        """Return where an object lies among the attached packs; exact layers only when asked for."""
        found = self._index[False].get(identifier)
        return self._index[True].get(identifier) if found is None and exact else found

    def locate(self, identifier: ObjectId, *, exact: bool = False) -> Located:
        """Return where an object lies, listing the store when no loaded pack has it.

        Raises:
            NotFoundError: no pack of the store holds it.
        """
        found = self.find(identifier, exact=exact) or self._strays.get(identifier)
        if found is None:
            self.attach_everything()
            found = self._strays.get(identifier)
        if found is None:
            raise NotFoundError(
                f"object {short(identifier)} is not in the store '{self._backend.url}'",
                hint="run 'mvcs fsck' to see which commits need it",
            )
        return found

    def with_prefix(self, prefix: str) -> dict[ObjectId, Located]:
        """Return the objects of value layers in loaded packs whose id starts with hexadecimal digits."""
        with self._lock:
            index = self._strays | self._index[False]
            return {found: located for found, located in index.items() if found.hex().startswith(prefix)}

    def chain(self, identifier: ObjectId) -> Chain:
        """Return the entries behind an object of a value layer.

        Raises:
            NotFoundError: a base is missing.
            CorruptionError: there are more of them than any writer makes, or they run in a circle.
        """
        return self.chain_of(self.locate(identifier))

    def chain_of(self, located: Located) -> Chain:
        """Return the entries behind an object whose own entry is known."""
        chains = self._chains
        found = chains.get(located.place)
        if found is None:
            found = chains[located.place] = trace([located], self._locate)
        return found

    def _locate(self, identifier: ObjectId, exact: bool) -> Located:  # noqa: FBT001 - called by position alone
        return self.locate(identifier, exact=exact)


def _enter(index: dict[ObjectId, Located], name: str, footer: Footer, *, exact: bool) -> None:
    for placed in footer.entries:
        for member, identifier in enumerate(placed.ids):
            index.setdefault(identifier, Located(name, exact, placed, member))
