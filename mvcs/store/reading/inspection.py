"""A pack before it is believed: its footer says what its entries say, and every object in it hashes."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from mvcs.delta import Content, decode, joined_bytes
from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.memory import Use
from mvcs.objects import ObjectId, half, object_id, short_id
from mvcs.progress import Progress
from mvcs.store.packs.entry import EntryBase, Member, read_entry
from mvcs.store.packs.footer import TRAILER_BYTES, Footer, Placed, Tail
from mvcs.store.packs.pack import check_header, name_of
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path

_REFUSED = (CorruptionError, NotFoundError, UnsupportedFormatError)


def inspect_pack(name: str, data: bytes) -> Footer:
    """Check the bytes of a whole pack against its name, and its footer against the entries it indexes.

    Raises:
        CorruptionError: something does not fit; the ids that the footer names are not looked at.
        UnsupportedFormatError: another version wrote it.
    """
    if name_of(data) != name:
        raise CorruptionError("it does not hash to its name")
    check_header(data)
    tail = Tail.parse(data[-TRAILER_BYTES:])
    if tail.pack_length != len(data):
        raise CorruptionError("its footer does not end where the file ends")
    footer = tail.footer(data[tail.footer_offset : -TRAILER_BYTES], name)
    for placed in footer.entries:
        entry, _, end = read_entry(data, placed.offset)
        if entry != placed.entry or end != placed.offset + placed.length:
            raise CorruptionError(f"the entry at offset {placed.offset} is not the one its footer names")
    return footer


@dataclass(eq=False)
class _Job:
    """An entry to decode, and the bases that come from entries still to be decoded."""

    pack: str
    placed: Placed
    missing: int = 0


class Inspection:
    """Decodes and hashes every object of some packs, each entry once and after its bases.

    Entries are taken depth first, so that little is held; what is held at most is bounded.
    """

    def __init__(self, store: ObjectStore, footers: Mapping[str, Footer], threads: int) -> None:
        """Look at the packs of `footers`.

        Args:
            store: reads these packs, and others in which bases may lie; of it no other has to be attached
                than those others, and these are attached after them.
            footers: of the packs to look at, by name, each as `inspect` gave it.
            threads: how many entries are decoded side by side.
        """
        self._store = store
        self._threads = threads
        jobs = [_Job(name, placed) for name, footer in footers.items() for placed in footer.entries]
        made = {half(identifier) for job in jobs for identifier in job.placed.ids}
        self._awaited = {name for name in made if store.catalog.find(name) is None}
        for name, footer in footers.items():
            store.catalog.add(name, footer)
        self._uses: Counter[ObjectId] = Counter()
        self._waiting: dict[ObjectId, list[_Job]] = defaultdict(list)
        self._held: dict[ObjectId, bytes] = {}
        self._room = store.memory.hold(Use.INSPECTION)
        self._ready: list[_Job] = []
        self._left = dict.fromkeys(jobs)
        for job in reversed(jobs):
            self._enter(job)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all entries."""
        return sum(job.placed.length for job in self._left)

    def run(self, progress: Progress) -> dict[str, MvcsError]:
        """Look at everything; return what is wrong, by the name of the pack it lies in.

        Raises:
            StorageError: a pack cannot be read.
        """
        problems: dict[str, MvcsError] = {}
        progress.start("checking packs", self.stored_bytes, "bytes")
        running: dict[Future[Content | MvcsError], _Job] = {}
        with ThreadPoolExecutor(self._threads) as pool:
            while self._ready or running:
                while self._ready and len(running) < self._threads:
                    job = self._ready.pop()
                    running[pool.submit(self._decoded, job)] = job
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job, found = running.pop(future), future.result()
                    progress.advance(job.placed.length)
                    if isinstance(found, MvcsError):
                        problems.setdefault(job.pack, found)
                    else:
                        self._leave(job, found)
        progress.finish()
        for job in self._left:
            problems.setdefault(job.pack, CorruptionError("the bases of an entry are nowhere, or damaged"))
        return problems

    def _enter(self, job: _Job) -> None:
        bases = job.placed.entry.base_ids
        self._uses.update(bases)
        awaited = self._awaited.intersection(bases)
        job.missing = len(awaited)
        for identifier in awaited:
            self._waiting[identifier].append(job)
        if not awaited:
            self._ready.append(job)

    def _leave(self, job: _Job, content: Content) -> None:
        """Hand the objects of a good entry to those that wait for them."""
        del self._left[job]
        self._release(job)
        start = 0
        for whole, member in zip(job.placed.ids, job.placed.entry.members, strict=True):
            identifier = half(whole)
            if identifier in self._awaited:
                self._awaited.remove(identifier)
                self._hold(identifier, content, start, member.length)
                for waiting in self._waiting.pop(identifier, ()):
                    waiting.missing -= 1
                    if not waiting.missing:
                        self._ready.append(waiting)
            start += member.length

    def _hold(self, identifier: ObjectId, content: Content, start: int, length: int) -> None:
        if self._uses[identifier] and self._room.resize(self._room.bytes + length):
            self._held[identifier] = bytes(content[start : start + length])

    def _release(self, job: _Job) -> None:
        for identifier in job.placed.entry.base_ids:
            self._uses[identifier] -= 1
            if not self._uses[identifier]:
                self._room.resize(self._room.bytes - len(self._held.pop(identifier, b"")))

    def _decoded(self, job: _Job) -> Content | MvcsError:
        """Return the content of an entry, hashed; an error when it is not what the footer promises."""
        entry = job.placed.entry
        try:
            data = self._store.backend.read(pack_path(job.pack), job.placed.offset, job.placed.length)
            _, payload, _ = read_entry(data, start=job.placed.offset)
            pairs = zip(entry.bases, entry.members, strict=bool(entry.bases))
            bases = [self._base(base, member) for base, member in pairs]
            for base, member in zip(bases, entry.members, strict=bool(bases)):
                if not entry.encoding.fits(len(base), member.length):
                    raise CorruptionError("the base of an entry has another length")
            self._check_expansion(job.placed)
            near = joined_bytes(bases) if bases else None
            content = decode(entry.encoding, payload, lengths=entry.lengths, element=entry.element, base=near)
            _check_ids(job.placed, content)
        except _REFUSED as error:
            return error
        return content

    def _check_expansion(self, placed: Placed) -> None:
        """See that readers will believe every description of an entry: what is taken in is never damage."""
        for identifier, member in zip(placed.ids, placed.entry.members, strict=True):
            located = self._store.catalog.find(identifier)
            if located is not None:
                self._store.check_expansion(member.kind, located)

    def _base(self, base: EntryBase, member: Member) -> Content:
        if base.chunk is not None:
            raise CorruptionError("an entry is based on restored values outside an exact layer")
        held = self._held.get(base.id)
        if held is not None:
            return held
        if self._store.catalog.find(base.id) is None:
            raise CorruptionError(
                f"object {short_id(base.id)}, which an entry is near, is in none of the packs that are named"
            )
        return self._store.read(member.kind, base.id)


def _check_ids(placed: Placed, content: Content) -> None:
    start = 0
    for identifier, member in zip(placed.ids, placed.entry.members, strict=True):
        part = memoryview(content)[start : start + member.length]
        start += member.length
        if object_id(member.kind, part) != identifier:
            raise CorruptionError(f"it holds no object {short_id(identifier)} where its footer promises one")
