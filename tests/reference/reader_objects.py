"""What objects and tensors say (`objects.md`, `numeric-tables.md`). Part of `reader.py`."""

import cmath
import functools
import math
import re
import struct
from collections import Counter, OrderedDict

import blake3
import numpy as np

from tests.reference.reader_payloads import CorruptionError, Cursor, known, must, rounded, step

CHUNK, EXACT_TENSOR, QUANTIZED_TENSOR, BLOB, TREE, COMMIT, TAG, NOTE = range(8)
KINDS = ("chunk", "tensor", "quantized", "blob", "tree", "commit", "tag", "note")


def plain_hash(data):
    return blake3.blake3(data).digest()


def object_id(kind, content):
    return blake3.blake3(content, derive_key_context=f"mvcs format 1 {KINDS[kind]}").digest()


# Canonical bytes.

_MOST_VALUES, _SIMPLE = 1 << 25, {0xF4: False, 0xF5: True, 0xF6: None}


class _Cbor(Cursor):
    room = _MOST_VALUES

    def value(self, depth=0):
        """Return the next value, which so many arrays are around; `parse` checks that forms are shortest."""
        first = self.bits(8)
        if first in _SIMPLE:
            return _SIMPLE[first]
        if first == 0xFB:
            return struct.unpack(">d", self.take(8))[0]
        major, low = first >> 5, first & 31
        must(low < 28 and major not in {5, 7}, "not canonical CBOR")
        number = low if low < 24 else int.from_bytes(self.take(1 << low - 24), "big")
        if major < 2:
            return ~number if major else number
        if major < 4:
            return self.take(number) if major == 2 else utf8(self.take(number))
        if major == 4:
            self.room -= number
            must(number <= self.left() and self.room >= 0, "an array has more values than there may be")
            must(depth < 255 or not number, "arrays nest too deep")
            return [self.value(depth + 1) for _ in range(number)]
        must(number in {2, 3} and depth < 256, "not canonical CBOR")
        content = self.value(256)  # neither an array nor another tag
        must(type(content) is bytes and len(content) <= 65536, "not a large integer")
        return int.from_bytes(content, "big") if number == 2 else ~int.from_bytes(content, "big")


def parse(data):
    """Return the value of canonical CBOR; arrays are lists."""
    value = _Cbor(data).value()
    must(canonical(value) == data, "not canonical CBOR")
    return value


def canonical(value):
    """Return the canonical bytes of a value."""
    if value is None or type(value) is bool:
        return bytes([0xF6 if value is None else 0xF4 + value])
    if type(value) is float:
        return b"\xfb" + struct.pack(">d", value)
    if type(value) is list:
        return _head(4, len(value)) + b"".join(map(canonical, value))
    if type(value) is not int:
        major, content = (2, value) if type(value) is bytes else (3, value.encode("utf-8", "surrogatepass"))
        return _head(major, len(content)) + content
    number = max(value, ~value)
    if number < 1 << 64:
        return _head(int(value < 0), number)
    return bytes([0xC2 + (value < 0)]) + canonical(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def _head(major, number):
    if number < 24:
        return bytes([major << 5 | number])
    size = next(size for size in range(4) if number < 1 << (8 << size))
    return bytes([major << 5 | 24 + size]) + number.to_bytes(1 << size, "big")


def utf8(data):
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptionError("text is not UTF-8") from error


def fits(value, shape):
    """Whether a value has a shape.

    That is a type, `object` for any; a range of integers; a number of bytes; `[shape]` for an array of any
    length; a tuple of shapes for an array of just these; or a function that tells.
    """
    if isinstance(shape, type):
        return shape is object or type(value) is shape
    if isinstance(shape, range):
        return type(value) is int and value in shape
    if isinstance(shape, int):
        return type(value) is bytes and len(value) == shape
    if callable(shape):
        return shape(value)
    if type(value) is not list:
        return False
    shapes = shape * len(value) if type(shape) is list else shape
    return len(value) == len(shapes) and all(map(fits, value, shapes))


def shaped(value, shape, what):
    must(fits(value, shape), f"{what} is not as described")
    return value


def named(value, shapes, what):
    """Return a dict of values that have these shapes."""
    return dict(zip(shapes, shaped(value, tuple(shapes.values()), what), strict=True))


def either(*shapes):
    return lambda value: any(fits(value, shape) for shape in shapes)


def only(shape, values):
    """The shape of one of some values; others of that shape may be a newer writer's."""

    def fits_and_known(value):
        known(not fits(value, shape) or value in values, f"value {value!r}")
        return fits(value, shape)

    return fits_and_known


def pairs(shape):
    """The shape of pairs of distinct texts and something."""
    return lambda value: fits(value, [(str, shape)]) and len(dict(value)) == len(value)


NULL, ID, NUMBER, TIME = type(None), 32, range(1 << 63), range(-(1 << 62), 1 << 62)
MAYBE_ID = either(NULL, ID)

# Tensors.

_NAMES = {1: "bool uint8 int8 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"}
_NAMES |= {2: "uint16 int16 float16 bfloat16", 4: "uint32 int32 float32 complex32"}
_NAMES |= {8: "uint64 int64 float64 complex64", 16: "complex128"}
SIZES = {name: size for size, names in _NAMES.items() for name in names.split()} | {"float4_e2m1fn_x2": 1}
_NOT_OF_NUMPY = ("float8", "float4", "bfloat16", "complex32")


def numpy_type(element):
    """Return the type of numpy; types it lacks are unsigned integers of their width."""
    return np.dtype(f"<u{SIZES[element]}" if element.startswith(_NOT_OF_NUMPY) else element).newbyteorder("<")


class Grid:
    """A tensor's element type and shape, and so its chunks."""

    def __init__(self, element, shape):
        self.element, self.shape, self.size, self.count = element, shape, SIZES[element], math.prod(shape)
        must(len(shape) <= 64 and self.count < 1 << 56, "a shape that is too large")
        self.chunk = 1 << (21 if self.size == 16 else 22)  # elements of a chunk
        self.chunks = -(-self.count // self.chunk)

    def length(self, number):
        """Return how many elements that chunk has."""
        must(number < self.chunks, "no such chunk")
        return min(self.chunk, self.count - number * self.chunk)


TABLE, LATTICE, LOG_LATTICE, ROOT_LATTICE, DERIVED, CONSTANT, SIGN, ABSENT = range(8)
_SHAPE, _STEP, _OTHER_AT = [range(1 << 56)], range(256), {ROOT_LATTICE: 1, DERIVED: 0}
_PARAMETERS = {
    TABLE: (only(NUMBER, [1]), bytes),
    LATTICE: (_STEP,),
    LOG_LATTICE: (range(16, 25), MAYBE_ID, MAYBE_ID),
}
_PARAMETERS |= {ROOT_LATTICE: (_STEP, object), DERIVED: (object, only(str, ["nearest-even"]))}
_PARAMETERS |= {CONSTANT: (bytes,), ABSENT: ()}
_EXACT, _FLOATS = (only(str, SIZES), _SHAPE, [ID]), ("float16", "bfloat16", "float32", "float64")
_QUANTIZED = (only(str, _FLOATS), _SHAPE, only(NUMBER, _PARAMETERS), [object], [MAYBE_ID], bytes, [ID])


class Quantized:
    """A quantized tensor; `resolve` finds the other one that its parameters name for its form."""

    def __init__(self, items, resolve):
        element, shape, form, parameters, *chunks = shaped(items, _QUANTIZED, "a quantized tensor")
        shaped(parameters, _PARAMETERS[form], "parameters")
        self.grid, self.form, self.parameters = Grid(element, shape), form, list(parameters)
        self.exceptions, self.digests, self.codes = chunks
        size, count = self.grid.size, self.grid.chunks
        must(form != TABLE or len(parameters[1]) in range(0, 255 * size, size), "a table of another length")
        must(form != DERIVED or size == 2, "a derived tensor of another type")
        must(form != CONSTANT or len(parameters[0]) == size, "an element of another length")
        without = form >= DERIVED or (form == LOG_LATTICE and None not in parameters and not self.codes)
        must(not without or self.grid.count <= 1 << 36, "too many elements without codes")
        must(len(self.codes) == len(self.exceptions) == (0 if without else count), "another number of codes")
        must(len(self.digests) == (0 if form in {CONSTANT, ABSENT} else 16 * count), "other digests")
        if form in _OTHER_AT:
            self.other = resolve(parameters[_OTHER_AT[form]], form)
            must(self.other.grid.shape == shape, "the other tensor has another shape")
            self.parameters[_OTHER_AT[form]] = self.other.id
        self.id = object_id(QUANTIZED_TENSOR, canonical([element, shape, form, self.parameters, *chunks]))

    def restored(self, number, fetch):
        """Return the elements that a chunk restores to; `fetch` returns an object by kind and id."""
        count, size, width = self.grid.length(number), self.grid.size, 1 if self.form == TABLE else 2
        if self.form in {CONSTANT, ABSENT}:
            return (self.parameters or [bytes(size)])[0] * count
        content = fetch(CHUNK, self.codes[number]) if self.codes else bytes(width * count)
        must(len(content) == width * count, "another number of codes")
        codes = np.frombuffer(content, "u1" if width == 1 else "<i2").astype(np.int64)
        if self.form == TABLE:
            table, mark = self.parameters[1] + bytes(size), len(self.parameters[1]) // size
            must(codes.max() <= mark, "a code beyond the table")
            values = np.frombuffer(table, f"<u{size}")[codes]
        else:
            floats, mark = self._floats(number, codes, fetch), -32768
            values = np.frombuffer(rounded(floats, self.grid.element), f"<u{size}").copy()
        marked, chunk = np.flatnonzero(codes == mark), self.exceptions[number] if self.codes else None
        exceptions = b"" if chunk is None else fetch(CHUNK, chunk)
        must(chunk is None or exceptions, "a chunk without exceptions in place of null")
        must(len(exceptions) == len(marked) * (4 + size), "exceptions of another number")
        must(exceptions.startswith(marked.astype("<u4").tobytes()), "exceptions that codes do not mark")
        values[marked] = np.frombuffer(exceptions, f"<u{size}", offset=4 * len(marked))
        digest = object_id(CHUNK, values.tobytes())[:16]
        must(digest == self.digests[16 * number :][:16], "what is restored has another digest")
        return values.tobytes()

    def _floats(self, number, codes, fetch):
        """Return as float32 what codes stand for, or what tensors without codes restore to."""
        if self.form == LOG_LATTICE:
            return self._powers(number, codes, fetch)
        if self.form == LATTICE:
            return codes.astype("<f4") * np.float32(step(self.parameters[0]))
        other, element = self.other.restored(number, fetch), self.other.grid.element
        other = np.frombuffer(other, numpy_type(element))
        with np.errstate(over="ignore"):
            other = (other.astype("u4") << 16).view("f4") if element == "bfloat16" else other.astype("f4")
            if self.form == DERIVED:
                return other
            usable = np.isfinite(other) & (other > 0)
            roots = np.sqrt(np.where(usable, other, np.float32(1)))
            products = codes.astype("<f4") * np.float32(step(self.parameters[0])) * roots
        return np.where(usable & np.isfinite(products), products, np.float32(0))

    def _powers(self, number, codes, fetch):
        scale, *offsets = self.parameters
        rows = self.grid.shape[0] if self.grid.shape else 1
        columns = self.grid.count // rows
        places, zero, quarters = np.arange(len(codes)) + number * self.grid.chunk, codes == -32767, 4 * codes
        sides = (rows, places // columns), (columns, places % columns)
        for chunk, (length, own) in zip(offsets, sides, strict=True):
            if chunk is not None:
                content = fetch(CHUNK, chunk)
                must(length <= 1 << 22 and len(content) == 2 * length, "another number of offsets")
                offset = np.frombuffer(content, "<i2").astype(np.int64)[own]
                quarters, zero = quarters + offset, zero | (offset == -32768)
        values = np.clip(quarters << scale - 2, 0x00800000, 0x7F7FFFFF).astype("<u4").view("<f4")
        return np.where(zero, np.float32(0), values)


# Trees.

LIST, TUPLE, DICT, ORDERED_DICT, COMPLEX, DTYPE, DEVICE, SIZE, NUMPY_SCALAR, TENSOR = range(10)
BLOB_BYTES, BLOB_TEXT, COUNTER, SET, FROZENSET, BYTEARRAY, OBJECT = range(10, 17)
_MAPPINGS, _SETS = {DICT, ORDERED_DICT, COUNTER}, {SET, FROZENSET}
_COMPLEX, _BLOB = (range(COMPLEX, DTYPE), float, float), (range(BLOB_BYTES, BLOB_TEXT), ID, NUMBER)
_TEXT, _PAIRS = (range(BLOB_TEXT, COUNTER), ID, NUMBER), [(either(str, int, bool), object)]
_MEMBER = either(NULL, bool, int, float, str, bytes, _COMPLEX, _BLOB, _TEXT)
_AFTER = {LIST: [object], TUPLE: [object], DICT: (_PAIRS,), ORDERED_DICT: (_PAIRS, object)}
_AFTER |= {COMPLEX: (float, float), DTYPE: (str,), DEVICE: (str,), SIZE: [int]}
_AFTER |= {TENSOR: (NUMBER, only(NUMBER, range(8))), NUMPY_SCALAR: (only(str, SIZES), bytes)}
_AFTER |= {BLOB_BYTES: (ID, NUMBER), BLOB_TEXT: (ID, NUMBER), COUNTER: (_PAIRS,)}
_AFTER |= {OBJECT: (str,)}
_AFTER |= {SET: [_MEMBER], FROZENSET: [_MEMBER], BYTEARRAY: (either(bytes, _BLOB),)}
_FORMATS = {"safetensors": (object, either(bytes, _BLOB)), "opaque": (_BLOB, NULL)}
_FORMATS |= {"torch": (object, either(NULL, bytes, _BLOB)), "npz": (object, either(NULL, bytes, _BLOB))}
_FORMATS |= {"binary": (object, either(bytes, _BLOB))}
_MOST_LEAVES, _MOST_NODES, _MOST_FILES, _MOST_FOLDERS = 1 << 20, 1 << 22, 1 << 17, 1 << 17


class Leaf:
    """A tensor of a tree: exact alone, or quantized with the exact one that was handed over."""

    def __init__(self, row, quantized):
        element, shape, self.chunks = shaped([*row[:2], row[-1]], _EXACT, "a leaf")
        self.grid, self.quantized = Grid(element, shape), quantized
        must(len(self.chunks) == self.grid.chunks, "another number of chunks")


def tree(content):
    """Return rows of path, format, structure and header of a tree, and its leaves; a state has no path."""
    first, main, rows = shaped(parse(content), (only(str, ("state", "files")), object, [[object]]), "a tree")
    files = [["", "state", main, None]]
    if first == "files":
        files = shaped(main, [(str, only(str, _FORMATS), object, object)], "a list of files")
        for _, kind, *rest in files:
            shaped(rest, _FORMATS[kind], "a file")
        _check_paths([file[0] for file in files])
    nodes = [node for file in files for node in _nodes(file[2], 0)]
    tensors = [node[1] for node in nodes if type(node) is list and node[0] == TENSOR]
    must(len(rows) <= _MOST_LEAVES and len(nodes) <= _MOST_NODES, "a tree holds too much")
    must(list(dict.fromkeys(tensors)) == list(range(len(rows))), "leaves are not referred to in order")

    @functools.cache
    def quantized(number):
        must(len(rows[number]) in {3, 8}, "a leaf of another number of items")
        return Quantized(rows[number][:7], other) if len(rows[number]) == 8 else None

    def other(named, form):
        items = rows[named] if fits(named, range(len(rows))) else named
        must(type(items) is list and len(items) in {7, 8}, "no other quantized tensor")
        # Forms lead to lower ones alone, so the way ends.
        must(items[2] == LOG_LATTICE if form == ROOT_LATTICE else items[2] != DERIVED, "a wrong other form")
        return Quantized(named, other) if items is named else quantized(named)

    return files, [Leaf(row, quantized(number)) for number, row in enumerate(rows)]


def _nodes(value, depth):
    """Yield the primitives and arrays with a tag of a structure, in order."""
    must(depth <= 65, "containers nest too deep")
    yield value
    if type(value) is not list:
        return
    must(value and fits(value[0], NUMBER), "not a structure")
    tag, *rest = value
    known(tag in _AFTER, f"tag {tag}")
    shaped(rest[:1] if tag == OBJECT else rest, _AFTER[tag], f"what stands behind the tag {tag}")
    if tag == NUMPY_SCALAR:
        must(not rest[0].startswith(_NOT_OF_NUMPY) and len(rest[1]) == SIZES[rest[0]], "no scalar of numpy")
    elif tag in _MAPPINGS | _SETS:
        must(max(Counter(_hashes(tag, rest)).values(), default=0) <= 64, "too many members of one hash")
    for child in _inside(tag, rest):
        yield from _nodes(child, depth + (tag != BYTEARRAY or type(child) is list))


def _inside(tag, rest):
    """Return the structures right inside an array with a tag."""
    if tag in _MAPPINGS:
        return [value for _, value in rest[0]] + rest[1:]
    return rest if tag in {LIST, TUPLE, SET, FROZENSET, BYTEARRAY, OBJECT} else []


def tensors_in(node):
    """Yield the leaves that a structure refers to, in order."""
    if type(node) is list and node[0] == TENSOR:
        yield node[1]
    elif type(node) is list:
        for child in _inside(*[node[0], node[1:]]):
            yield from tensors_in(child)


def _hashes(tag, rest):
    """Return what is alike where Python would compare many keys or members with each other."""
    if tag in _MAPPINGS:
        keys, modulus = [key for key, _ in rest[0]], (1 << 61) - 1
        must(len(set(keys)) == len(keys), "a key twice")
        return [(key < 0, abs(key) % modulus) for key in keys if type(key) is int and abs(key) > modulus]
    must(rest == sorted(rest, key=canonical), "members of a set are not in order")
    numbers = [complex(*one[1:]) if fits(one, _COMPLEX) else one for one in rest]
    finite = [one for one in numbers if type(one) in {float, complex} and cmath.isfinite(one)]
    return [hash(one) for one in finite + [one for one in numbers if type(one) in {int, bool}]]


_BAD_SIGNS = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udc7f\udd00-\udfff]|^[A-Za-z]:")


def _check_paths(paths):
    """Check what the paths of a tree MUST be; that one is fit for a folder is a writer's business."""
    must(paths == sorted(set(paths)) and len(paths) <= _MOST_FILES, "paths are not sorted, or too many")
    folders = {path[:at] for path in paths for at, sign in enumerate(path) if sign == "/"}
    must(len(folders) <= _MOST_FOLDERS, "too many folders")
    must(not folders & set(paths), "a path names a folder that another names as a file")
    for path in paths:
        segments = [segment.rstrip(". ") for segment in path.split("/")]
        must(len(path) <= 4096 and not _BAD_SIGNS.search(path), f"a bad path {path!r}")
        must(len(segments) <= 256 and all(segments), f"a bad path {path!r}")
        must(".mvcs" not in map(str.casefold, segments), "a path leads into a store")


# Commits, tags, notes and blobs.

_TAG, _BLOB_OBJECT = (
    {"commit": ID, "author": str, "time": NUMBER, "message": str},
    {"length": NUMBER, "chunks": [ID]},
)
_NOTE = {"commit": ID, "metrics": pairs(float), "author": str, "time": NUMBER}
_COMMIT = {"tree": ID, "parents": [ID], "author": str, "time": TIME, "message": str}
_COMMIT |= {"step": either(NULL, range(-(1 << 63), 1 << 63)), "metrics": pairs(float)}
_COMMIT |= {"exactness": only(str, ("exact", "bounded")), "lineage_exact": either(NULL, bool)}
_COMMIT |= {
    "restored_from": MAYBE_ID,
    "quantized_against": MAYBE_ID,
    "quantizer": either(NULL, pairs(object)),
}
_COMMIT |= {"errors": pairs(pairs(float)), "degradation": either(NULL, float), "provenance": pairs(object)}
_COMMIT |= {"extensions": [(str, only(bool, [False]), object)]}  # required ones are not known
_FIELDS = {BLOB: _BLOB_OBJECT, COMMIT: _COMMIT, TAG: _TAG, NOTE: _NOTE}


def described(kind, content):
    """Return what a blob, a commit, a tag or a note says, by name."""
    values = shaped(parse(content), [object], KINDS[kind])
    known(kind != COMMIT or len(values) == len(_COMMIT), "number of fields of a commit")
    fields = named(values, _FIELDS[kind], KINDS[kind])
    if kind == BLOB:
        must(len(fields["chunks"]) == -(-fields["length"] >> 24), "another number of chunks")
    if kind == COMMIT:
        names, parents = [name for name, _, _ in fields["extensions"]], fields["parents"]
        must(len(content) <= 1 << 20 and len(parents) <= 64, "a commit that is too long, or of many parents")
        must(len(set(names)) == len(names) and len(set(parents)) == len(parents), "a name or parent twice")
        must(fields["exactness"] == "bounded" or fields["quantizer"] is None, "an exact one with a quantizer")
    return fields


class Restore:
    """Makes values of structures; `fetch` returns an object of a layer by its kind and id."""

    def __init__(self, leaves, fetch, *, exact):
        self.leaves, self.fetch, self.exact = leaves, fetch, exact
        self.tensor = functools.cache(self._tensor)

    def value(self, structure):
        if type(structure) is not list:
            return structure
        tag, *rest = structure
        inside = [self.value(child) for child in _inside(tag, rest)]
        if tag in _MAPPINGS:
            items = dict(zip((key for key, _ in rest[0]), inside, strict=False))
            found = {DICT: dict, ORDERED_DICT: OrderedDict, COUNTER: Counter}[tag](items)
            if len(inside) > len(items) and inside[-1] is not None:
                found._metadata = inside[-1]
            return found
        if tag in _AROUND:
            return _AROUND[tag](inside)
        if tag in {BLOB_BYTES, BLOB_TEXT}:
            return self.blob(*rest) if tag == BLOB_BYTES else utf8(self.blob(*rest))
        return self.tensor(rest[0]) if tag == TENSOR else _MADE[tag](*rest)

    def _tensor(self, number):
        leaf, content = self.leaves[number], []
        for index, chunk in enumerate(leaf.chunks):
            if leaf.quantized and not self.exact:
                content.append(leaf.quantized.restored(index, self.fetch))
            else:
                content.append(self.fetch(CHUNK, chunk))
            must(len(content[-1]) == leaf.grid.length(index) * leaf.grid.size, "a chunk of another length")
        kind = numpy_type(leaf.grid.element)
        return np.frombuffer(bytearray(b"".join(content)), kind).reshape(leaf.grid.shape)

    def blob(self, own, length):
        fields = described(BLOB, self.fetch(BLOB, own))
        content = [self.fetch(CHUNK, one) for one in fields["chunks"]]
        must(all(len(one) == 1 << 24 for one in content[:-1]), "a chunk of another length")
        must(fields["length"] == length == sum(map(len, content)), "a blob of another length")
        return b"".join(content)


_AROUND = {LIST: list, TUPLE: tuple, SET: set, FROZENSET: frozenset, BYTEARRAY: bytearray().join}
_AROUND[OBJECT] = tuple  # its kind and parts, which say what it was in Python
_MADE = {COMPLEX: complex, DTYPE: str, DEVICE: str, SIZE: lambda *sizes: sizes}
_MADE[NUMPY_SCALAR] = lambda element, content: np.frombuffer(content, numpy_type(element))[0]
