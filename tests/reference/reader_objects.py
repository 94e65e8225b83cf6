"""What objects, tensors, trees and records say.

The pages are `objects.md`, `numeric-tables.md`, `refs.md` and `drops.md` of `docs/format`.

Part of the second reader, `tests/reference/reader.py`.
"""

from __future__ import annotations

import enum
import functools
import math
import re
import struct
import urllib.parse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import blake3
import numpy as np

from tests.reference.reader_payloads import CorruptionError, known, must, rounded, step

CHUNK, EXACT_TENSOR, QUANTIZED_TENSOR, BLOB, TREE, COMMIT, TAG, NOTE = range(8)
KINDS = ("chunk", "tensor", "quantized", "blob", "tree", "commit", "tag", "note")
HASH_BYTES, DIGEST_BYTES = 32, 16


# README.md and objects.md: hashes and ids.


def plain_hash(data: bytes) -> bytes:
    """Return the hash in plain mode."""
    return blake3.blake3(data).digest()


def checksum(data: bytes) -> bytes:
    """Return the first 16 bytes of the hash."""
    return plain_hash(data)[:DIGEST_BYTES]


def object_id(kind: int, content: bytes) -> bytes:
    """Return the id of an object, or of a tensor, by its canonical bytes (objects.md, Ids)."""
    context = f"mvcs format 1 {KINDS[kind]}"
    return blake3.blake3(content, derive_key_context=context).digest()


# objects.md: canonical bytes.

_SIMPLE = {0xF4: False, 0xF5: True, 0xF6: None}
_MOST_AROUND, _MOST_VALUES = 255, 1 << 25


def parse(data: bytes) -> Any:
    """Return the value of canonical CBOR; arrays are lists."""
    reader = _Cbor(data)
    value = reader.value(0)
    must(reader.at == len(data), "bytes after the value")
    return value


class _Cbor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.room = data, 0, _MOST_VALUES

    def value(self, depth: int) -> Any:
        """Return the next value; `depth` arrays are around it."""
        must(depth <= _MOST_AROUND, "arrays nest too deep")
        first = self.take(1)[0]
        if first in _SIMPLE:
            return _SIMPLE[first]
        if first == 0xFB:
            return struct.unpack(">d", self.take(8))[0]
        major, number = first >> 5, self._argument(first & 31)
        if major == 4:
            self.room -= number
            must(number <= len(self.data) - self.at, "an array is longer than what is left")
            must(self.room >= 0, "too many values")
            return [self.value(depth + 1) for _ in range(number)]
        return self._scalar(major, number)

    def _scalar(self, major: int, number: int) -> Any:
        if major in {0, 1}:
            return -1 - number if major else number
        if major == 2:
            return self.take(number)
        if major == 3:
            return utf8(self.take(number))
        must(major == 6 and number in {2, 3}, "not canonical CBOR")
        content = self.value(_MOST_AROUND)
        must(type(content) is bytes and 9 <= len(content) <= 65536 and content[0], "not a large integer")
        large = int.from_bytes(content, "big")
        return large if number == 2 else -1 - large

    def _argument(self, low: int) -> int:
        if low < 24:
            return low
        must(low < 28, "not of definite length")
        size = 1 << (low - 24)
        number = int.from_bytes(self.take(size), "big")
        must(
            number >= (24 if size == 1 else 1 << 4 * size), "a length or integer is not in its shortest form"
        )
        return number

    def take(self, count: int) -> bytes:
        must(count <= len(self.data) - self.at, "the value ends too early")
        self.at += count
        return self.data[self.at - count : self.at]


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of a value."""
    if value is None or type(value) is bool:
        return b"\xf6" if value is None else bytes([0xF4 + value])
    if type(value) is float:
        return b"\xfb" + struct.pack(">d", value)
    if type(value) is int:
        return _canonical_integer(value)
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(canonical, value))
    content = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return _head(3 if isinstance(value, str) else 2, len(content)) + content


def _canonical_integer(value: int) -> bytes:
    number = value if value >= 0 else -1 - value
    if number < 1 << 64:
        return _head(int(value < 0), number)
    return bytes([0xC2 + (value < 0)]) + canonical(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    size = next(size for size in (0, 1, 2, 3) if number < 1 << (8 << size))
    return bytes([major << 5 | 24 + size]) + number.to_bytes(1 << size, "big")


def utf8(data: bytes) -> str:
    """Return text, which may hold lone surrogates of three bytes each."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptionError("text is not UTF-8") from error


def array(value: Any, length: int | None = None) -> list[Any]:
    """Return an array, of that length."""
    must(type(value) is list and length in {None, len(value)}, "not an array as described")
    return value


def integer(value: Any, low: int = 0, high: int = 1 << 64) -> int:
    """Return an integer from `low` to below `high`."""
    must(type(value) is int and low <= value < high, "not an integer as described")
    return value


def text(value: Any) -> str:
    """Return a text."""
    must(type(value) is str, "not a text")
    return value


def raw(value: Any, length: int | None = None) -> bytes:
    """Return bytes, of that length."""
    must(type(value) is bytes and length in {None, len(value)}, "not bytes as described")
    return value


def ident(value: Any) -> bytes:
    """Return an id or a name of a pack."""
    return raw(value, HASH_BYTES)


def pairs(value: Any, kind: type | None = None) -> dict[str, Any]:
    """Return `[text, value]` pairs of distinct keys."""
    items = [array(pair, 2) for pair in array(value)]
    must(all(kind in {None, type(item)} for _, item in items), "not a value as described")
    must(len({text(key) for key, _ in items}) == len(items), "a key twice")
    return dict(items)


def _time(value: Any) -> int:
    return integer(value, -(1 << 62), 1 << 62)


# objects.md: tensors.

_UNSIGNED = {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"}
_UNSIGNED |= {"float4_e2m1fn_x2", "bfloat16", "complex32"}
SIZES = dict.fromkeys(("bool", "uint8", "int8", *_UNSIGNED - {"bfloat16", "complex32"}), 1)
SIZES |= dict.fromkeys(("uint16", "int16", "float16", "bfloat16"), 2)
SIZES |= dict.fromkeys(("uint32", "int32", "float32", "complex32"), 4)
SIZES |= dict.fromkeys(("uint64", "int64", "float64", "complex64"), 8) | {"complex128": 16}
_LARGEST, _LARGEST_WITHOUT_CODES = 1 << 56, 1 << 36


def numpy_type(element: str) -> np.dtype[Any]:
    """Return the type of numpy; types it lacks are unsigned integers of their width."""
    return np.dtype(f"<u{SIZES[element]}" if element in _UNSIGNED else element).newbyteorder("<")


@dataclass(frozen=True)
class Grid:
    """A tensor's element type and shape, and so its chunks."""

    element: str
    shape: list[int]

    @classmethod
    def of(cls, element: Any, shape: Any) -> Grid:
        known(text(element) in SIZES, f"element type {element}")
        sizes = [integer(size, 0, _LARGEST) for size in array(shape)]
        grid = cls(element, sizes)
        must(len(sizes) <= 64 and grid.count < _LARGEST, "a shape that is too large")
        return grid

    @functools.cached_property
    def count(self) -> int:
        """How many elements there are."""
        return functools.reduce(int.__mul__, self.shape, 1)

    @property
    def chunk(self) -> int:
        """How many elements a chunk has."""
        return 1 << (21 if SIZES[self.element] == 16 else 22)

    @property
    def chunks(self) -> int:
        return -(-self.count // self.chunk)

    def length(self, number: int) -> int:
        """How many elements that chunk has."""
        must(number < self.chunks, "no such chunk")
        return min(self.chunk, self.count - number * self.chunk)


@dataclass(frozen=True)
class ExactTensor:
    """Chunks of elements."""

    grid: Grid
    chunks: list[bytes]

    @classmethod
    def of(cls, items: Any) -> ExactTensor:
        element, shape, chunks = array(items, 3)
        grid = Grid.of(element, shape)
        return cls(grid, [ident(chunk) for chunk in array(chunks, grid.chunks)])


TABLE, LATTICE, LOG_LATTICE, ROOT_LATTICE, DERIVED, CONSTANT, SIGN, ABSENT = range(8)
_OTHER_AT = {ROOT_LATTICE: 1, DERIVED: 0}
"""Where the parameters of a form name another tensor."""


@dataclass(frozen=True)
class Quantized:
    """A quantized tensor; `other` is the one that its parameters name."""

    grid: Grid
    form: int
    parameters: list[Any]
    exceptions: list[bytes | None]
    digests: bytes
    codes: list[bytes]
    other: Quantized | None
    id: bytes


def quantized(items: Any, resolve: Callable[[Any, int], Quantized]) -> Quantized:
    """Return a quantized tensor; `resolve` finds the other one that its parameters name for this form."""
    element, shape, form, parameters, exceptions, digests, codes = array(items, 7)
    grid, parameters = Grid.of(element, shape), list(array(parameters))
    known(integer(form) in {*range(6), ABSENT}, f"form {form}")
    known(element in {"float16", "bfloat16", "float32", "float64"}, f"a quantized tensor of {element}")
    other, at = None, _OTHER_AT.get(form)
    array(parameters, {TABLE: 2, LOG_LATTICE: 3, ROOT_LATTICE: 2, DERIVED: 2, ABSENT: 0}.get(form, 1))
    if at is not None:
        other = resolve(parameters[at], form)
        must(other.grid.shape == grid.shape, "the other tensor has another shape")
        must(
            other.form == LOG_LATTICE if form == ROOT_LATTICE else other.form != DERIVED, "a wrong other form"
        )
        parameters[at] = other.id
    own = object_id(
        QUANTIZED_TENSOR, canonical([element, shape, form, parameters, exceptions, digests, codes])
    )
    ids = [None if one is None else ident(one) for one in array(exceptions)]
    codes = [ident(chunk) for chunk in array(codes)]
    tensor = Quantized(grid, form, parameters, ids, raw(digests), codes, other, own)
    if form != ABSENT:
        _PARAMETERS[form](tensor)
    _check_chunks(tensor)
    return tensor


def _check_table(tensor: Quantized) -> None:
    width, table = tensor.parameters
    known(integer(width) == 1, f"codes of {width} bytes")
    size = SIZES[tensor.grid.element]
    must(len(raw(table)) % size == 0 and len(table) <= 254 * size, "a table of another length")


def _check_log_lattice(tensor: Quantized) -> None:
    scale, *offsets = tensor.parameters
    integer(scale, 16, 25)
    for one in offsets:
        must(one is None or ident(one), "not offsets")


def _check_derived(tensor: Quantized) -> None:
    known(text(tensor.parameters[1]) == "nearest-even", f"rounding {tensor.parameters[1]}")
    must(tensor.grid.element in {"float16", "bfloat16"}, "a derived tensor of another type")


_PARAMETERS: dict[int, Callable[[Quantized], object]] = {
    TABLE: _check_table,
    LATTICE: lambda tensor: integer(tensor.parameters[0], 0, 256),
    LOG_LATTICE: _check_log_lattice,
    ROOT_LATTICE: lambda tensor: integer(tensor.parameters[0], 0, 256),
    DERIVED: _check_derived,
    CONSTANT: lambda tensor: raw(tensor.parameters[0], SIZES[tensor.grid.element]),
}


def _check_chunks(tensor: Quantized) -> None:
    chunks, rank_1 = tensor.grid.chunks, tensor.form == LOG_LATTICE and None not in tensor.parameters
    without = tensor.form >= DERIVED or (rank_1 and not tensor.codes)
    must(len(tensor.codes) == (0 if without else chunks), "another number of chunks of codes")
    must(len(tensor.exceptions) == len(tensor.codes), "another number of exceptions")
    must(not without or tensor.grid.count <= _LARGEST_WITHOUT_CODES, "too many elements without codes")
    digests = 0 if tensor.form in {CONSTANT, ABSENT} else DIGEST_BYTES * chunks
    must(len(tensor.digests) == digests, "another number of digests")


# numeric-tables.md: how a quantized tensor restores.

Fetch = Callable[[int, bytes], bytes]
"""Returns the content of an object by kind and id."""


def floats(data: bytes, element: str) -> np.ndarray[Any, Any]:
    """Return elements as numbers: bfloat16 as float32."""
    if element == "bfloat16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, numpy_type(element))


def restored(tensor: Quantized, number: int, fetch: Fetch) -> bytes:
    """Return the elements that a chunk of a quantized tensor restores to, compared with its digest."""
    count, element = tensor.grid.length(number), tensor.grid.element
    if tensor.form in {CONSTANT, ABSENT}:
        return (tensor.parameters or [bytes(SIZES[element])])[0] * count
    if tensor.codes:
        content = _from_codes(tensor, number, fetch)
    else:
        values = (
            _values32(tensor, number, fetch) if tensor.form == DERIVED else _log(tensor, number, None, fetch)
        )
        content = rounded(values, element)
    found = object_id(CHUNK, content)[:DIGEST_BYTES]
    expected = tensor.digests[DIGEST_BYTES * number : DIGEST_BYTES * (number + 1)]
    must(found == expected, "what is restored has another digest")
    return content


def _from_codes(tensor: Quantized, number: int, fetch: Fetch) -> bytes:
    element, count = tensor.grid.element, tensor.grid.length(number)
    codes = np.frombuffer(fetch(CHUNK, tensor.codes[number]), "u1" if tensor.form == TABLE else "<i2")
    must(len(codes) == count, "another number of codes")
    if tensor.form == TABLE:
        values, marked = _looked_up(tensor, codes)
    else:
        rule = {LATTICE: _lattice, LOG_LATTICE: _log, ROOT_LATTICE: _root}[tensor.form]
        values = np.frombuffer(rounded(rule(tensor, number, codes, fetch), element), _pattern(element))
        marked = codes == -32768
    return _with_exceptions(values, np.flatnonzero(marked), tensor, number, fetch)


def _pattern(element: str) -> np.dtype[Any]:
    return np.dtype(f"<u{SIZES[element]}")


def _with_exceptions(
    values: np.ndarray[Any, Any], marked: np.ndarray[Any, Any], tensor: Quantized, number: int, fetch: Fetch
) -> bytes:
    chunk, element = tensor.exceptions[number], tensor.grid.element
    content = b"" if chunk is None else fetch(CHUNK, chunk)
    must(chunk is None or content, "a chunk without exceptions in place of null")
    count, size = divmod(len(content), 4 + SIZES[element])
    must(not size, "exceptions of another length")
    positions = np.frombuffer(content, "<u4", count)
    must(np.array_equal(positions, marked), "exceptions are not where codes mark them")
    values = values.copy()
    values[positions] = np.frombuffer(content, _pattern(element), count, 4 * count)
    return values.tobytes()


def _looked_up(tensor: Quantized, codes: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], Any]:
    table = np.frombuffer(tensor.parameters[1], _pattern(tensor.grid.element))
    must(codes.max(initial=0) <= len(table), "a code beyond the table")
    values = np.append(table, np.zeros(1, table.dtype)).astype(
        table.dtype
    )  # numpy joins in the machine's order
    return values[codes], codes == len(table)


def _lattice(tensor: Quantized, _: int, codes: np.ndarray[Any, Any], __: Fetch) -> np.ndarray[Any, Any]:
    return codes.astype("<f4") * np.float32(step(tensor.parameters[0]))


def _log(
    tensor: Quantized, number: int, codes: np.ndarray[Any, Any] | None, fetch: Fetch
) -> np.ndarray[Any, Any]:
    scale, row_chunk, column_chunk = tensor.parameters
    shape = tensor.grid.shape
    rows = shape[0] if shape else 1
    columns = tensor.grid.count // rows
    places = np.arange(tensor.grid.length(number)) + number * tensor.grid.chunk
    by_row = _offsets(row_chunk, rows, fetch)[places // columns if row_chunk else places * 0]
    by_column = _offsets(column_chunk, columns, fetch)[places % columns if column_chunk else places * 0]
    codes = np.zeros(len(places), np.int64) if codes is None else codes.astype(np.int64)
    patterns = (by_row + by_column + 4 * codes) << (scale - 2)
    values = np.clip(patterns, 0x00800000, 0x7F7FFFFF).astype("<u4").view("<f4")
    zero = (codes == -32767) | (by_row == -32768) | (by_column == -32768)
    return np.where(zero, np.float32(0), values)


def _offsets(chunk: bytes | None, count: int, fetch: Fetch) -> np.ndarray[Any, Any]:
    if chunk is None:
        return np.zeros(1, np.int64)
    content = fetch(CHUNK, chunk)
    must(count <= 1 << 22 and len(content) == 2 * count, "another number of offsets")
    return np.frombuffer(content, "<i2").astype(np.int64)


def _root(tensor: Quantized, number: int, codes: np.ndarray[Any, Any], fetch: Fetch) -> np.ndarray[Any, Any]:
    other = _values32(tensor, number, fetch)
    usable = np.isfinite(other) & (other > 0)
    root = np.sqrt(np.where(usable, other, np.float32(1)))
    with np.errstate(over="ignore"):
        product = _lattice(tensor, number, codes, fetch) * root
    return np.where(usable & np.isfinite(product), product, np.float32(0))


def _values32(tensor: Quantized, number: int, fetch: Fetch) -> np.ndarray[Any, Any]:
    """Return what the other tensor of one restores to, as float32."""
    other = tensor.other
    assert other is not None
    with np.errstate(over="ignore"):
        return floats(restored(other, number, fetch), other.grid.element).astype("<f4")


# objects.md: trees.


class Tag(enum.IntEnum):
    """What an array of a structure is."""

    LIST = 0
    TUPLE = 1
    DICT = 2
    ORDERED_DICT = 3
    COMPLEX = 4
    DTYPE = 5
    DEVICE = 6
    SIZE = 7
    NUMPY_SCALAR = 8
    TENSOR = 9
    BLOB_BYTES = 10
    BLOB_TEXT = 11
    COUNTER = 12
    SET = 13
    FROZENSET = 14
    BYTEARRAY = 15


_MOST_LEAVES, _MOST_NODES, _MOST_FILES, _MOST_FOLDERS = 1 << 20, 1 << 22, 1 << 17, 1 << 17
_MOST_CONTAINERS, _FORMATS = 65, {"safetensors", "torch", "npz", "opaque"}
_PYTHONS_MODULUS, _MOST_ALIKE = (1 << 61) - 1, 64
PRIMITIVES = (type(None), bool, int, float, str, bytes)


@dataclass(frozen=True)
class Leaf:
    """A tensor of a tree: exact alone, or quantized with the exact one that was handed over."""

    exact: ExactTensor
    quantized: Quantized | None


@dataclass(frozen=True)
class FileEntry:
    """A file of a tree."""

    path: str
    format: str
    structure: Any
    header: Any


@dataclass(frozen=True)
class Tree:
    """A structure or files, and the leaves that they refer to."""

    structure: Any
    files: list[FileEntry] | None
    leaves: list[Leaf]


def tree(content: bytes) -> Tree:
    """Return what the canonical bytes of a tree say."""
    first, main, leaves = array(parse(content), 3)
    known(text(first) in {"state", "files"}, f"a tree of {first}")
    rows = [array(leaf) for leaf in array(leaves)]
    files = [_file(one) for one in array(main)] if first == "files" else None
    found = Tree(main if files is None else None, files, _leaves(rows))
    check = _Check(len(rows))
    for structure in [main] if files is None else [part for one in files for part in _parts(one)]:
        check.structure(structure, 0)
    must(check.seen == len(rows), "a leaf is not referred to")
    check_paths([one.path for one in files or []])
    return found


def _parts(file: FileEntry) -> list[Any]:
    return [file.structure] if type(file.header) is not list else [file.structure, file.header]


def _file(value: Any) -> FileEntry:
    path, kind, structure, header = array(value, 4)
    known(text(kind) in _FORMATS, f"a file of format {kind}")
    must((header is None) == (kind != "safetensors"), "a header that does not go with the format")
    must(kind != "opaque" or _tag(structure) == Tag.BLOB_BYTES, "an opaque file is no blob")
    must(header is None or type(header) is bytes or _tag(header) == Tag.BLOB_BYTES, "not a header")
    return FileEntry(text(path), kind, structure, header)


def _tag(structure: Any) -> Any:
    return structure[0] if type(structure) is list and structure else None


def _leaves(rows: list[list[Any]]) -> list[Leaf]:
    must(all(len(row) in {3, 8} for row in rows), "a leaf of another number of items")
    must(len(rows) <= _MOST_LEAVES, "too many leaves")

    @functools.cache
    def leaf(number: int) -> Quantized:
        must(number < len(rows) and len(rows[number]) == 8, "not the number of a quantized leaf")
        return quantized(rows[number][:7], resolve)

    def resolve(reference: Any, form: int) -> Quantized:
        items = reference
        if type(reference) is int:
            must(0 <= reference < len(rows), "no such leaf")
            items = rows[reference]
        # Forms lead to lower ones alone, so the way ends.
        must(type(items) is list and len(items) > 2, "not a quantized tensor")
        must(items[2] == LOG_LATTICE if form == ROOT_LATTICE else items[2] != DERIVED, "a wrong other form")
        return leaf(reference) if type(reference) is int else quantized(reference, resolve)

    return [
        Leaf(ExactTensor.of([*row[:2], row[-1]]), leaf(number) if len(row) == 8 else None)
        for number, row in enumerate(rows)
    ]


class _Check:
    """Walks a structure: tags, keys, depths, and the order in which leaves are first referred to."""

    def __init__(self, leaves: int) -> None:
        self.leaves, self.seen, self.nodes = leaves, 0, 0

    def structure(self, value: Any, depth: int) -> None:
        self.nodes += 1
        must(
            depth <= _MOST_CONTAINERS and self.nodes <= _MOST_NODES,
            "containers nest too deep, or hold too much",
        )
        if isinstance(value, PRIMITIVES):
            return
        tag, *rest = array(value)
        known(integer(tag) <= Tag.BYTEARRAY, f"tag {tag}")
        if tag in {Tag.LIST, Tag.TUPLE, Tag.DICT, Tag.ORDERED_DICT, Tag.COUNTER, Tag.SET, Tag.FROZENSET}:
            self._container(tag, rest, depth + 1)
        else:
            self._other(tag, rest, depth)

    def _container(self, tag: int, rest: list[Any], depth: int) -> None:
        if tag in {Tag.SET, Tag.FROZENSET}:
            must(
                all(_tag(item) in {None, Tag.COMPLEX, Tag.BLOB_BYTES, Tag.BLOB_TEXT} for item in rest),
                "not of a set",
            )
            encoded = list(map(canonical, rest))
            must(all(low <= high for low, high in pairwise(encoded)), "members of a set are not in order")
            alike = Counter(_hash(item) for item in rest if _hash(item) is not None)
            must(max(alike.values(), default=0) <= _MOST_ALIKE, "too many members of one hash")
        if tag in {Tag.DICT, Tag.ORDERED_DICT, Tag.COUNTER}:
            array(rest, 2 if tag == Tag.ORDERED_DICT else 1)
            items = [array(pair, 2) for pair in array(rest[0])]
            must(all(type(key) in {str, int, bool} for key, _ in items), "not a key")
            must(len({key for key, _ in items}) == len(items), "a key twice")
            large = [key for key, _ in items if type(key) is int and abs(key) > _PYTHONS_MODULUS]
            signed = Counter((key < 0, abs(key) % _PYTHONS_MODULUS) for key in large)
            must(max(signed.values(), default=0) <= _MOST_ALIKE, "too many keys of one remainder")
            rest = [value for _, value in items] + rest[1:]
        for item in rest:
            self.structure(item, depth)

    def _other(self, tag: int, rest: list[Any], depth: int) -> None:
        if tag == Tag.TENSOR:
            number, flags = array(rest, 2)
            must(integer(number) <= self.seen and number < self.leaves, "leaves are not referred to in order")
            known(integer(flags) < 8, f"flags {flags}")
            self.seen = max(self.seen, number + 1)
        elif tag == Tag.COMPLEX:
            must(len(rest) == 2 and all(type(part) is float for part in rest), "not a complex number")
        elif tag == Tag.SIZE:
            must(all(type(size) is int for size in rest), "not a size")
        elif tag in {Tag.DTYPE, Tag.DEVICE}:
            text(array(rest, 1)[0])
        elif tag == Tag.BYTEARRAY:
            must(len(rest) == 1 and (type(rest[0]) is bytes or _tag(rest[0]) == Tag.BLOB_BYTES), "not bytes")
            self.structure(rest[0], depth + 1)
        elif tag == Tag.NUMPY_SCALAR:
            element, value = array(rest, 2)
            known(text(element) in SIZES, f"element type {element}")
            must(element not in _UNSIGNED, f"numpy has no scalars of {element}")
            raw(value, SIZES[element])
        else:
            blob_id, length = array(rest, 2)
            must(ident(blob_id) and integer(length) >= 0, "not a blob")


def _hash(item: Any) -> int | None:
    """Return the hash of a member of a set that is a finite number."""
    if type(item) is list:
        parts = [_hash(part) for part in item[1:]] if item[0] == Tag.COMPLEX else [None]
        whole = None if None in parts else (parts[0] + 1_000_003 * parts[1]) % (1 << 64)
        return (1 << 64) - 2 if whole == (1 << 64) - 1 else whole
    if type(item) not in {bool, int, float} or not math.isfinite(item):
        return None
    over, under = abs(item).as_integer_ratio()
    found = over * pow(under, -1, _PYTHONS_MODULUS) % _PYTHONS_MODULUS
    return -2 if item < 0 and found == 1 else -found if item < 0 else found


_BAD_SEGMENTS = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udc7f\udd00-\udfff]")


def check_paths(paths: list[str]) -> None:
    """Check what the paths of a tree MUST be; that one is fit for a folder is a writer's business."""
    must(paths == sorted(set(paths)) and len(paths) <= _MOST_FILES, "paths are not sorted, or too many")
    folders = {path[:at] for path in paths for at, sign in enumerate(path) if sign == "/"}
    must(len(folders) <= _MOST_FOLDERS, "too many folders")
    must(not folders & set(paths), "a path names a folder that another names as a file")
    for path in paths:
        must(1 <= len(path) <= 4096 and not _BAD_SEGMENTS.search(path), f"a bad path {path!r}")
        must(not re.match("[A-Za-z]:", path), "a path begins with a letter and a colon")
        segments = [segment.rstrip(". ") for segment in path.split("/")]
        must(len(segments) <= 256 and all(segments), f"a bad path {path!r}")
        must(".mvcs" not in map(str.casefold, segments), "a path leads into a store")


# objects.md: commits, tags and notes.

_FIELDS = ["tree", "parents", "author", "time", "message", "step", "metrics", "exactness", "lineage_exact"]
_FIELDS += ["restored_from", "quantized_against", "quantizer", "errors", "degradation", "provenance"]
_FIELDS += ["extensions"]


def commit(content: bytes) -> dict[str, Any]:
    """Return the fields of a commit by name."""
    must(len(content) <= 1 << 20, "a commit that is too long")
    values = array(parse(content))
    known(len(values) == len(_FIELDS), "a commit of more or fewer fields")
    fields = dict(zip(_FIELDS, values, strict=True))
    _check_extensions(fields["extensions"])
    ident(fields["tree"])
    parents = [ident(parent) for parent in array(fields["parents"])]
    must(len(set(parents)) == len(parents) <= 64, "a parent twice, or too many")
    for name in ("author", "message"):
        text(fields[name])
    _time(fields["time"])
    must(fields["step"] is None or integer(fields["step"], -(1 << 63), 1 << 63) is not None, "no step")
    known(text(fields["exactness"]) in {"exact", "bounded"}, f"exactness {fields['exactness']}")
    must(fields["lineage_exact"] is None or type(fields["lineage_exact"]) is bool, "not a boolean")
    for name in ("restored_from", "quantized_against"):
        must(fields[name] is None or ident(fields[name]), "not an id")
    must(fields["degradation"] is None or type(fields["degradation"]) is float, "not a float")
    must(fields["exactness"] == "bounded" or fields["quantizer"] is None, "a quantizer of an exact commit")
    fields |= {"metrics": pairs(fields["metrics"], float), "provenance": pairs(fields["provenance"])}
    fields["quantizer"] = None if fields["quantizer"] is None else pairs(fields["quantizer"])
    return fields | {"errors": {name: pairs(one, float) for name, one in pairs(fields["errors"]).items()}}


def _check_extensions(value: Any) -> None:
    items = [array(item, 3) for item in array(value)]
    must(len({text(name) for name, _, _ in items}) == len(items), "an extension twice")
    for name, required, _ in items:
        must(type(required) is bool, "not a boolean")
        known(not required, f"extension {name}")


def tag(content: bytes) -> dict[str, Any]:
    """Return the parts of a tag."""
    commit_id, author, time, message = array(parse(content), 4)
    return {"commit": ident(commit_id), "author": text(author), "time": integer(time, 0, 1 << 63)} | {
        "message": text(message)
    }


def note(content: bytes) -> dict[str, Any]:
    """Return the parts of a note."""
    commit_id, metrics, author, time = array(parse(content), 4)
    return {"commit": ident(commit_id), "metrics": pairs(metrics, float), "author": text(author)} | {
        "time": integer(time, 0, 1 << 63)
    }


def blob_chunks(content: bytes) -> tuple[int, list[bytes]]:
    """Return the length of a blob and the ids of its chunks."""
    length, chunks = array(parse(content), 2)
    return integer(length), [ident(one) for one in array(chunks, -(-length >> 24))]


# refs.md and drops.md.

NEWEST_KEY = 99_999_999
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789._-")
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")


def segment(name: str) -> str:
    """Return the segment of a ref's name."""
    content = name.encode("utf-8", "surrogatepass")
    signs = [chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in content]
    for place in (0, -1):
        if signs[place] == "." or (not place and _DEVICES.match(name)):
            signs[place] = f"%{ord(signs[place]):02X}"
    return "".join(signs)


def name_of(folder: str) -> str | None:
    """Return the name whose segment this is, or None where it is none."""
    try:
        name = urllib.parse.unquote_to_bytes(folder).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return name if name and len(folder) <= 255 and segment(name) == folder else None


def sealed(data: bytes, magic: bytes, most: int) -> Any:
    """Return what a record holds, whose magic begins with these seven bytes."""
    must(len(data) <= most and data[:7] == magic, "not a record")
    known(data[7:8] == b"1", "a record of another version")
    must(checksum(data[:-16]) == data[-16:], "a record's checksum does not match")
    return parse(data[8:-16])


@dataclass(frozen=True)
class Record:
    """A record of a ref."""

    number: int
    target: bytes | None
    pack: bytes | None
    previous: bytes | None
    content: bytes
    hash: bytes


def record(data: bytes) -> Record:
    """Return what the bytes of a record say."""
    number, target, pack, previous, time, author, action, content, write = array(
        sealed(data, b"MVCSREF", 1 << 20), 9
    )
    for one in (target, pack, previous):
        must(one is None or ident(one), "not an id or a hash")
    must((previous is None) == (integer(number, 0, NEWEST_KEY + 1) == 0), "a record without the one before")
    must(text(author) + text(action) + str(_time(time)) and raw(write, 16), "not a record")
    return Record(number, target, pack, previous, raw(content), plain_hash(data))


def check_record(kind: str, name: str, record: Record) -> None:
    """Check what a record of a tag, a note or a branch carries."""
    if record.target is None:
        return
    if kind == "tags":
        must(tag(record.content)["commit"] == record.target, "a tag of another commit")
    elif kind == "notes":
        must(object_id(NOTE, record.content) == record.target, "a note of another id")
        must(note(record.content)["commit"].hex() == name, "a note of another commit")
    else:
        must(not record.content, "a branch with content")


def drop(data: bytes) -> tuple[int, dict[bytes, list[bytes]]]:
    """Return the number of a drop record, and the packs that it names of each commit's layer."""
    number, rows = array(sealed(data, b"MVCSDRP", 1 << 26), 2)
    found: dict[bytes, list[bytes]] = {}
    for row in map(array, array(rows)):
        must(len(row) >= 3, "not a drop")
        commit_id, packs, time, *more = row
        known(len(more) < 2, "a drop that says more")
        pairs(more[0] if more else [])
        found.setdefault(ident(commit_id), []).extend(ident(one) for one in array(packs))
        _time(time)
    return integer(number), found


def upgrade(data: bytes) -> tuple[int, str, int]:
    """Return the number, the name and the scope that the record of an upgrade tells."""
    number, name, scope, time, author = array(sealed(data, b"MVCSUPG", 1 << 16), 5)
    known(type(scope) is int and scope in {0, 1}, f"scope {scope}")
    must(text(author) + str(_time(time)), "not a record")
    return integer(number, 0, NEWEST_KEY + 1), text(name), scope
