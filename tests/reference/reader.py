"""A second reader of a store of format 1, written from `docs/format` alone; it imports nothing of mvcs.

It is made to be read beside the pages: names are theirs, and each part says which page it follows. It reads
whole files, and one symbol at a time: it is slow, and is for what fits in memory. It never writes.

`reader_objects.py` says what objects, tensors and records say, `reader_payloads.py` how payloads hold chunks.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
import struct
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tests.reference.reader_objects import (
    BLOB,
    CHUNK,
    COMMIT,
    KINDS,
    NEWEST_KEY,
    PRIMITIVES,
    SIZES,
    TREE,
    FileEntry,
    Leaf,
    Quantized,
    Record,
    Tag,
    Tree,
    array,
    blob_chunks,
    canonical,
    check_record,
    checksum,
    commit,
    drop,
    ident,
    integer,
    name_of,
    note,
    numpy_type,
    object_id,
    parse,
    plain_hash,
    raw,
    record,
    restored,
    tree,
    upgrade,
    utf8,
)
from tests.reference.reader_payloads import (
    KNOWN,
    MOST_CODES,
    NARROWED,
    NEAR,
    RAW,
    ZSTD,
    ZSTD_DELTA,
    CorruptionError,
    ElementFormat,
    MissingError,
    Payload,
    UnsupportedError,
    decode,
    known,
    must,
)

# packs.md.

_MOST_MEMBERS, _MOST_DECODED, _TRAILER, _HEADER, _FRAME = 4096, 1 << 26, 48, 16, 32
_MOST_ANCESTORS, _MOST_FOOTER, _HALF = 32, 1 << 28, 16

Base = bytes | tuple[bytes, int]
"""Half the id of an object, or of a quantized tensor and the number of a chunk."""


@dataclass(frozen=True)
class Entry:
    """Members, and how they are stored."""

    members: list[tuple[int, int]]
    encoding: int
    element: ElementFormat
    bases: list[Base] | None
    payload: bytes
    stored: int
    ids: list[bytes] = field(default_factory=list)

    @property
    def lengths(self) -> list[int]:
        return [length for _, length in self.members]

    def decode(self, bases: list[bytes]) -> list[bytes]:
        """Return the content of each member, near the contents of their bases."""
        scale = {ZSTD_DELTA: 0, NARROWED: 2}.get(self.encoding, 1)
        for base, length in zip(bases, self.lengths, strict=False):
            must(not scale or len(base) == scale * length, "base and content have other lengths")
        near = b"".join(bases) if self.encoding in NEAR else None
        content = Payload(decode(self.encoding, self.element, self.lengths, self.payload, near))
        return [content.take(length) for length in self.lengths]


def entry_at(data: bytes, at: int = 0) -> Entry:
    """Return the entry that begins there."""
    must(data[at : at + 4] == b"MVCE", "not an entry")
    must(len(data) >= at + _FRAME, "an entry ends too early")
    header_length, payload_length = struct.unpack_from("<IQ", data, at + 4)
    end = at + _FRAME + header_length + payload_length
    must(end <= len(data), "an entry ends too early")
    body = data[at + _FRAME : end]
    must(checksum(body) == data[at + 16 : at + _FRAME], "an entry's checksum does not match")
    return _described_entry(parse(body[:header_length]), body[header_length:], end - at)


def _described_entry(header: Any, payload: bytes, stored: int) -> Entry:
    members, encoding, element, bases = array(header, 4)
    known(integer(encoding) in KNOWN, f"encoding {encoding}")
    entry = Entry(
        [_member(member) for member in array(members)],
        encoding,
        ElementFormat.of(element),
        None if bases is None else [_base(base) for base in array(bases)],
        payload,
        stored,
    )
    _check_entry(entry)
    return entry


def _member(value: Any) -> tuple[int, int]:
    kind, length = array(value, 2)
    known(integer(kind) in {CHUNK, BLOB, TREE, COMMIT}, f"kind {kind} in an entry")
    return kind, integer(length)


def _base(value: Any) -> Base:
    if type(value) is bytes:
        return raw(value, _HALF)
    tensor, number = array(value, 2)
    return raw(tensor, _HALF), integer(number)


def _check_entry(entry: Entry) -> None:
    total, kinds = sum(entry.lengths), {kind for kind, _ in entry.members}
    must(entry.members and total <= _MOST_DECODED, "an entry without members, or of too many bytes")
    must((entry.bases is not None) == (entry.encoding in NEAR), "bases do not go with the encoding")
    must(entry.bases is None or len(entry.bases) == len(entry.members), "a member without a base")
    if entry.encoding in {RAW, ZSTD, ZSTD_DELTA}:
        must(entry.encoding != ZSTD_DELTA or len(entry.members) == 1, "ZSTD_DELTA of several members")
        return
    size = entry.element.size
    must(kinds == {CHUNK} and not any(length % size for length in entry.lengths), "not whole elements")
    must(len(entry.members) <= _MOST_MEMBERS, "too many members")
    must(len(entry.members) == 1 or total // size <= MOST_CODES, "too many elements")


@dataclass(frozen=True)
class CommitRow:
    """What a footer says of a commit."""

    content: bytes
    pack: bytes
    exact_packs: frozenset[bytes]


class Pack:
    """A whole pack, each entry compared with its checksum, and all with the name and the footer."""

    def __init__(self, name: bytes, data: bytes, *, exact: bool) -> None:
        self.name, self.exact = name, exact
        must(data[:8] == b"MVCSPACK", "not a pack")
        _check_version(data, 8)
        offset, footer = _footer(data)
        entries, commits, reach, own = array(_footer_value(footer, data), 4)
        frames, at = b"", _HEADER
        self.entries: list[Entry] = []
        for row in array(entries):
            entry = self._entry(array(row, 4), data[:offset], at)
            frames, at = frames + data[at : at + _FRAME], at + entry.stored
            self.entries.append(entry)
        must(at == offset, "the footer is not behind the last entry")
        must(
            plain_hash(data[:_HEADER] + frames + footer + data[-_TRAILER:]) == name, "a pack of another name"
        )
        must(len(array(commits)) <= 1 + _MOST_ANCESTORS, "too many commits in a footer")
        self.commits = [self._commit(row) for row in commits]
        self.reach, self.own = [ident(one) for one in array(reach)], [ident(one) for one in array(own)]
        own_rows = [number for number, row in enumerate(self.commits) if row.pack == name]
        must(own_rows == [0] * bool(self.commits), "a pack ends another commit than its first")
        if self.commits:
            last = self.entries[-1] if self.entries else None
            told = object_id(CHUNK, canonical([commits[0][2], own, commits[0][3]]))
            must(last and last.encoding == RAW and last.ids == [told], "the last entry says otherwise")

    def _entry(self, row: list[Any], data: bytes, at: int) -> Entry:
        entry = entry_at(data, at)
        offset, length, header, ids = row
        must((offset, length) == (at, entry.stored), "the footer has an entry elsewhere")
        must(data[at + _FRAME :].startswith(canonical(header)), "the footer has another header")
        must(
            self.exact or not any(type(base) is tuple for base in entry.bases or []),
            "restored values as bases",
        )
        must(len(array(ids)) == len(entry.members), "a member without an id")
        entry.ids.extend(map(ident, ids))
        return entry

    def _commit(self, row: Any) -> CommitRow:
        content, pack, sizes, exact_packs = array(row, 4)
        for size in array(sizes, 4):
            integer(size, 0, 1 << 62)
        exact = frozenset(ident(name) for name in array(exact_packs))
        return CommitRow(raw(content), self.name if pack is None else ident(pack), exact)


def _check_version(data: bytes, at: int) -> None:
    version, features, reserved = struct.unpack_from("<HHI", data, at)
    known((version, features, reserved) == (1, 1, 0), "version, features or reserved bytes of a pack")


def _footer(data: bytes) -> tuple[int, bytes]:
    trailer = data[-_TRAILER:]
    must(len(data) >= _HEADER + _TRAILER and trailer[40:] == b"MVCSTAIL", "a truncated pack")
    _check_version(trailer, 16)
    offset, length = struct.unpack_from("<QI", trailer)
    must(offset >= _HEADER and length and offset + length == len(data) - _TRAILER, "a footer elsewhere")
    footer = data[offset : offset + length]
    must(checksum(trailer[:24] + footer) == trailer[24:40], "a footer's checksum does not match")
    return offset, footer


def _footer_value(footer: bytes, data: bytes) -> Any:
    (length,) = struct.unpack_from("<I", data[-_TRAILER:], 12)
    known(footer[0] in {RAW, ZSTD}, f"encoding {footer[0]} of a footer")
    must(length <= _MOST_FOOTER and _plausible(length, len(footer), 1 << 18), "an implausible footer")
    return parse(decode(footer[0], ElementFormat.of(0), [length], footer[1:]))


def _plausible(length: int, stored: int, always: int = 1 << 16) -> bool:
    return length <= always or length <= stored * (4 if length > 1 << 20 else 16)


# files.md: safetensors files of a value layer.

_JSON_SPACE = re.compile(r"[ \t\n\r]*")


def marked(header: str, commit_id: bytes) -> str:
    """Return the header of a safetensors file with the mark of a lossy restore, where it can have one."""
    tensors = json.loads(header)
    metadata = tensors.pop("__metadata__", {})
    if not tensors or metadata is None:
        return header
    at = _metadata_at(header)
    field = f'"mvcs.restored":"{commit_id.hex()} value'
    if not at:
        put = f'"__metadata__":{{{field}{6 * " "}"}},'
    else:
        put = f'{field}",{7 * " "}' if metadata else f'{field}"{8 * " "}'
    place = at or header.index("{") + 1
    return header[:place] + put + header[place:]


def _metadata_at(header: str) -> int:
    """Return where the metadata of a header begins, behind its brace; 0 where it has none."""
    decoder, at = json.JSONDecoder(), header.index("{") + 1
    while True:
        at = _behind_space(header, at)
        key, at = decoder.raw_decode(header, at)
        at = _behind_space(header, _behind_space(header, at) + 1)
        if key == "__metadata__":
            return at + 1
        at = _behind_space(header, decoder.raw_decode(header, at)[1])
        if header[at] == "}":
            return 0
        at += 1


def _behind_space(header: str, at: int) -> int:
    found = _JSON_SPACE.match(header, at)
    return found.end() if found else at


# README.md and packs.md: a store.


@dataclass(frozen=True)
class Layer:
    """The exact layer of a commit: its packs, and by half their ids the tensors that are bases there."""

    packs: frozenset[bytes]
    tensors: dict[bytes, Quantized]


_At = tuple[bytes, int]
"""The name of a pack and the number of an entry in it."""
Place = tuple[Pack, int, int]
"""A pack, the number of an entry in it, and of a member in that."""


class Store:
    """A store in a folder. Packs that cannot be read are in `damaged`, and then take no part."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.description = _description(folder)
        self.packs: dict[bytes, Pack] = {}
        self.damaged: dict[bytes, Exception] = {}
        self._decoded: dict[_At, tuple[list[bytes], frozenset[_At]]] = {}
        for path in sorted(folder.glob("packs/*/*.pack")) + sorted(folder.glob("exact/*/*.pack")):
            self._read_pack(path)
        self._places: dict[tuple[int, bytes], list[Place]] = {}
        self.rows: dict[bytes, CommitRow] = {}
        for pack in self.packs.values():
            self._take_up(pack)
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))  # a chain of bases may be long

    def _read_pack(self, path: pathlib.Path) -> None:
        if not re.fullmatch("[0-9a-f]{64}", path.stem) or path.parent.name != path.stem[:2]:
            return
        name = bytes.fromhex(path.stem)
        try:
            self.packs[name] = Pack(name, path.read_bytes(), exact=path.parts[-3] == "exact")
        except (CorruptionError, UnsupportedError) as error:
            self.damaged[name] = error

    def _take_up(self, pack: Pack) -> None:
        for number, entry in enumerate(pack.entries):
            for member, (kind, _) in enumerate(entry.members):
                self._places.setdefault((kind, entry.ids[member][:_HALF]), []).append((pack, number, member))
        for row in pack.commits:
            own = self.rows.setdefault(object_id(COMMIT, row.content), row)
            must(own == row, "footers differ in what they say of a commit")

    # Objects.

    def content(self, kind: int, own: bytes, layer: Layer | None = None) -> bytes:
        """Return an object by its id, or half of it: one of the value layer, or of an exact layer as well."""
        return self._content(kind, own, layer, ())[0]

    def _content(
        self, kind: int, own: bytes, layer: Layer | None, way: tuple[_At, ...]
    ) -> tuple[bytes, frozenset[_At]]:
        """Return content, and the entries that it is made from; `way` are the entries above."""
        error: Exception = MissingError(
            f"{KINDS[kind]} {own.hex()} is not there; damaged: {len(self.damaged)}"
        )
        for pack, number, member in self._places.get((kind, own[:_HALF]), []):
            if pack.exact and (layer is None or pack.name not in layer.packs):
                continue
            try:
                contents, entries = self._entry(pack, number, layer, way)
                found = object_id(kind, contents[member])
                must(found.startswith(own), f"{KINDS[kind]} {own.hex()} has another id")
            except (CorruptionError, UnsupportedError, MissingError) as failed:
                error = failed
            else:
                return contents[member], entries
        raise error

    def _entry(
        self, pack: Pack, number: int, layer: Layer | None, way: tuple[_At, ...]
    ) -> tuple[list[bytes], frozenset[_At]]:
        place = (pack.name, number)
        must(place not in way, "bases lead back to an entry that they came from")
        if place not in self._decoded:
            entry = pack.entries[number]
            lent = layer if pack.exact else None
            bases, entries = [], {place}
            for (kind, _), base in zip(entry.members, entry.bases or [], strict=False):
                content, below = self._base(kind, base, lent, (*way, place))
                bases.append(content)
                entries |= below
            stored = sum(self.packs[name].entries[index].stored for name, index in entries)
            for kind, length in entry.members:
                must(kind == CHUNK or _plausible(length, stored), "an implausible description")
            self._decoded[place] = entry.decode(bases), frozenset(entries)
        return self._decoded[place]

    def _base(
        self, kind: int, base: Base, layer: Layer | None, way: tuple[_At, ...]
    ) -> tuple[bytes, frozenset[_At]]:
        if isinstance(base, bytes):
            return self._content(kind, base, layer, way)
        tensor = layer.tensors.get(base[0]) if layer else None
        must(tensor, "the base is no tensor of the commit")
        assert tensor is not None
        return restored(tensor, base[1], self.content), frozenset()

    def scan(self) -> Counter[int]:
        """Decode and hash every member of every entry; return how often each encoding was seen."""
        seen: Counter[int] = Counter()
        for pack in self.packs.values():
            layers = [self.layer(one) for one, row in self.rows.items() if pack.name in row.exact_packs]
            for number, entry in enumerate(pack.entries):
                contents, _ = self._entry(pack, number, layers[0] if layers else None, ())
                ids = [object_id(kind, one) for (kind, _), one in zip(entry.members, contents, strict=True)]
                must(ids == entry.ids, "a footer has other ids")
                seen[entry.encoding] += 1
        return seen

    # Commits.

    def commit(self, own: bytes) -> dict[str, Any]:
        """Return the fields of a commit."""
        return commit(self.content(COMMIT, own))

    def tree(self, commit_id: bytes) -> Tree:
        """Return the tree of a commit."""
        return tree(self.content(TREE, self.commit(commit_id)["tree"]))

    def layer(self, commit_id: bytes) -> Layer:
        """Return the exact layer of a commit."""
        tensors = [leaf.quantized for leaf in self.tree(commit_id).leaves if leaf.quantized]
        row = self.rows.get(commit_id)
        return Layer(
            row.exact_packs if row else frozenset(), {tensor.id[:_HALF]: tensor for tensor in tensors}
        )

    def history(self) -> list[bytes]:
        """Return every commit that a branch or a tag reaches."""
        found: dict[bytes, None] = {}
        waiting = [*self.branches().values(), *self.tags().values()]
        while waiting:
            own = waiting.pop()
            if own not in found:
                found[own] = None
                waiting += self.commit(own)["parents"]
        return list(found)

    # States and files.

    def state(self, commit_id: bytes, *, exact: bool = False) -> Any:
        """Return what a commit restores to, with arrays for tensors: a state, or one for each path of a file.

        Raises:
            MissingError: the exact layer is asked for, and was dropped or lost.
        """
        restore = _Restore(self, self.tree(commit_id), self.layer(commit_id) if exact else None)
        files = restore.tree.files
        if files is None:
            return restore.structure(restore.tree.structure)
        return {file.path: restore.structure(file.structure) for file in files}

    def files(self, commit_id: bytes, *, exact: bool = False) -> dict[str, bytes]:
        """Return the files of a commit that the pages say every byte of: opaque ones, and safetensors."""
        restore = _Restore(self, self.tree(commit_id), self.layer(commit_id) if exact else None)
        files = [file for file in restore.tree.files or [] if file.format in {"safetensors", "opaque"}]
        return {file.path: restore.file(file, commit_id) for file in files}

    # Names.

    def branches(self) -> dict[str, bytes]:
        """Return the commit of each branch."""
        return self._newest("heads")

    def tags(self) -> dict[str, bytes]:
        """Return the commit of each tag."""
        return self._newest("tags")

    def notes(self) -> dict[str, list[dict[str, Any]]]:
        """Return the notes of each commit, the oldest first."""
        rows = self.reflog("notes").items()
        return {name: [note(one.content) for one in row[::-1] if one.target] for name, row in rows}

    def _newest(self, kind: str) -> dict[str, bytes]:
        newest = {name: row[0].target for name, row in self.reflog(kind).items() if row}
        return {name: target for name, target in newest.items() if target}

    def reflog(self, kind: str) -> dict[str, list[Record]]:
        """Return the records of each ref, the newest first."""
        folders = [path for path in self.folder.glob(f"refs/{kind}/*") if path.is_dir()]
        named = {name_of(path.name): path for path in folders}
        return {name: _row(kind, name, path) for name, path in named.items() if name}

    def drops(self) -> dict[bytes, list[bytes]]:
        """Return the packs of exact layers that were given up, by commit."""
        found: dict[bytes, list[bytes]] = {}
        for path in sorted(self.folder.glob("retention/drops/" + "[0-9]" * 8), reverse=True):
            number, packs = drop(path.read_bytes())
            must(number == NEWEST_KEY - int(path.name), "a drop record under another key")
            for commit_id, names in packs.items():
                found.setdefault(commit_id, []).extend(names)
        return found


def _description(folder: pathlib.Path) -> dict[str, Any]:
    try:
        data = (folder / "mvcs.json").read_bytes()
        found: Any = json.loads(data)
    except FileNotFoundError as error:
        raise MissingError("there is no mvcs.json") from error
    except ValueError as error:
        raise CorruptionError("mvcs.json is not JSON") from error
    must(type(found) is dict and type(found.get("format")) is int, "mvcs.json has no format")
    known(found["format"] == 1, f"format {found['format']}")
    known(found.get("features") == ["closed"], f"features {found.get('features')}")
    must(len(data) <= 65536 and type(found.get("exclusive_create")) is bool, "mvcs.json is damaged")
    for key in ("store", "project"):
        must(re.fullmatch("[0-9a-f]{32}", str(found.get(key))), f"mvcs.json has no {key}")
    must(type(found.get("default_branch")) is str, "mvcs.json has no default branch")
    upgrades = sorted(folder.glob("format/[0-9]*"), reverse=True)
    for expected, path in enumerate(upgrades):
        number, name, scope = upgrade(path.read_bytes())
        known(number == expected, "an upgrade is missing")
        must(path.name == f"{NEWEST_KEY - number:08d}", "an upgrade under another key")
        known(scope == 1, f"upgrade {name}")  # who changes nothing may go on beside the others
    return dict(found)


def _row(kind: str, name: str, folder: pathlib.Path) -> list[Record]:
    row = []
    for path in sorted(folder.glob("[0-9]" * 8)):
        must(path.is_file(), "a record that is no file")
        one = record(path.read_bytes())
        must(one.number == NEWEST_KEY - int(path.name), "a record under another key")
        check_record(kind, name, one)
        row.append(one)
    for new, old in pairwise(row):
        must(new.number == old.number + 1, "a record is gone")
        must(new.previous in {old.hash, bytes(32)}, "a record was exchanged")
    return row


_CONTAINERS: dict[int, Callable[[Iterable[Any]], Any]] = {
    Tag.LIST: list,
    Tag.TUPLE: tuple,
    Tag.SET: set,
    Tag.FROZENSET: frozenset,
}


class _Restore:
    """Makes values of a tree's structures, from the value layer, or from an exact one."""

    def __init__(self, store: Store, tree: Tree, layer: Layer | None) -> None:
        self.store, self.tree, self.layer = store, tree, layer
        self.array = functools.cache(self._array)

    def _array(self, number: int) -> np.ndarray[Any, Any]:
        grid = self.tree.leaves[number].exact.grid
        content = b"".join(self._chunks(self.tree.leaves[number]))
        return np.frombuffer(bytearray(content), numpy_type(grid.element)).reshape(grid.shape)

    def _chunks(self, leaf: Leaf) -> Iterator[bytes]:
        grid, quantized = leaf.exact.grid, leaf.quantized
        for number, chunk in enumerate(leaf.exact.chunks):
            if quantized and self.layer is None:
                yield restored(quantized, number, self.store.content)
                continue
            content = self.store.content(CHUNK, chunk, self.layer)
            must(len(content) == grid.length(number) * SIZES[grid.element], "a chunk of another length")
            yield content

    def blob(self, own: bytes, length: int) -> bytes:
        stated, chunks = blob_chunks(self.store.content(BLOB, own, self.layer))
        content = [self.store.content(CHUNK, one, self.layer) for one in chunks]
        must(all(len(one) == 1 << 24 for one in content[:-1]), "a chunk of another length")
        must(stated == length == sum(map(len, content)), "a blob of another length")
        return b"".join(content)

    def structure(self, value: Any) -> Any:
        """Return the value of a structure."""
        if isinstance(value, PRIMITIVES):
            return value
        tag, *rest = value
        if tag in {Tag.DICT, Tag.ORDERED_DICT, Tag.COUNTER}:
            return self._mapping(tag, rest)
        if tag in _CONTAINERS:
            return _CONTAINERS[tag](map(self.structure, rest))
        return self._other(tag, rest)

    def _other(self, tag: int, rest: list[Any]) -> Any:
        if tag == Tag.TENSOR:
            return self.array(rest[0])
        if tag in {Tag.BLOB_BYTES, Tag.BLOB_TEXT}:
            content = self.blob(*rest)
            return content if tag == Tag.BLOB_BYTES else utf8(content)
        if tag == Tag.NUMPY_SCALAR:
            return np.frombuffer(rest[1], numpy_type(rest[0]))[0]
        if tag == Tag.BYTEARRAY:
            return bytearray(self.structure(rest[0]))
        return complex(*rest) if tag == Tag.COMPLEX else tuple(rest) if tag == Tag.SIZE else rest[0]

    def _mapping(self, tag: int, rest: list[Any]) -> Any:
        items = {key: self.structure(value) for key, value in rest[0]}
        if tag != Tag.ORDERED_DICT:
            return Counter(items) if tag == Tag.COUNTER else items
        found = OrderedDict(items)
        if rest[1] is not None:
            found._metadata = self.structure(rest[1])  # type: ignore[attr-defined]
        return found

    def file(self, file: FileEntry, commit_id: bytes) -> bytes:
        """Return the bytes of a file: an opaque one, or a safetensors file."""
        if file.format == "opaque":
            return bytes(self.structure(file.structure))
        header = bytes(self.structure(file.header))
        tensors = self.structure(file.structure)
        places = {name: one["data_offsets"] for name, one in json.loads(header).items() if name in tensors}
        must(places.keys() == tensors.keys(), "a header of other tensors")
        data = bytearray(max((end for _, end in places.values()), default=0))
        for name, (begin, end) in places.items():
            content = tensors[name].tobytes()
            must(len(content) == end - begin, "a header of other tensors")
            data[begin:end] = content
        if self.layer is None and self._lossy(file.structure):
            header = marked(header.decode(), commit_id).encode()
        return struct.pack("<Q", len(header)) + header + bytes(data)

    def _lossy(self, structure: Any) -> bool:
        return any(self.tree.leaves[value[1]].quantized for _, value in structure[1])
