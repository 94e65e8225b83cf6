"""The encodings of format 1 by number, and the two functions that know them all."""

from collections.abc import Sequence
from enum import IntEnum

from mvcs.delta import codes, frames
from mvcs.delta.buffers import Buffer, Bytes, as_array
from mvcs.delta.element import ElementFormat
from mvcs.delta.planes import decode_planes, encode_planes
from mvcs.delta.residual import decode_residual, encode_residual
from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError

OPAQUE_LEVEL = 3


class Encoding(IntEnum):
    """How a payload holds a chunk; the numbers stand in packs (docs/format/encodings.md)."""

    RAW = 0
    ZSTD = 1
    PLANES = 2
    RESIDUAL = 3
    CODES = 4
    DELTA = 5

    @property
    def has_base(self) -> bool:
        """Whether decoding needs the bytes of a base chunk."""
        return self in (Encoding.RESIDUAL, Encoding.DELTA)

    def fits(self, base_length: int, length: int) -> bool:
        """Tell whether a base of `base_length` bytes can serve a content of `length` bytes."""
        return base_length == length


def encoding_numbered(number: int) -> Encoding:
    """Look an encoding up by the number found in a pack.

    Raises:
        UnsupportedFormatError: this version does not know it.
    """
    try:
        return Encoding(number)
    except ValueError as error:
        raise UnsupportedFormatError(
            f"unknown encoding {number}", hint="a newer mvcs may have written it; upgrade and try again"
        ) from error


def encode(
    encoding: Encoding,
    content: Buffer,
    *,
    element: ElementFormat,
    base: Buffer | None = None,
    levels: int | None = None,
) -> bytes:
    """Encode the bytes of one chunk, or of several with elements of one format, one behind the other.

    Args:
        encoding: which encoding.
        content: the chunks: whole elements, little-endian; codes of one byte for CODES and DELTA.
        element: the format of their elements.
        base: the bytes of the base chunks, each of the same length; for RESIDUAL and DELTA.
        levels: for CODES and DELTA: 1 to 256, more than every code in content and base.

    Raises:
        UsageError: what the encoding needs is missing or does not fit.
    """
    data = as_array(content)
    if data.size % element.width:
        raise UsageError(f"{data.size} bytes are not whole elements of {element.width}")
    match encoding:
        case Encoding.RAW:
            return data.tobytes()
        case Encoding.ZSTD:
            return frames.compress(data, OPAQUE_LEVEL)
        case Encoding.PLANES:
            return encode_planes(data, element)
        case Encoding.RESIDUAL:
            return encode_residual(data, _same_length(base, data.size), element)
        case Encoding.CODES:
            return _levels_byte(levels) + codes.encode_alone(data, levels or 0)
        case Encoding.DELTA:
            return _levels_byte(levels) + codes.encode_near(data, _same_length(base, data.size), levels or 0)


def decode(
    encoding: Encoding,
    payload: Buffer,
    *,
    lengths: Sequence[int],
    element: ElementFormat,
    base: Buffer | None = None,
) -> bytes:
    """Decode a payload into exactly as many bytes as `lengths` say; nothing larger is ever allocated.

    Args:
        encoding: which encoding.
        payload: the bytes of one entry of a pack; they may be hostile.
        lengths: bytes of each decoded chunk.
        element: the format of their elements.
        base: the decoded bytes of the base chunks; for RESIDUAL and DELTA.

    Raises:
        CorruptionError: the payload does not decode to that many bytes.
        UsageError: a base is needed and is missing or of another length.
    """
    data, length = as_array(payload), sum(lengths)
    match encoding:
        case Encoding.RAW:
            return _expect(data, length)
        case Encoding.ZSTD:
            return frames.decompress(data, length)
        case Encoding.PLANES:
            return decode_planes(data, length, element)
        case Encoding.RESIDUAL:
            return decode_residual(data, _same_length(base, length), element)
        case Encoding.CODES:
            return codes.decode_alone(data[1:], _levels_of(data), length).tobytes()
        case Encoding.DELTA:
            return codes.decode_near(data[1:], _same_length(base, length), _levels_of(data)).tobytes()


def _expect(data: Bytes, length: int) -> bytes:
    if data.size != length:
        raise CorruptionError(f"a raw chunk has {data.size} bytes, not {length}")
    return data.tobytes()


def _same_length(base: Buffer | None, length: int) -> Bytes:
    if base is None:
        raise UsageError("this encoding needs the bytes of a base chunk")
    data = as_array(base)
    if data.size != length:
        raise UsageError(f"a base of {data.size} bytes does not fit a chunk of {length}")
    return data


def _levels_byte(levels: int | None) -> bytes:
    if levels is None or not 1 <= levels <= 256:
        raise UsageError("codes have between 1 and 256 levels")
    return bytes([levels - 1])


def _levels_of(data: Bytes) -> int:
    if data.size == 0:
        raise CorruptionError("codes lack their number of levels")
    return int(data[0]) + 1
