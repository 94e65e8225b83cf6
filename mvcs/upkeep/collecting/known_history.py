"""What a clone remembers of the packs that end commits, and of records of refs, between two collections.

What such a pack says never changes, since its name is the hash of it; and a record of a ref counts only where
the one above it holds its hash. So nothing here grows old: not when refs move back, branches are deleted,
commits are ended anew or other clones write. A marking walks over it from the refs that are there now.
"""

import json
import pathlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import SystemRandom
from typing import Any, TypeVar

from mvcs.errors import MvcsError
from mvcs.history import Revision
from mvcs.local import LocalRecords
from mvcs.objects import ObjectId
from mvcs.refs import RefRecord
from mvcs.store import PARALLEL_READERS, UNREADABLE_ERRORS, Backend, Footer, read_footer

Node = tuple[ObjectId, str | None]
SUBJECT = "history"
T = TypeVar("T")
_HASH = 32
_MOST = 5 << 20  # bytes of lines, and of records; a record of a clone has at most 16 MiB
_MOST_TEXT = 1 << 28  # bytes of either once they are expanded


"""A commit, and the name of the pack that is said to end it."""


PROVEN = 64


"""Lines that are compared with the store before something is deleted."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a pack says of the commit that it ends.

    Attributes:
        commit: the commit.
        parents: its parents, each with the pack that ends it.
        needed: names of all other packs that its value layer needs.
        exact: names of the packs of its exact layer.
    """

    commit: ObjectId
    parents: tuple[Node, ...]
    needed: tuple[str, ...]
    exact: tuple[str, ...]

    @classmethod
    def of(cls, footer: Footer) -> "Line | None":
        """Return what a footer says; None where it ends no commit, or does not tell of all its parents."""
        if not footer.commits:
            return None
        told = {written.id: written.pack for written in footer.commits[1:]}
        written = footer.commits[0]
        parents = Revision(written).commit.parents
        if not told.keys() >= set(parents):
            return None
        nodes = tuple((parent, told[parent]) for parent in parents)
        return cls(written.id, nodes, footer.needed, written.exact_packs)


@dataclass
class KnownHistory:
    """What is known without asking the store again.

    Attributes:
        lines: by the packs that end commits, what they say.
        records: records of refs by their hashes.
        met: packs whose lines counted in this process.
        read: packs whose lines were read from the store in this process.
    """

    lines: dict[str, Line] = field(default_factory=dict)
    records: dict[bytes, RefRecord] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    _packs: dict[ObjectId, set[str]] | None = None

    def of(self, commit: ObjectId) -> Iterator[tuple[str, Line]]:
        """Yield the packs that are known to end a commit, and what they say."""
        if self._packs is None:
            self._packs = {}
            for pack, line in self.lines.items():
                self._packs.setdefault(line.commit, set()).add(pack)
        for pack in sorted(self._packs.get(commit, ())):
            yield pack, self.lines[pack]

    def learn(self, backend: Backend, pool: Executor, packs: Iterable[str]) -> None:
        """Read what is not known yet; what cannot be read stays unknown."""
        unknown = [pack for pack in packs if pack not in self.lines]
        for pack, line in zip(unknown, pool.map(partial(_read, backend), unknown), strict=True):
            if line is not None:
                self.lines[pack] = line
                self.read.add(pack)
                if self._packs is not None:
                    self._packs.setdefault(line.commit, set()).add(pack)

    def prove(self, backend: Backend) -> None:
        """Compare lines that counted with the store, up to 64 at random; forget all where one differs.

        Raises:
            MvcsError: a pack cannot be read.
        """
        told = sorted(self.met & (self.lines.keys() - self.read))
        chosen = SystemRandom().sample(told, min(PROVEN, len(told)))
        with ThreadPoolExecutor(PARALLEL_READERS) as pool:
            found = list(pool.map(partial(read_footer, backend), chosen))
        if any(Line.of(footer) != self.lines[pack] for pack, footer in zip(chosen, found, strict=True)):
            self.forget()
        self.read.update(chosen)

    def forget(self) -> None:
        """Know only what was read from the store in this process."""
        self.lines = {pack: line for pack, line in self.lines.items() if pack in self.read}
        self._packs = None


def _read(backend: Backend, pack: str) -> Line | None:
    try:
        return Line.of(read_footer(backend, pack))
    except UNREADABLE_ERRORS:
        return None


@contextmanager
def remembered_history(local: pathlib.Path | None) -> Iterator[KnownHistory]:
    """Give what a clone knows of history, and keep what is learnt if that can be written."""
    records = LocalRecords(local)
    known = _decoded(records.read(SUBJECT))
    before = set(known.lines), set(known.records)
    yield known
    if (set(known.lines), set(known.records)) != before:
        with suppress(MvcsError), records.change(SUBJECT) as record:
            record.clear()
            record.update(_encoded(known))


def _encoded(known: KnownHistory) -> dict[str, str]:
    packs = sorted(known.lines, key=lambda pack: pack not in known.met)
    newest = [record.encode() for record in reversed(known.records.values())]
    return {
        **_fitting(packs, lambda some: _of_lines({pack: known.lines[pack] for pack in some})),
        **_fitting(newest, lambda some: {"records": _packed([data.hex() for data in some])}),
    }


def _fitting(items: Sequence[T], encode: Callable[[Sequence[T]], dict[str, str]]) -> dict[str, str]:
    """Encode items, fewer where they would not fit."""
    while sum(map(len, (found := encode(items)).values())) > _MOST:
        items = items[: len(items) // 2]
    return found


def _of_lines(lines: Mapping[str, Line]) -> dict[str, str]:
    """Return hashes, and rows of the places of hashes among them."""
    places: dict[str, int] = {}

    def place(name: str) -> int:
        return places.setdefault(name, len(places))

    rows = [
        [
            place(pack),
            place(line.commit.hex()),
            [[place(parent.hex()), place(str(ends))] for parent, ends in line.parents],
            list(map(place, line.needed)),
            list(map(place, line.exact)),
        ]
        for pack, line in lines.items()
    ]
    hashes = b"".join(bytes.fromhex(name) for name in places)
    return {"hashes": b64encode(hashes).decode(), "lines": _packed(rows)}


def _decoded(record: Mapping[str, Any]) -> KnownHistory:
    """Read what was kept; what does not look like it is nothing."""
    with suppress(KeyError, TypeError, ValueError, IndexError, zlib.error, RecursionError, MvcsError):
        data = b64decode(record["hashes"], validate=True)
        hashes = [data[start : start + _HASH] for start in range(0, len(data), _HASH)]
        lines = dict(_line(row, hashes) for row in _unpacked(record["lines"]))
        records = [RefRecord.decode(bytes.fromhex(text)) for text in reversed(_unpacked(record["records"]))]
        return KnownHistory(lines, {found.digest: found for found in records})
    return KnownHistory()


def _line(row: Sequence[Any], hashes: Sequence[bytes]) -> tuple[str, Line]:
    pack, commit, parents, needed, exact = row

    def names(places: Iterable[int]) -> tuple[str, ...]:
        return tuple(hashes[place].hex() for place in places)

    nodes = tuple((ObjectId(hashes[parent]), hashes[ends].hex()) for parent, ends in parents)
    return hashes[pack].hex(), Line(ObjectId(hashes[commit]), nodes, names(needed), names(exact))


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
