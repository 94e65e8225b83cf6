"""Keeps what a clone knows of history in one of its records; a lost one is made again from the store."""

import json
import pathlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from mvcs.errors import MvcsError
from mvcs.local import LocalRecords
from mvcs.objects import ObjectId
from mvcs.refs import RefRecord
from mvcs.upkeep.collecting.known_history import KnownHistory, Line

SUBJECT = "history"
T = TypeVar("T")
_HASH = 32
_MOST = 5 << 20  # bytes of lines, and of records; a record of a clone has at most 16 MiB
_MOST_TEXT = 1 << 28  # bytes of either once they are expanded


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
