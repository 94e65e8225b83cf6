"""Marking: what commits need of a store, from refs, pins and HEAD through commits to their manifests.

`docs/format/condemned.md` is the specification.
"""

import json
import pathlib
import zlib
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from mvcs.errors import CorruptionError, LostError, MvcsError, NotFoundError
from mvcs.local import LocalRecords
from mvcs.objects import Kind, ObjectId, object_id, short_id
from mvcs.refs import (
    HEADS,
    REMOTES,
    TAGS,
    TAKEN_BACK,
    DamagedRecord,
    RefRecord,
    RefStore,
    how_to_give_up,
    lost_end_error,
    recordless_error,
)
from mvcs.retention import pinned
from mvcs.store import (
    Backend,
    KnownManifests,
    Line,
    ListedManifests,
    manifest_path,
    pack_path,
    parse_path,
    refuse_changes,
    value_packs,
)

SUBJECT = "history"
_BATCH = 64
_MOST = 5 << 20  # bytes that are remembered; a record of a clone has at most 16 MiB
_MOST_TEXT = 1 << 28  # bytes of it once it is expanded
_HASH = 32
GivenUp = Callable[[str, str, RefRecord], bool]


@dataclass
class KnownHistory:
    """What need not be read again, in one collection or in the next.

    Attributes:
        manifests: what records of manifests say.
        records: records of refs by their hashes; one counts where the record above it holds its hash.
    """

    manifests: KnownManifests = field(default_factory=KnownManifests)
    records: dict[bytes, RefRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """What one clone's HEAD needs, and no ref may name.

    Attributes:
        commit: where HEAD stands without a branch.
        past: where it stood so before; what is no longer stored of that counts for nothing.
        doubt: why it may have stood on any commit of the store; None where its past is known.
    """

    commit: ObjectId | None = None
    past: frozenset[ObjectId] = frozenset()
    doubt: str | None = None


@dataclass(frozen=True)
class Reach:
    """What commits need of a store.

    Attributes:
        left: names that none needs, of those that were asked about: of packs, and ids of commits in
            hexadecimal; nothing while a commit cannot be read that only the past leads to.
        doubts: why any commit of the store may have been named.
        unread: why such a commit cannot be read.
        past: those that stay for no branch, tag, pin or HEAD of now.
        superseded: paths of records of manifests behind which newer ones are.
        records: bytes of all records of manifests, by their paths.
        moved: names of packs that only such records name as are younger than the wait.
    """

    left: set[str]
    doubts: list[str] = field(default_factory=list)
    unread: MvcsError | None = None
    past: frozenset[str] = frozenset()
    superseded: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()
    records: Mapping[str, int] = field(default_factory=dict)


def survey(
    backend: Backend,
    names: Iterable[str],
    head: Held | None = None,
    given_up: GivenUp | None = None,
    known: KnownHistory | None = None,
    since: Callable[[], float] | None = None,
    there: Collection[str] | None = None,
) -> Reach:
    """Tell which packs no commit needs, for either layer, and which commits nothing leads to.

    Commits count that a branch, a tag, a pin or what is known of a remote leads to, now or in a record that
    is kept of its past, and those that HEAD stands on or stood on. Where a record of the past is damaged or
    lost, or no ref is left, every commit of the store counts.

    Args:
        backend: the store.
        names: of packs, and ids of commits in hexadecimal.
        head: what HEAD needs; None for a store without one.
        given_up: tells of a ref, by its newest record, whether its past counts no more.
        known: what need not be read again; what is read is added.
        since: gives from when on records of manifests count beside the newest, in seconds by the store's
            clock, and is called where there are such; None for all of them.
        there: names of all packs of value layers, as listed before; then all commits are asked about.

    Raises:
        MvcsError: something is damaged or missing that a branch, a tag, a pin or HEAD leads to now, so that
            nobody can tell.
        UnsupportedFormatError: a newer mvcs upgraded the store: it may need packs in other ways.
    """
    refuse_changes(backend)
    left = set(names)
    head = head or Held()
    known = KnownHistory() if known is None else known
    # What comes while we look has a ref behind its manifest, and its manifest behind its packs.
    walk = _Walk(backend, known, since, there)
    if there is not None:
        left.update(commit.hex() for commit in walk.manifests.stamps)
    named = Named.of(RefStore(backend, known=known.records), given_up)
    doubts = [*named.doubts, *filter(None, [head.doubt])]
    now = [*_targets(named.newest), *pinned(backend), *filter(None, [head.commit])]
    walk.strike(left, now)
    after = frozenset(left)
    try:
        stored = walk.manifests.stamps
        past = [*_targets(named.older), *(list(stored) if doubts else ())]
        walk.strike(left, [*past, *(one for one in head.past if one in stored)])
    except (CorruptionError, NotFoundError) as error:
        return Reach(set(), doubts, error)
    moved, superseded = frozenset(walk.moved - walk.needed), frozenset(walk.superseded)
    return Reach(left, doubts, None, after - left - moved, superseded, moved, walk.manifests.sizes)


class _Walk:
    """A walk over commits that meets each once."""

    def __init__(
        self,
        backend: Backend,
        known: KnownHistory,
        since: Callable[[], float] | None,
        there: Collection[str] | None,
    ) -> None:
        self._backend = backend
        self._since = since
        self._seen: set[ObjectId] = set()
        self._there = there
        self.superseded: set[str] = set()
        self.moved: set[str] = set()
        self.needed: set[str] = set()
        self.manifests = ListedManifests(backend, known.manifests)

    def strike(self, left: set[str], starts: Iterable[ObjectId]) -> None:
        """Remove from `left` what these commits and their ancestors need.

        Raises:
            LostError: a commit is missing, or a pack that it needs.
            CorruptionError: a manifest is damaged.
        """
        queue = deque(starts)
        while some := list(islice(self._unseen(queue), _BATCH)):
            newest = {commit: self.manifests.numbers(commit)[0] for commit in some}
            records = [(commit, number) for commit in some for number in self._counting(commit)]
            for (commit, number), line in zip(records, self.manifests.lines(records), strict=True):
                left.discard(commit.hex())
                left.difference_update(line.exact)
                queue.extend(line.parents)
                if number == newest[commit]:
                    self._refuse_missing(commit, line.packs)
                    self.needed.update(line.packs)
                elif self._is_young(line.stamp):
                    self.moved.update(line.packs)
                else:
                    continue
                left.difference_update(line.packs)

    def _unseen(self, queue: deque[ObjectId]) -> Iterator[ObjectId]:
        while queue:
            commit = queue.popleft()
            if commit not in self._seen:
                self._seen.add(commit)
                yield commit

    def _counting(self, commit: ObjectId) -> Iterator[int]:
        """Yield the numbers of a commit's records that count: the newest, young ones, and the first."""
        numbers, stamps = self.manifests.numbers(commit), self.manifests.stamps[commit]
        for number in numbers:
            if number in (0, numbers[0]) or self._is_young(stamps[number]):
                yield number
            else:
                self.superseded.add(manifest_path(commit, number))

    def _is_young(self, stamp: float) -> bool:
        return self._since is None or not stamp < self._since()  # also where nobody knows when it was

    def _refuse_missing(self, commit: ObjectId, packs: Iterable[str]) -> None:
        """See that the packs of a value layer are there: what holds its objects instead may look unneeded."""
        if self._there is None:
            self._there = value_packs(self._backend)
        for name in packs:
            if name not in self._there and self._backend.size(pack_path(name)) is None:
                raise LostError(
                    f"commit {short_id(commit)} needs pack {name[:12]}, which is missing, "
                    "so nothing is deleted",
                    hint="'mvcs repair' brings back what it held, or with --give-up records that it is lost",
                )


def _targets(records: Iterable[RefRecord]) -> Iterator[ObjectId]:
    return (record.target for record in records if record.target is not None)


@dataclass
class Named:
    """What refs name, now or in a record that is kept of their past.

    Attributes:
        newest: where they stand.
        older: where they stood, as far as that can be read.
        doubts: why any commit of the store may have been named as well.
    """

    newest: list[RefRecord] = field(default_factory=list)
    older: list[RefRecord] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, refs: RefStore, given_up: GivenUp | None = None) -> "Named":
        """Read every record; of refs that are given up the newest alone.

        Raises:
            CorruptionError: the newest one of a ref is damaged, and nobody has decided on it yet.
            UnsupportedFormatError: another version wrote it.
        """
        found = cls()
        for kind in (HEADS, TAGS, REMOTES):
            names = refs.listed(kind)
            for name in names:
                row = list(refs.row(kind, name))
                is_past = given_up and row and isinstance(row[0], RefRecord) and given_up(kind, name, row[0])
                if not is_past:
                    found._take(kind, name, row)
            if not names and refs.is_begun(kind):
                found.doubts.append(f"'refs/{kind}' holds no names")
        if not found.newest and not found.older:
            found.doubts.append("no branch or tag is left")
        return found

    def _take(self, kind: str, name: str, row: Sequence[RefRecord | DamagedRecord]) -> None:
        for back, record in enumerate(row):
            above = row[back - 1] if back else None
            if isinstance(above, RefRecord) and above.action == TAKEN_BACK:
                continue
            if isinstance(record, RefRecord):
                (self.older if back else self.newest).append(record)
            elif back == 0:
                why = f"where '{name}' stands cannot be read, so nothing is deleted: {record.error.message}"
                raise type(record.error)(why, hint=how_to_give_up(kind, name))
            else:
                self.doubts.append(record.error.message)
        lost = lost_end_error(kind, name, row) if row else recordless_error(kind, name)
        if lost is not None:
            self.doubts.append(lost.message)


@contextmanager
def remembered_history(local: pathlib.Path | None, store_id: str) -> Iterator[KnownHistory]:
    """Give what a clone knows of the history of one store, and keep what is learnt if that can be written."""
    # Records of two stores have the same paths, and say different things.
    records, subject = LocalRecords(local), f"{SUBJECT}-{object_id(Kind.CHUNK, store_id.encode()).hex()[:16]}"
    known = _decoded(records.read(subject))
    before = dict(known.manifests.lines), set(known.records)
    yield known
    if (known.manifests.lines, set(known.records)) != before:
        with suppress(MvcsError), records.change(subject) as record:
            record.clear()
            record.update(_encoded(known))


def _encoded(known: KnownHistory) -> dict[str, str]:
    every, met = known.manifests.lines, known.manifests.met
    paths = sorted(every, key=lambda path: path not in met)
    newest = [record.encode() for record in reversed(known.records.values())]
    while True:
        lines, kept = {path: every[path] for path in paths}, [data.hex() for data in newest]
        found = {**_of_lines(lines), "records": _packed(kept)}
        if sum(map(len, found.values())) <= _MOST:
            return found
        paths, newest = paths[: len(paths) // 2], newest[: len(newest) // 2]


def _of_lines(lines: Mapping[str, Line]) -> dict[str, str]:
    """Return hashes, and rows of the places of hashes among them."""
    places: dict[str, int] = {}

    def place(name: str) -> int:
        return places.setdefault(name, len(places))

    rows = []
    for path, line in lines.items():
        commit, number = parse_path(path) or (b"", 0)
        names = [
            list(map(place, some)) for some in (line.packs, line.exact, [one.hex() for one in line.parents])
        ]
        rows.append([place(commit.hex()), number, line.stamp, *names])
    hashes = b"".join(bytes.fromhex(name) for name in places)
    return {"hashes": b64encode(hashes).decode(), "lines": _packed(rows)}


def _decoded(record: Mapping[str, Any]) -> KnownHistory:
    """Read what was kept; what does not look like it is nothing."""
    with suppress(KeyError, TypeError, ValueError, IndexError, zlib.error, RecursionError, MvcsError):
        data = b64decode(record["hashes"], validate=True)
        hashes = [ObjectId(data[start : start + _HASH]) for start in range(0, len(data), _HASH)]
        lines = dict(_line(row, hashes) for row in _unpacked(record["lines"]))
        records = [RefRecord.decode(bytes.fromhex(text)) for text in reversed(_unpacked(record["records"]))]
        return KnownHistory(KnownManifests(lines), {found.digest: found for found in records})
    return KnownHistory()


def _line(row: Sequence[Any], hashes: Sequence[ObjectId]) -> tuple[str, Line]:
    commit, number, stamp, packs, exact, parents = row

    def names(places: Iterable[int]) -> tuple[str, ...]:
        return tuple(hashes[place].hex() for place in places)

    line = Line(float(stamp), names(packs), names(exact), tuple(hashes[place] for place in parents))
    return manifest_path(hashes[commit], number), line


def _packed(value: Sequence[Any]) -> str:
    return b64encode(zlib.compress(json.dumps(value, separators=(",", ":")).encode())).decode()


def _unpacked(text: str) -> list[Any]:
    packed = zlib.decompressobj()
    data = packed.decompress(b64decode(text, validate=True), _MOST_TEXT)
    if packed.unconsumed_tail:
        raise ValueError("longer than anything that is kept")
    found = json.loads(data)
    if not isinstance(found, list):
        raise TypeError("no list")
    return found
