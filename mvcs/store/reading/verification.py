"""What a commit leans on is read again before it is acknowledged, and compared with its checksums.

Bases in memory and footers in memory tell nothing of what has become of their bytes. On a disk of this
machine every commit reads the stored bytes of all chains that its new entries need, once; elsewhere a process
does.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from threading import RLock

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.memory import Budget, Use
from mvcs.store.backend import Backend
from mvcs.store.packs.entry import is_framed
from mvcs.store.packs.footer import Footer, Tail
from mvcs.store.reading.catalog import Catalog
from mvcs.store.reading.chains import Chain
from mvcs.store.reading.located import ChunkPlace, Located
from mvcs.store.reading.pack_files import PARALLEL_READERS, UNREADABLE_ERRORS, pack_path, read_part

# Entries of one pack that lie near each other are read at once, up to so many bytes.
_GAP, _SPAN = 1 << 16, 8 << 20

Span = list[Located]
Pack = tuple[str, bool]


class Verification:
    """Which entries and packs this process has found as they were written. Safe to use from several threads.

    What is found damaged is distrusted in the catalog.
    """

    def __init__(self, backend: Backend, catalog: Catalog, memory: Budget) -> None:
        """Nothing of the store was looked at yet."""
        self._backend = backend
        self._memory = memory
        self._catalog = catalog
        self._entries: set[ChunkPlace] = set()
        self._packs: set[Pack] = set()
        self._lock = RLock()

    def begin(self) -> None:
        """Begin a commit: where reading again costs little, everything is due again."""
        if self._backend.near:
            self.forget()

    def forget(self) -> None:
        """Forget what was looked at."""
        with self._lock:
            self._entries, self._packs = set(), set()

    def saw(self, place: ChunkPlace) -> None:
        """Note that an entry was just read and matched its checksum."""
        self._entries.add(place)

    def seen(self, place: ChunkPlace) -> bool:
        """Tell whether an entry needs no look for now."""
        return place in self._entries

    def wrote(self, pack: str, footer: Footer, *, exact: bool) -> None:
        """Note that a pack was just written."""
        self._catalog.trust_pack(pack, exact=exact)
        self._packs.add((pack, exact))
        self._entries.update((pack, exact, placed.offset) for placed in footer.entries)

    def refers(self, chain: Chain) -> bool:
        """Tell whether the packs of a chain are there, of their length and with their footers."""
        if any(link.place in self._catalog.damaged for link in chain.links):
            return False
        with self._lock:
            return all(self._pack(link.pack, exact=link.exact) for link in _one_a_pack(chain.links))

    def leans(self, chain: Chain) -> bool:
        """Tell whether all entries of a chain are as they were written, and their packs as above."""
        return self.refers(chain) and self.entries(chain.links)

    def entries(self, links: Iterable[Located]) -> bool:
        """Tell whether entries are as they were written; those are read that are due."""
        found = [link for link in links if link.pack]
        with self._lock:
            due = {link.place: link for link in found if link.place not in self._entries}
            hold = self._memory.hold(Use.READING)
            spans = list(
                _spans(due.values(), hold.take_rest() // (1 if self._backend.near else PARALLEL_READERS))
            )
            if len(spans) > 1 and not self._backend.near:
                with ThreadPoolExecutor(PARALLEL_READERS) as pool:
                    list(pool.map(self._read, spans))
            else:
                for span in spans:
                    self._read(span)
        return not any(link.place in self._catalog.damaged for link in found)

    def _read(self, span: Span) -> None:
        """Read neighbours at once; one by one where that fails, since some of them may be whole."""
        first, last = span[0], span[-1]
        start, end = first.placed.offset, last.placed.offset + last.placed.length
        path = pack_path(first.pack, exact=first.exact)
        try:
            data = memoryview(read_part(self._backend, path, start, end - start))
        except (CorruptionError, NotFoundError):
            if len(span) == 1:
                self._catalog.distrust(first.place)
            else:
                for link in span:
                    self._read([link])
            return
        for link in span:
            offset = link.placed.offset - start
            if is_framed(data[offset : offset + link.placed.length]):
                self._entries.add(link.place)
            else:
                self._catalog.distrust(link.place)

    def pack(self, name: str) -> bool:
        """Tell whether a value pack whose footer is loaded is there, of its length and with its footer."""
        with self._lock:
            return self._pack(name, exact=False)

    def _pack(self, name: str, *, exact: bool) -> bool:
        if (name, exact) in self._packs or not name:
            return True
        footer = self._catalog.known(name, exact=exact)
        if footer is None or not self._is_whole(pack_path(name, exact=exact), footer):
            self._catalog.distrust_pack(name, exact=exact)
            return False
        self._packs.add((name, exact))
        return True

    def _is_whole(self, path: str, footer: Footer) -> bool:
        """Tell whether a pack has its length and ends in the footer that is in memory."""
        if footer.tail is None or self._backend.size(path) != footer.tail.pack_length:
            return False
        start = footer.tail.footer_offset
        try:
            end = read_part(self._backend, path, start, footer.tail.pack_length - start)
            return Tail.parse(end) == footer.tail and footer.tail.matches(end)
        except UNREADABLE_ERRORS:
            return False


def _one_a_pack(links: Iterable[Located]) -> Iterable[Located]:
    return {(link.pack, link.exact): link for link in links}.values()


def _spans(due: Iterable[Located], most: int) -> Iterator[Span]:
    """Yield entries in groups that lie near each other in one pack: so many bytes at most, or one."""
    ordered = sorted(due, key=lambda link: link.place)
    for _, links in groupby(ordered, key=lambda link: (link.pack, link.exact)):
        span: Span = []
        for link in links:
            if span and not _near(span, link, min(most, _SPAN)):
                yield span
                span = []
            span.append(link)
        yield span


def _near(span: Span, link: Located, most: int) -> bool:
    last, start = span[-1].placed, span[0].placed.offset
    end = link.placed.offset + link.placed.length
    return link.placed.offset - last.offset - last.length <= _GAP and end - start <= most
