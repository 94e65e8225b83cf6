"""safetensors files: captured without being loaded, and written back byte for byte."""

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from mvcs.checkpoint.formats.layout import capture_named
from mvcs.checkpoint.state.captured import Collector, Found
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.state.state import ContentReader
from mvcs.errors import CorruptionError, FileFormatError, StateError
from mvcs.objects import (
    DTYPES,
    DType,
    FileEntry,
    FileFormat,
    NodeTag,
    TensorFlag,
    Value,
    as_shape,
    element_count,
    pairs_of,
    tag_of,
    tensor_reference,
)

LENGTH_BYTES = 8
MAX_HEADER = 100_000_000
METADATA_KEY = "__metadata__"
FREE_HEADER = 1 << 20
VALUES_A_TENSOR = 32
_FIELDS = {"dtype", "shape", "data_offsets"}
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)

# In the order in which the library lays tensors out, last first. The bits are of one element.
_NAMES = (
    ("BOOL", "bool", 8),
    ("F4", "float4_e2m1fn_x2", 4),
    ("F6_E2M3", "uint8", 6),
    ("F6_E3M2", "uint8", 6),
    ("U8", "uint8", 8),
    ("I8", "int8", 8),
    ("F8_E5M2", "float8_e5m2", 8),
    ("F8_E4M3", "float8_e4m3fn", 8),
    ("F8_E8M0", "float8_e8m0fnu", 8),
    ("F8_E4M3FNUZ", "float8_e4m3fnuz", 8),
    ("F8_E5M2FNUZ", "float8_e5m2fnuz", 8),
    ("I16", "int16", 16),
    ("U16", "uint16", 16),
    ("F16", "float16", 16),
    ("BF16", "bfloat16", 16),
    ("I32", "int32", 32),
    ("U32", "uint32", 32),
    ("F32", "float32", 32),
    ("C64", "complex64", 64),
    ("F64", "float64", 64),
    ("I64", "int64", 64),
    ("U64", "uint64", 64),
)
_READ = {name: (DTYPES[dtype], bits) for name, dtype, bits in _NAMES}
# Six-bit types are read as the bytes they fill and never written, so uint8 is written as U8.
_WRITTEN = {dtype: (rank, name) for rank, (name, dtype, bits) in enumerate(_NAMES) if bits != 6}
FIELD: Final = "mvcs.restored"
_VALUE = re.compile(r'"([0-9a-f]{64}) value *"')
_SPACE = " \t\n\r"
_READER = json.JSONDecoder()


@dataclass(frozen=True)
class Span:
    """One tensor of a file: where its bytes lie, counted from the end of the header."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    begin: int
    end: int


def capture_safetensors(file: StampedFile, name: str, collector: Collector) -> FileEntry:
    """Take a safetensors file apart: its header as it stands, its tensors in the order of their bytes.

    The mark of a lossily restored file is no part of its header; the collector takes note of it.

    Raises:
        FileFormatError: it is not a safetensors file; says what is wrong and where.
        StateError: its header says more than the format has.
    """
    header, spans = _read(file)
    data = LENGTH_BYTES + len(header)
    pairs: list[Value] = []
    for span in spans:
        source = file.span(data + span.begin, span.end - span.begin)
        found = Found(span.dtype, span.shape, source, TensorFlag(0), (name, span.name))
        pairs.append([span.name, collector.tensor(found, (name, span.name))])
    own, restored = unmarked(header)
    if restored is not None:
        collector.restored[name] = restored
    return FileEntry(name, FileFormat.SAFETENSORS, [int(NodeTag.DICT), pairs], collector.bytes_node(own))


def capture_odd_safetensors(file: StampedFile, name: str, collector: Collector) -> FileEntry:
    """Take a file apart whose header says more than the format has: its tensors, and all else as it stands.

    Raises:
        FileFormatError: it is not a safetensors file even so.
    """
    header, spans = _read(file, loosely=True)
    data = LENGTH_BYTES + len(header)
    found = ((span.name, span.dtype, span.shape, data + span.begin) for span in spans)
    return capture_named(file, name, found, collector)


def _read(file: StampedFile, *, loosely: bool = False) -> tuple[bytes, list[Span]]:
    try:
        return _parse(file, loosely=loosely)
    except FileFormatError as error:
        raise FileFormatError(f"'{file.path}' is not a safetensors file: {error.message}") from error


def _parse(file: StampedFile, *, loosely: bool) -> tuple[bytes, list[Span]]:
    if file.size < LENGTH_BYTES:
        raise FileFormatError(f"it has {file.size} bytes, fewer than the length in front of a header")
    length = header_length(file.read(0, LENGTH_BYTES))
    if length > MAX_HEADER:
        raise FileFormatError(f"its first 8 bytes announce a header of {length} bytes, above {MAX_HEADER}")
    if LENGTH_BYTES + length > file.size:
        raise FileFormatError(f"it ends at byte {file.size}, inside its header of {length} bytes")
    header = bytes(file.read(LENGTH_BYTES, length))
    spans = parse_header(header, loosely=loosely)
    expected = LENGTH_BYTES + length + max((span.end for span in spans), default=0)
    if file.size < expected or (file.size != expected and not loosely):
        kind = StateError if file.size > expected else FileFormatError
        raise kind(f"it has {file.size} bytes where its header describes {expected}")
    return header, spans


def write_safetensors(entry: FileEntry, content: ContentReader, file: BinaryIO) -> None:
    """Write a committed safetensors file as it was, a tensor at a time; one that is not says so in a mark.

    Raises:
        CorruptionError: the header and the tensors of the commit do not belong together.
    """
    header = content.bytes_of(entry.header)
    indices = _indices(entry, content, header)
    restored = content.restored_from(indices)
    written = header if restored is None else marked(header, restored)
    file.write(length_prefix(written))
    file.write(written)
    file.writelines(content.each(indices))


def _indices(entry: FileEntry, content: ContentReader, header: bytes) -> list[int]:
    tag, rest = tag_of(entry.node)
    pairs = pairs_of(rest[0] if tag is NodeTag.DICT and len(rest) == 1 else None)
    try:
        spans = parse_header(header, len(pairs))
    except (FileFormatError, StateError) as error:
        raise CorruptionError(f"the header of '{entry.path}' is damaged: {error.message}") from error
    references = [tensor_reference(node) for _, node in pairs]
    indices = [reference[0] for reference in references if reference is not None]
    leaves = [content.tree.leaves[index] for index in indices]
    held = [(key, leaf.dtype, leaf.shape) for (key, _), leaf in zip(pairs, leaves, strict=False)]
    if len(leaves) != len(pairs) or held != [(span.name, span.dtype, span.shape) for span in spans]:
        raise CorruptionError(f"the header of '{entry.path}' does not describe its tensors")
    return indices


def parse_header(header: bytes, tensors: int | None = None, *, loosely: bool = False) -> list[Span]:
    """Read a header: its tensors in the order of their bytes, which leave no hole.

    Args:
        header: its bytes.
        tensors: how many it describes at most, where that is known.
        loosely: leave out tensors of unknown element types, and allow unknown fields and holes.

    Raises:
        FileFormatError: it is not a header, or its tensors do not fit together; says which and where.
        StateError: it is a header that says more than readers of the format know.
    """
    _refuse_bulk(header, tensors)
    found = (_span(name, entry, loosely=loosely) for name, entry in _entries(header).items())
    spans = sorted((span for span in found if span), key=lambda span: (span.begin, span.end))
    expected = 0
    for span in spans:
        if span.begin != expected and not loosely:
            kind = StateError if span.begin > expected else FileFormatError
            raise kind(f"tensor '{span.name}' begins at data byte {span.begin}, not at {expected}")
        expected = span.end
    return spans


def _refuse_bulk(header: bytes, tensors: int | None) -> None:
    """Refuse JSON of far more values than its tensors need: reading it takes thirty times its size."""
    if len(header) <= FREE_HEADER:
        return
    described = header.count(b'"dtype"')
    most = FREE_HEADER + VALUES_A_TENSOR * (described if tensors is None else min(tensors, described))
    if sum(map(_TEXT.sub(b"", header).count, (b",", b"[", b"{"))) > most:
        raise FileFormatError(f"the header holds more than {most} values, for {described} tensors")


def _entries(header: bytes) -> dict[str, Any]:
    if not header.startswith(b"{"):
        raise FileFormatError("the header does not begin with '{' at byte 8")
    try:
        entries = json.loads(header.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"the header is not UTF-8 at byte {LENGTH_BYTES + error.start}") from error
    except json.JSONDecodeError as error:
        raise FileFormatError(
            f"the header is not JSON at byte {LENGTH_BYTES + error.pos}: {error.msg}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise FileFormatError(f"the header is not JSON of a safetensors file: {error}") from error
    metadata = entries.pop(METADATA_KEY, None)
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(item, str) for item in metadata.values())
    ):
        raise FileFormatError(f"the header's '{METADATA_KEY}' does not map text to text")
    return dict(entries)


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FileFormatError("the header names something twice")
    return found


def _constant(name: str) -> object:
    raise FileFormatError(f"the header holds '{name}', which is not JSON")


def _span(name: str, entry: object, *, loosely: bool) -> Span | None:
    if not isinstance(entry, dict) or not set(entry) >= _FIELDS:
        raise FileFormatError(f"tensor '{name}' is not described by dtype, shape and data_offsets")
    kind = entry["dtype"]
    if set(entry) != _FIELDS and not loosely:
        raise StateError(f"tensor '{name}' has the unknown field '{min(set(entry) - _FIELDS)}'")
    if not isinstance(kind, str) or kind not in _READ:
        if loosely and isinstance(kind, str):
            return None
        raise (StateError if isinstance(kind, str) else FileFormatError)(
            f"tensor '{name}' has the unknown dtype {kind!r}"
        )
    begin, end = _offsets(name, entry["data_offsets"])
    dtype, bits = _READ[kind]
    shape = _shape(name, entry["shape"])
    if element_count(shape) * bits != 8 * (end - begin):
        raise FileFormatError(f"tensor '{name}' of {kind} {list(shape)} does not fill {end - begin} bytes")
    return Span(name, dtype, _stored_shape(shape, bits, end - begin), begin, end)


def _offsets(name: str, value: object) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2 or not all(type(item) is int for item in value):
        raise FileFormatError(f"tensor '{name}' does not have two data offsets")
    begin, end = value
    if not 0 <= begin <= end < 1 << 63:
        raise FileFormatError(f"tensor '{name}' lies between the impossible data bytes {begin} and {end}")
    return begin, end


def _shape(name: str, value: object) -> tuple[int, ...]:
    try:
        return as_shape(value)
    except CorruptionError as error:
        raise FileFormatError(f"tensor '{name}' has an impossible shape") from error


def _stored_shape(shape: tuple[int, ...], bits: int, length: int) -> tuple[int, ...]:
    if bits >= 8:
        return shape
    # Two four-bit numbers share a byte along the last dimension, as PyTorch packs them.
    if bits == 4 and shape and shape[-1] % 2 == 0:
        return (*shape[:-1], shape[-1] // 2)
    return (length,)


def can_hold(dtype: DType) -> bool:
    """Tell whether safetensors has this element type."""
    return dtype.name in _WRITTEN


def build_header(tensors: Mapping[str, tuple[DType, tuple[int, ...]]]) -> tuple[bytes, dict[str, int]]:
    """Return the header of a new file and where each tensor's bytes begin after it.

    Args:
        tensors: dtype (one `can_hold` accepts) and shape by name.
    """
    entries: dict[str, object] = {}
    begins: dict[str, int] = {}
    offset = 0
    for name in sorted(tensors, key=lambda name: (-_WRITTEN[tensors[name][0].name][0], name.encode("utf-8"))):
        dtype, shape = tensors[name]
        begins[name], end = offset, offset + element_count(shape) * dtype.itemsize
        kind = _WRITTEN[dtype.name][1]
        sizes = [*shape[:-1], 2 * (shape or (1,))[-1]] if kind == "F4" else list(shape)
        entries[name] = {"dtype": kind, "shape": sizes, "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return header + b" " * (-len(header) % LENGTH_BYTES), begins


def header_length(first: bytes | memoryview) -> int:
    """Read the length in front of a header."""
    length: int = struct.unpack("<Q", first)[0]
    return length


def length_prefix(header: bytes) -> bytes:
    """Return the length in front of a header."""
    return struct.pack("<Q", len(header))


@dataclass(frozen=True)
class _Member:
    """One member of a JSON object: where its key begins, where its value does, and where that ends."""

    begin: int
    value: int
    end: int


def marked(header: bytes, commit: str) -> bytes:
    """Return a header that says from which commit's value layer the file was restored.

    A header that has no place for it stays as it is: one without tensors, one whose metadata are null, or
    one that would be longer than readers take.

    Args:
        header: as `parse_header` reads it.
        commit: 64 hexadecimal digits.
    """
    text = unmarked(header)[0].decode()
    members = _members(text, 0)
    metadata = members.get(METADATA_KEY)
    if not members.keys() - {METADATA_KEY} or (metadata is not None and text[metadata.value] != "{"):
        return header
    begin = 1 if metadata is None else metadata.value + 1
    if metadata is None:
        inserted = _padded(f'"{METADATA_KEY}":{{"{FIELD}":"{commit} value', '"},')
    else:
        is_empty = not _members(text, metadata.value)
        inserted = _padded(f'"{FIELD}":"{commit} value"' + ("" if is_empty else ","), " " * is_empty)
    found = (text[:begin] + inserted + text[begin:]).encode()
    return found if len(found) <= MAX_HEADER else header


def unmarked(header: bytes) -> tuple[bytes, str | None]:
    """Return a header without its mark, and the commit that it names; None for a header without one."""
    if FIELD.encode() not in header:
        return header, None
    text = header.decode()
    metadata = _members(text, 0).get(METADATA_KEY)
    inner = {} if metadata is None or text[metadata.value] != "{" else _members(text, metadata.value)
    field = inner.get(FIELD)
    value = None if field is None else _VALUE.fullmatch(text, field.value, field.end)
    if metadata is None or field is None or value is None:
        return header, None
    # In metadata that were empty spaces stand behind the field, so these were made for it.
    is_own = len(inner) == 1 and text[field.end] == "}" and text[metadata.end] == ","
    begin, end = (metadata.begin, metadata.end + 1) if is_own else _without(text, field)
    return (text[:begin] + text[end:]).encode(), value[1]


def _padded(before: str, behind: str) -> str:
    """Return what is inserted, of a length that leaves the data where they are aligned."""
    return before + " " * (-len(before + behind) % LENGTH_BYTES) + behind


def _without(text: str, field: _Member) -> tuple[int, int]:
    """Return the span of a member with its comma, the one behind or else the one before, and its padding."""
    comma = _skip(text, field.end)
    before = text[: field.begin].rstrip(_SPACE)
    if text[comma] != "," and before.endswith(","):
        return len(before) - 1, field.end
    end, behind = (comma + 1, "") if text[comma] == "," else (field.end, " ")
    held = text[field.begin : end]
    padding = len(_padded(held, behind)) - len(held)
    spaces = len(text[end:]) - len(text[end:].lstrip(" "))
    return field.begin, end + min(padding, spaces)


def _members(text: str, begin: int) -> dict[str, _Member]:
    """Return the members of the JSON object that begins somewhere, by key."""
    found = {}
    at = _skip(text, begin + 1)
    while text[at] != "}":
        key, colon = _READER.raw_decode(text, at)
        value = _skip(text, _skip(text, colon) + 1)
        end = _READER.raw_decode(text, value)[1]
        found[key] = _Member(at, value, end)
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
