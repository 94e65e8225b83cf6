"""The header in front of every message between processes that train together (docs/format/channels.md)."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from struct import Struct
from struct import error as struct_error
from typing import Self

import numpy as np
from blake3 import blake3
from numpy.typing import ArrayLike

from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError

VERSION = 1
BITS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 16)
_FIELDS = Struct("<BBBBHHIIQQ")
HEADER_BYTES = _FIELDS.size + 8


class Kind(IntEnum):
    """What a payload is."""

    HANDSHAKE = 0
    """The settings of a stage, compared before the first step."""
    FULL = 1
    """Values as they are."""
    DELTA = 2
    """A quantized difference from what both ends hold."""
    DIRECT = 3
    """Quantized values."""
    GRADIENT = 4
    """A gradient, quantized where `bits` is not 0."""


class Flag(IntFlag):
    """What differs from the usual payload of a kind."""

    NONE = 0
    SOME_FULL = 1
    """Samples that begin anew are among those of a delta."""
    SOME_LOST = 2
    """The sender of a gradient could not keep the activations of some samples."""


@dataclass(frozen=True)
class Header:
    """What a message is of, and what its payload has to be."""

    kind: Kind
    edge: int
    """Which pair of neighbouring stages: below 2^16."""
    step: int
    """Below 2^32."""
    samples: int
    """`checksum_of_ids` of the samples of the micro-batch, or 0 where there are none."""
    length: int
    """Bytes of the payload: below 2^32."""
    checksum: int
    """The first 8 bytes of BLAKE3 of the payload, as a little-endian number."""
    bits: int = 0
    """Bits a code; 0 for values as they are."""
    flags: Flag = Flag.NONE

    @classmethod
    def of(
        cls,
        payload: bytes | bytearray | memoryview,
        kind: Kind,
        *,
        edge: int,
        step: int,
        samples: int = 0,
        bits: int = 0,
        flags: Flag = Flag.NONE,
    ) -> Self:
        """Return the header of a payload."""
        return cls(kind, edge, step, samples, len(payload), _checksum(payload), bits, flags)

    def pack(self) -> bytes:
        """Return the 40 bytes of the header.

        Raises:
            UsageError: a field does not fit.
        """
        try:
            fields = _FIELDS.pack(
                VERSION, self.kind, self.bits, self.flags, self.edge, 0,
                self.step, self.length, self.samples, self.checksum,
            )  # fmt: skip
        except struct_error as error:
            raise UsageError(f"a message cannot have the header {self}: {error}") from error
        return fields + _checksum(fields).to_bytes(8, "little")

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read a header from its 40 bytes.

        Raises:
            CorruptionError: they are not what `pack` gives.
            UnsupportedFormatError: a newer version wrote them.
        """
        fields = bytes(data[: _FIELDS.size])
        if len(data) != HEADER_BYTES or _checksum(fields).to_bytes(8, "little") != bytes(
            data[_FIELDS.size :]
        ):
            raise CorruptionError("the header of a message is damaged")
        version, kind, bits, flags, edge, reserved, step, length, samples, checksum = _FIELDS.unpack(fields)
        if version != VERSION or kind > max(Kind) or flags > sum(Flag) or bits not in BITS or reserved:
            raise UnsupportedFormatError(
                f"a message of version {version} has kind {kind}, {bits} bits and flags {flags}",
                hint="run the same version of mvcs on all machines",
            )
        return cls(Kind(kind), edge, step, samples, length, checksum, bits, Flag(flags))

    def check(self, payload: bytes | bytearray | memoryview) -> None:
        """Compare a payload with the header.

        Raises:
            CorruptionError: it is another.
        """
        if len(payload) != self.length or _checksum(payload) != self.checksum:
            raise CorruptionError(f"the payload of edge {self.edge} at step {self.step} is damaged")


def checksum_of_ids(ids: ArrayLike) -> int:
    """Return the checksum of sample ids (int64) in their order: the first 8 bytes of their BLAKE3."""
    return _checksum(np.ascontiguousarray(ids, "<i8").tobytes())


def _checksum(data: bytes | bytearray | memoryview) -> int:
    return int.from_bytes(blake3(data).digest(8), "little")
