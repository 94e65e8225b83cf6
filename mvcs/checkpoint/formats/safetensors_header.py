"""The header of a safetensors file, read strictly and written as safetensors' own library writes it."""

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mvcs.errors import CorruptionError, FileFormatError, StateError
from mvcs.objects import DTYPES, DType, as_shape, element_count

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


@dataclass(frozen=True)
class Span:
    """One tensor of a file: where its bytes lie, counted from the end of the header."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    begin: int
    end: int


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
    if metadata is not None and not _is_text_map(metadata):
        raise FileFormatError(f"the header's '{METADATA_KEY}' does not map text to text")
    return dict(entries)


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FileFormatError("the header names something twice")
    return found


def _constant(name: str) -> object:
    raise FileFormatError(f"the header holds '{name}', which is not JSON")


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


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
