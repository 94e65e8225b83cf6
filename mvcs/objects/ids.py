"""Ids: BLAKE3 of canonical bytes, one hash domain per kind of object and format version."""

import re
from collections.abc import Sequence
from enum import Enum
from typing import NewType

import blake3

from mvcs.errors import CorruptionError

ID_BYTES = 32
HALF_BYTES = 16
ABBREVIATED = 12
MIN_PREFIX = 4

ObjectId = NewType("ObjectId", bytes)

_HEX = re.compile(r"[0-9a-f]{4,64}")

Content = bytes | bytearray | memoryview


class Kind(Enum):
    """What an id names. The value is the number used in packs; the domain separates the hashes."""

    CHUNK = 0
    TENSOR = 1
    QUANTIZED = 2
    BLOB = 3
    TREE = 4
    COMMIT = 5
    TAG = 6
    NOTE = 7

    @property
    def domain(self) -> str:
        """The BLAKE3 key derivation context of this kind in format 1."""
        return f"mvcs format 1 {self.name.lower()}"


# Keys are derived once: of a small object that takes longer than its own hash.
_KEYED = {kind: blake3.blake3(derive_key_context=kind.domain) for kind in Kind}


def object_id(kind: Kind, content: Content) -> ObjectId:
    """Return the id of canonical `content`: 32 bytes of BLAKE3 in derive-key mode."""
    found = _KEYED[kind].copy()
    found.update(content)
    return ObjectId(found.digest())


def half(identifier: ObjectId) -> ObjectId:
    """Return the first half of an id: enough to find an object by, and to tell restored values."""
    return ObjectId(identifier[:HALF_BYTES])


class Digest:
    """The digest of a chunk that comes piece by piece: the first half of the id that such a chunk has.

    So a tensor's restored values can be told from an exact tensor's without restoring either.
    """

    def __init__(self) -> None:
        """Begin with no bytes."""
        self._hash = _KEYED[Kind.CHUNK].copy()

    def update(self, data: Content) -> None:
        """Go on with these bytes."""
        self._hash.update(data)

    @property
    def value(self) -> bytes:
        """The digest so far, `HALF_BYTES` of them."""
        return self._hash.digest(HALF_BYTES)


def digest(content: Content) -> bytes:
    """Return the digest of a chunk's content."""
    return half(object_id(Kind.CHUNK, content))


class FileName:
    """The content name of a file that comes piece by piece: plain BLAKE3 in hex."""

    def __init__(self) -> None:
        """Begin with no bytes."""
        self._hash = blake3.blake3()

    def update(self, data: Content) -> None:
        """Go on with these bytes."""
        self._hash.update(data)

    @property
    def text(self) -> str:
        """The name so far."""
        return self._hash.hexdigest()


def checksum(*parts: Content) -> bytes:
    """Return 16 bytes of BLAKE3 of all parts in order, the checksum of framed data inside files."""
    found = blake3.blake3()
    for part in parts:
        found.update(part)
    return found.digest(16)


def to_hex(identifier: bytes) -> str:
    """Return the full hexadecimal form of an id."""
    return identifier.hex()


def short_id(identifier: bytes) -> str:
    """Return the abbreviated form people read."""
    return identifier.hex()[:ABBREVIATED]


def as_id(value: object) -> ObjectId:
    """Check that a decoded value is an id.

    Raises:
        CorruptionError: it is not 32 bytes.
    """
    if not isinstance(value, bytes) or len(value) != ID_BYTES:
        raise CorruptionError(f"expected a {ID_BYTES}-byte id, found {type(value).__name__}")
    return ObjectId(value)


def as_ids(values: Sequence[object]) -> tuple[ObjectId, ...]:
    """Check that all decoded values are ids.

    Raises:
        CorruptionError: one is not 32 bytes.
    """
    found = [ObjectId(value) for value in values if type(value) is bytes]
    if len(found) == len(values) and set(map(len, found)) <= {ID_BYTES}:
        return tuple(found)
    return tuple(map(as_id, values))


def as_half(value: object) -> ObjectId:
    """Read half an id from a decoded object.

    Raises:
        CorruptionError: it is none.
    """
    if not isinstance(value, bytes) or len(value) != HALF_BYTES:
        raise CorruptionError("half an id is not 16 bytes")
    return ObjectId(value)


def is_prefix(text: str) -> bool:
    """Tell whether `text` could abbreviate an id: 4 to 64 lower-case hexadecimal digits."""
    return _HEX.fullmatch(text) is not None


def is_whole(text: str) -> bool:
    """Tell whether `text` is an id with all of its digits, which no name may look like."""
    return is_prefix(text) and len(text) == 2 * ID_BYTES
