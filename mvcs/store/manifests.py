"""Where the data of commits lie: every commit has a manifest, a row of numbered records.

Number 0 is written with the commit and holds it. A later number says where its data lie since they were
moved or given up; the newest counts. `docs/format/manifests.md` is the specification; this module is the only
reader and writer of these bytes, and whoever asks which packs a commit needs asks here.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from threading import Lock
from typing import Self

from mvcs.delta import decode, encoding_numbered
from mvcs.errors import ConflictError, CorruptionError, LostError, NotFoundError, UnsupportedFormatError
from mvcs.objects import (
    MAX_NUMBER,
    Commit,
    Kind,
    ObjectId,
    as_bytes,
    as_id,
    as_integer,
    as_list,
    as_text,
    cbor,
    is_record_name,
    object_id,
    record_name,
    record_number,
    seal,
    short_id,
    unseal,
)
from mvcs.store.backend import Backend
from mvcs.store.backend.odd_files import odd_is_damage
from mvcs.store.packs.entry import OPAQUE, OPAQUE_ENCODINGS
from mvcs.store.packs.expansion_limit import FREE_FOOTER_BYTES, choose_described, is_plausible
from mvcs.store.packs.written_commit import Sizes, as_names, as_sizes, names_value
from mvcs.store.upgrades import DROPPED_DATA, has_upgrade, upgrade

MANIFEST_FOLDER = "manifests"
MAX_RECORD = 1 << 24
MAX_ANCESTORS = 20
MAX_PACKS = 4096
"""Packs that a commit of another store may need."""
_MAGIC = b"MVCSMAN1"
_MAX_RAW = 1 << 26
_TIME_LIMIT = 1 << 62
_ID_BYTES = 32
_SOME = 256  # records read at a time
_HELD = 16  # manifests in memory: who walks holds the commits
_MOST_HELD = 1 << 20  # bytes of one
_READERS = 8
_LOST = "they were lost, and 'mvcs repair --give-up' recorded that"
REPAIR_HINT = "'mvcs repair' makes it again from the commit's packs, or from a remote that has it"


@dataclass(frozen=True)
class WrittenCommit:
    """A commit, with its sizes and depth as first written.

    Attributes:
        id: the commit.
        content: its canonical bytes.
        raw_bytes: bytes of its tensors and blobs as handed over.
        stored_bytes: all bytes it added, its manifest included, but its exact layer.
        exact_bytes: bytes of its exact layer; 0 for an exact commit.
        depth: the longest chain of deltas behind any of its chunks.
        exact_packs: names of the packs of its exact layer, which may have been dropped.
    """

    id: ObjectId
    content: bytes
    raw_bytes: int = 0
    stored_bytes: int = 0
    exact_bytes: int = 0
    depth: int = 0
    exact_packs: tuple[str, ...] = ()

    @property
    def sizes(self) -> Sizes:
        """The four numbers, in the order in which they are written."""
        return self.raw_bytes, self.stored_bytes, self.exact_bytes, self.depth


@dataclass(frozen=True)
class DataDrop:
    """That the data of a commit were given up: its chunks, not its history.

    Attributes:
        time: when, in microseconds since 1970-01-01 UTC.
        rules: number of the record of rules that was in force in this store; None where that is not known.
        why: text for people.
    """

    time: int
    rules: int | None = None
    why: str = ""

    @classmethod
    def of_loss(cls, time: int) -> Self:
        """Return that data are lost: a repair brings them back where they turn up, unlike dropped ones."""
        return cls(time, None, _LOST)

    @property
    def is_loss(self) -> bool:
        """Whether the data were lost rather than dropped by a rule."""
        return self.rules is None and self.why == _LOST

    @property
    def value(self) -> cbor.Value:
        """The form in a record."""
        return [self.time, self.rules, self.why]

    @classmethod
    def from_value(cls, value: cbor.Value) -> Self:
        """Read the form in a record.

        Raises:
            CorruptionError: it is malformed.
        """
        time, rules, why = as_list(value, "a drop of data", 3)
        number = None if rules is None else as_integer(rules, "a number of rules", 0, MAX_NUMBER + 1)
        return cls(as_integer(time, "a time", -_TIME_LIMIT, _TIME_LIMIT), number, as_text(why, "a reason"))


@dataclass(frozen=True)
class Placement:
    """In which packs the value layer of a commit lies.

    Attributes:
        own: names of the packs that were written for the commit, in this order.
        others: names of all other packs that reading it needs, bases included.
        dropped: that its data were given up; then the packs hold the rest of it.
        number: of the record that says so.
    """

    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    dropped: DataDrop | None = None
    number: int = field(default=0, compare=False)

    @property
    def packs(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.own, *self.others)


@dataclass(frozen=True)
class Manifest:
    """The first record of a commit.

    Attributes:
        written: the commit.
        placement: where its data lay at first.
        ancestors: its nearest ancestors, nearest first, at most 20.
    """

    written: WrittenCommit
    placement: Placement
    ancestors: tuple[WrittenCommit, ...] = ()

    def counted(self) -> "Manifest":
        """Return it with its own bytes among those that the commit added, a few bytes more or less."""
        size = self.written.stored_bytes + len(self.encode())
        return replace(self, written=replace(self.written, stored_bytes=size))

    def encode(self) -> bytes:
        """Return the bytes of the record of number 0."""
        rows: list[cbor.Value] = []
        for written, following in zip((self.written, *self.ancestors), (*self.ancestors, None), strict=True):
            content, cut = written.content, None
            if following is not None and Commit.decode(content).parents[:1] == (following.id,):
                cut = content.index(following.id)  # the next row says it
                content = content[:cut] + content[cut + _ID_BYTES :]
            sizes = [written.raw_bytes, written.stored_bytes, written.exact_bytes, written.depth]
            rows.append([content, cut, sizes, names_value(written.exact_packs)])
        raw = cbor.dumps(rows)
        encoding, payload = choose_described(raw, FREE_FOOTER_BYTES)
        return _record(self.placement, [len(raw), bytes([encoding]) + bytes(payload)])

    @classmethod
    def decode(cls, data: bytes, commit: ObjectId) -> Self:
        """Read the bytes of the record of number 0 of a commit.

        Raises:
            CorruptionError: they are damaged, or of another commit.
            UnsupportedFormatError: another version wrote them.
        """
        placement, told = _parsed(data)
        if not isinstance(told, list):
            raise CorruptionError("it is not the first record of a commit")
        written, *ancestors = _described(told, commit)
        return cls(written, placement, (*ancestors,))


def encode_placement(commit: ObjectId, placement: Placement) -> bytes:
    """Return the bytes of a record of a later number."""
    return _record(placement, commit)


def decode_placement(data: bytes, commit: ObjectId) -> Placement:
    """Read where a record of any number says that the data of a commit lie.

    Raises:
        CorruptionError: it is damaged, or of another commit.
        UnsupportedFormatError: another version wrote it.
    """
    placement, told = _parsed(data)
    if isinstance(told, list):
        _described(told, commit)
    elif as_id(told) != commit:
        raise CorruptionError(f"it is that of commit {short_id(as_id(told))}")
    return placement


def _record(placement: Placement, told: cbor.Value) -> bytes:
    dropped = None if placement.dropped is None else placement.dropped.value
    packs = map(names_value, (placement.own, placement.others))
    return seal(_MAGIC, [placement.number, *packs, dropped, told])


def _parsed(data: bytes) -> tuple[Placement, cbor.Value]:
    values = as_list(unseal(_MAGIC, data, "a manifest", MAX_RECORD), "a manifest")
    if len(values) != 5:
        raise UnsupportedFormatError("a manifest says more than this version knows", hint="upgrade mvcs")
    number, own, others, dropped, told = values
    found = as_integer(number, "a manifest's number", 0, MAX_NUMBER + 1)
    if (found == 0) != isinstance(told, list):
        raise CorruptionError("the first record of a commit alone describes it")
    drop = None if dropped is None else DataDrop.from_value(dropped)
    return Placement(as_names(own), as_names(others), drop, found), told


def _described(told: cbor.Value, commit: ObjectId) -> list[WrittenCommit]:
    """Return the commits that the first record of a commit tells of, itself first."""
    length, packed = as_list(told, "the description in a manifest", 2)
    size, stored = as_integer(length, "a length", 1, _MAX_RAW), as_bytes(packed, "a description")
    if not stored or not is_plausible(size, len(stored), FREE_FOOTER_BYTES):
        raise CorruptionError("a manifest describes commits in an impossible length")
    encoding = encoding_numbered(stored[0])
    if encoding not in OPAQUE_ENCODINGS:
        raise CorruptionError(f"a manifest is encoded as '{encoding.name}'")
    raw = decode(encoding, stored[1:], lengths=[size], element=OPAQUE)
    rows = as_list(cbor.loads(raw), "commits")
    if not 0 < len(rows) <= 1 + MAX_ANCESTORS:
        raise CorruptionError(f"it tells of {len(rows)} commits")
    found: list[WrittenCommit] = []
    for row in reversed(rows):
        content, cut, sizes, exact = as_list(row, "a commit in a manifest", 4)
        data = as_bytes(content, "a commit")
        if cut is not None:
            place = as_integer(cut, "where a parent stands", 0, len(data) + 1)
            if not found:
                raise CorruptionError("a manifest leaves out a parent that it does not tell of")
            data = data[:place] + found[-1].id + data[place:]
        identifier = object_id(Kind.COMMIT, data)
        found.append(WrittenCommit(identifier, data, *as_sizes(sizes), as_names(exact)))
    if found[-1].id != commit:
        raise CorruptionError(f"it is that of commit {short_id(found[-1].id)}")
    return found[::-1]


def manifest_path(commit: ObjectId, number: int) -> str:
    """Return where a record of a commit lies."""
    return f"{MANIFEST_FOLDER}/{commit.hex()[:2]}/{commit.hex()}.{record_name(number)}"


def parse_path(path: str) -> tuple[ObjectId, int] | None:
    """Return the commit and the number of the record at a path; None for what is none."""
    commit, dot, key = path.rpartition("/")[2].partition(".")
    if not dot or not is_record_name(key) or len(commit) != 2 * _ID_BYTES:
        return None
    try:
        found = ObjectId(bytes.fromhex(commit)), record_number(key)
    except ValueError:
        return None
    return found if manifest_path(*found) == path else None


class Manifests:
    """The manifests of one store. Safe to use from several threads.

    First records never change and stay in memory for a while; where data lie is read each time.
    """

    def __init__(self, backend: Backend) -> None:
        """Read from `backend`, and write there."""
        self._backend = backend
        self._held: OrderedDict[ObjectId, Manifest] = OrderedDict()
        self._lock = Lock()

    def first(self, commit: ObjectId) -> Manifest:
        """Return the first record of a commit.

        Raises:
            NotFoundError: the commit is not in the store.
            CorruptionError: the record is damaged.
        """
        with self._lock:
            found = self._held.get(commit)
        if found is None:
            data, path = self._read(commit, 0)
            try:
                found = Manifest.decode(data, commit)
            except CorruptionError as error:
                raise _damaged(path, error) from error
            if len(data) <= _MOST_HELD:
                self._hold(found)
        return found

    def placement(self, commit: ObjectId) -> Placement:
        """Return where the data of a commit lie now.

        Raises:
            NotFoundError: the commit is not in the store.
            CorruptionError: the newest record is damaged.
        """
        newest = next(iter(self.numbers(commit)), 0)
        if newest == 0:
            return self.first(commit).placement
        try:
            return self.numbered(commit, newest)
        except NotFoundError:  # a newer one is there, and this one was collected
            return self.numbered(commit, next(iter(self.numbers(commit)), 0))

    def numbered(self, commit: ObjectId, number: int) -> Placement:
        """Return what the record of a number says; raises as `placement` does."""
        data, path = self._read(commit, number)
        try:
            found = decode_placement(data, commit)
        except CorruptionError as error:
            raise _damaged(path, error) from error
        if found.number != number:
            raise _damaged(path, CorruptionError("it lies under the number of another record"))
        return found

    def placements(self, commits: Iterable[ObjectId]) -> Iterator[tuple[ObjectId, Placement]]:
        """Yield where the data of several commits lie; from a distant store several at a time."""
        wanted = list(commits)
        if self._backend.near or len(wanted) < 2:
            yield from ((commit, self.placement(commit)) for commit in wanted)
            return
        with ThreadPoolExecutor(_READERS) as pool:
            yield from zip(wanted, pool.map(self.placement, wanted), strict=True)

    def numbers(self, commit: ObjectId) -> list[int]:
        """Return the numbers of the records of a commit, newest first."""
        folder, name = manifest_path(commit, 0).rsplit("/", 1)
        start = name.partition(".")[0] + "."
        found = (each for each in self._backend.children(folder) if each.startswith(start))
        keys = (each.removeprefix(start) for each in sorted(found))
        return [record_number(key) for key in keys if is_record_name(key)]

    def starting(self, prefix: str) -> list[ObjectId]:
        """Return the commits whose ids begin with at least two hexadecimal digits, sorted."""
        folder = f"{MANIFEST_FOLDER}/{prefix[:2]}"
        names = (each for each in self._backend.children(folder) if each.startswith(prefix))
        found = (parse_path(f"{folder}/{each}") for each in names)
        return sorted({at[0] for at in found if at is not None and at[1] == 0})

    def dropped(self, commits: Iterable[ObjectId]) -> dict[ObjectId, DataDrop]:
        """Return those of some commits whose data were given up; where nothing ever was, that costs one look.

        Raises:
            NotFoundError: a commit is not in the store.
            CorruptionError: a manifest is damaged.
        """
        if not has_upgrade(self._backend, DROPPED_DATA):
            return {}
        found = self.placements(commits)
        return {commit: placement.dropped for commit, placement in found if placement.dropped is not None}

    def listed(self) -> dict[ObjectId, list[int]]:
        """Return the numbers of the records of every commit, newest first."""
        found: dict[ObjectId, list[int]] = defaultdict(list)
        for path in self._backend.list(MANIFEST_FOLDER):
            at = parse_path(path)
            if at is not None:
                found[at[0]].append(at[1])
        return {commit: sorted(numbers, reverse=True) for commit, numbers in found.items()}

    def write(self, manifest: Manifest) -> Placement:
        """Write the first record of a commit, and return where its data lie now, as another writer's may say.

        Raises:
            StorageError: it could not be written.
        """
        commit, data = manifest.written.id, manifest.encode()
        if manifest.placement.dropped is not None:
            self._mark(manifest.placement.dropped)
        try:
            self._backend.create(manifest_path(commit, 0), data)
        except ConflictError:
            return self.placement(commit)
        self._hold(manifest)
        return manifest.placement

    def append(self, commit: ObjectId, placement: Placement, read: Placement) -> Placement:
        """Say where the data of a commit lie from now on, and return that with its number.

        Args:
            commit: the commit.
            placement: every base of what it holds must lie in its packs, which were verified.
            read: what was known to be the newest record before.

        Raises:
            ConflictError: another writer wrote that number first: read again.
            StorageError: it could not be written.
        """
        found = replace(placement, number=read.number + 1)
        path = manifest_path(commit, found.number)
        if placement.dropped is not None:
            self._mark(placement.dropped)
        self._backend.create(path, encode_placement(commit, found))
        if max(self.numbers(commit), default=0) > found.number:  # a collector deleted what was there
            self._backend.delete(path)
            raise ConflictError(f"where the data of commit {short_id(commit)} lie was changed meanwhile")
        return found

    def _hold(self, manifest: Manifest) -> None:
        with self._lock:
            self._held[manifest.written.id] = manifest
            while len(self._held) > _HELD:
                self._held.popitem(last=False)

    def _mark(self, dropped: DataDrop) -> None:
        """Have readers look for commits whose data were given up, before the first is there."""
        upgrade(self._backend, DROPPED_DATA, dropped.time, "")

    def _read(self, commit: ObjectId, number: int) -> tuple[bytes, str]:
        path = manifest_path(commit, number)
        try:
            with odd_is_damage():
                return self._backend.read_small(path, MAX_RECORD), path
        except NotFoundError as error:
            raise LostError(f"commit {short_id(commit)} is not in the store", hint=REPAIR_HINT) from error
        except CorruptionError as error:
            raise _damaged(path, error) from error


def _damaged(path: str, error: CorruptionError) -> CorruptionError:
    return CorruptionError(f"manifest '{path}' cannot be read: {error.message}", hint=REPAIR_HINT)


@dataclass(frozen=True, slots=True)
class Line:
    """What one record of a manifest says, in short.

    Attributes:
        stamp: when the record was written, in seconds by the store's clock; NaN where that does not tell.
        packs: names of the packs of the value layer.
        exact: names of the packs of the exact layer, which may have been dropped; number 0 alone tells.
        parents: those of the commit; number 0 alone tells.
    """

    stamp: float
    packs: tuple[str, ...]
    exact: tuple[str, ...] = ()
    parents: tuple[ObjectId, ...] = ()


@dataclass
class KnownManifests:
    """What records of manifests said, which need not be read again.

    A record never changes. One that was deleted and written again has another time, and is read again.

    Attributes:
        lines: by the paths of the records.
        met: paths of the lines that were asked for.
    """

    lines: dict[str, Line] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)


class ListedManifests:
    """All manifests of a store, as one listing shows them; what is not known of them is read once.

    Attributes:
        stamps: when each record was written, by commits and numbers; NaN where nobody knows.
        sizes: bytes of records, by their paths.
    """

    def __init__(self, backend: Backend, known: KnownManifests | None = None) -> None:
        """List the manifests of `backend`; what is read is added to `known`."""
        self._backend, self._manifests = backend, Manifests(backend)
        self._known = KnownManifests() if known is None else known
        self.stamps: dict[ObjectId, dict[int, float]] = defaultdict(dict)
        self.sizes: dict[str, int] = {}
        for path, (size, stamp) in backend.stamps(MANIFEST_FOLDER).items():
            at = parse_path(path)
            if at is not None:
                self.stamps[at[0]][at[1]], self.sizes[path] = stamp, size

    def numbers(self, commit: ObjectId) -> list[int]:
        """Return the numbers of the records of a commit, newest first.

        Raises:
            LostError: it has no first record.
        """
        if 0 not in self.stamps.get(commit, {}):
            # What was written behind the listing is asked for by its name.
            self.stamps[commit] = dict.fromkeys(self._manifests.numbers(commit), float("nan"))
        found = sorted(self.stamps[commit], reverse=True)
        if not found or found[-1] != 0:
            raise LostError(f"commit {short_id(commit)} has no manifest", hint=REPAIR_HINT)
        return found

    def lines(self, records: Iterable[tuple[ObjectId, int]]) -> Iterator[Line]:
        """Yield what records say, read some at a time, from a distant store side by side.

        Raises:
            NotFoundError: one is gone.
            CorruptionError: one is damaged.
        """
        left = iter(records)
        while wanted := list(islice(left, _SOME)):
            due = [at for at in wanted if self._is_due(*at)]
            if self._backend.near or len(due) < 2:
                read = list(map(self._read, due))
            else:
                with ThreadPoolExecutor(_READERS) as pool:
                    read = list(pool.map(self._read, due))
            self._known.lines.update((manifest_path(*at), line) for at, line in zip(due, read, strict=True))
            for at in wanted:
                path = manifest_path(*at)
                self._known.met.add(path)
                yield self._known.lines[path]

    def _is_due(self, commit: ObjectId, number: int) -> bool:
        line = self._known.lines.get(manifest_path(commit, number))
        return line is None or line.stamp != self.stamps[commit].get(number)

    def _read(self, at: tuple[ObjectId, int]) -> Line:
        commit, number = at
        stamp = self.stamps[commit].get(number, float("nan"))
        if number:
            return Line(stamp, self._manifests.numbered(commit, number).packs)
        first = self._manifests.first(commit)
        parents = Commit.decode(first.written.content).parents
        return Line(stamp, first.placement.packs, first.written.exact_packs, parents)
