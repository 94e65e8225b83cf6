"""The encodings of format 1 by number, and the two functions that know them all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from mvcs.delta import codes, exact, frames, narrowed, rans
from mvcs.delta.buffers import Buffer, Bytes, Content, as_array, writable
from mvcs.delta.element import ElementFormat
from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError

Steps = tuple[int, int]

OPAQUE_LEVEL = 3
NEAR_LEVEL = 9


class Encoding(IntEnum):
    """How a payload holds contents; the numbers stand in packs (docs/format/encodings.md)."""

    RAW = 0
    ZSTD = 1
    CODES = 4
    DELTA = 5
    RANS_CODES = 6
    RANS_DELTA = 7
    RANS_RESIDUAL = 8
    RANS_PLANES = 9
    ZSTD_DELTA = 10
    NARROWED = 11

    @property
    def has_base(self) -> bool:
        """Whether decoding needs the content of a base."""
        return self in _WITH_BASE

    def fits(self, base_length: int, length: int) -> bool:
        """Tell whether a base of `base_length` bytes can serve a content of `length` bytes."""
        return self is Encoding.ZSTD_DELTA or base_length == length * (2 if self is Encoding.NARROWED else 1)


_WITH_BASE = frozenset(
    {
        Encoding.DELTA,
        Encoding.RANS_DELTA,
        Encoding.RANS_RESIDUAL,
        Encoding.ZSTD_DELTA,
        Encoding.NARROWED,
    }
)


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


@dataclass(frozen=True)
class _About:
    """What a coder knows beside the bytes it is given."""

    element: ElementFormat
    lengths: Sequence[int]
    base: Bytes
    in_place: bool = False
    levels: int | None = None
    steps: Sequence[Steps] | None = None

    @property
    def length(self) -> int:
        return sum(self.lengths)

    @property
    def counts(self) -> list[int]:
        """Elements of each content."""
        return [length // self.element.width for length in self.lengths]


def encode(
    encoding: Encoding,
    content: Buffer,
    *,
    element: ElementFormat,
    lengths: Sequence[int] | None = None,
    base: Buffer | None = None,
    levels: int | None = None,
    steps: Sequence[Steps] | None = None,
) -> Buffer:
    """Encode the bytes of one content, or of several chunks of one element format, one behind the other.

    Args:
        encoding: which encoding.
        content: whole elements, little-endian.
        element: the format of the elements; for codes their width.
        lengths: bytes of each chunk; None for one.
        base: the bytes of the bases, one behind the other, for encodings that have one.
        levels: for CODES and DELTA: 1 to 256, more than every code in content and base.
        steps: for RANS_DELTA, codes of two bytes: the step bytes of each chunk's base and of the chunk.

    Raises:
        UsageError: what the encoding needs is missing or does not fit.
    """
    data = as_array(content)
    if data.size % element.width:
        raise UsageError(f"{data.size} bytes are not whole elements of {element.width}")
    about = _about(encoding, element, [data.size] if lengths is None else lengths, base)
    return _ENCODERS[encoding](data, replace(about, levels=levels, steps=steps))


def decode(
    encoding: Encoding,
    payload: Buffer,
    *,
    lengths: Sequence[int],
    element: ElementFormat,
    base: Buffer | None = None,
    overwrite: bool = False,
) -> Content:
    """Decode a payload into exactly as many bytes as `lengths` say; nothing larger is ever allocated.

    Args:
        encoding: which encoding.
        payload: the bytes of one entry of a pack; they may be hostile.
        lengths: bytes of each decoded content.
        element: the format of their elements.
        base: the decoded bytes of the bases, one behind the other, for encodings that have one.
        overwrite: whether the content may take the place of the base, which nobody needs any more then.

    Raises:
        CorruptionError: the payload does not decode to that many bytes.
        UnsupportedFormatError: it has a mode that this version does not know.
        UsageError: a base is needed and is missing or of another length.
    """
    about = _about(encoding, element, lengths, base)
    if overwrite and base is not None and (place := writable(base)) is not None:
        about = replace(about, base=place, in_place=True)
    return _DECODERS[encoding](as_array(payload), about)


def _about(encoding: Encoding, element: ElementFormat, lengths: Sequence[int], base: Buffer | None) -> _About:
    if not encoding.has_base:
        return _About(element, lengths, np.empty(0, np.uint8))
    if base is None:
        raise UsageError("this encoding needs the bytes of a base")
    near = as_array(base)
    if not encoding.fits(near.size, sum(lengths)):
        raise UsageError(f"a base of {near.size} bytes does not fit a content of {sum(lengths)}")
    return _About(element, lengths, near)


def _check_codes(about: _About, widest: int = 2) -> _About:
    """Refuse chunks that are no codes, before their number of elements is taken for granted."""
    if about.element.width > widest or any(length % about.element.width for length in about.lengths):
        raise CorruptionError("codes are wider than the encoding's, or a chunk does not hold whole ones")
    return about


def _raw(data: Bytes, about: _About) -> bytes:
    if data.size != about.length:
        raise CorruptionError(f"a raw content has {data.size} bytes, not {about.length}")
    return data.tobytes()


def _levels_byte(about: _About) -> bytes:
    if about.levels is None or not 1 <= about.levels <= 256:
        raise UsageError("codes have between 1 and 256 levels")
    return bytes([about.levels - 1])


def _levels_of(data: Bytes) -> int:
    if data.size == 0:
        raise CorruptionError("codes lack their number of levels")
    return int(data[0]) + 1


_ENCODERS: Mapping[Encoding, Callable[[Bytes, _About], Buffer]] = {
    Encoding.RAW: _raw,
    Encoding.ZSTD: lambda data, _: frames.compress(data, OPAQUE_LEVEL),
    Encoding.CODES: lambda data, about: _levels_byte(about) + codes.encode_alone(data, about.levels or 0),
    Encoding.DELTA: lambda data, about: (
        _levels_byte(about) + codes.encode_near(data, about.base, about.levels or 0)
    ),
    Encoding.RANS_CODES: lambda data, about: rans.encode_codes(data, about.element.width, about.counts),
    Encoding.RANS_DELTA: lambda data, about: rans.encode_moves(
        data, about.base, about.element.width, about.counts, about.steps
    ),
    Encoding.RANS_RESIDUAL: lambda data, about: exact.encode_residual(data, about.base, about.element),
    Encoding.RANS_PLANES: lambda data, about: exact.encode_planes_rans(data, about.element),
    Encoding.ZSTD_DELTA: lambda data, about: frames.compress_near(data, about.base, NEAR_LEVEL),
    Encoding.NARROWED: lambda data, about: narrowed.encode_narrowed(data, about.base),
}

_DECODERS: Mapping[Encoding, Callable[[Bytes, _About], Content]] = {
    Encoding.RAW: _raw,
    Encoding.ZSTD: lambda data, about: frames.decompress(data, about.length),
    Encoding.CODES: lambda data, about: codes.decode_alone(
        data[1:], _levels_of(data), _check_codes(about, 1).length
    ).data.toreadonly(),
    Encoding.DELTA: lambda data, about: codes.decode_near(
        data[1:], _check_codes(about, 1).base, _levels_of(data)
    ).data.toreadonly(),
    Encoding.RANS_CODES: lambda data, about: rans.decode_codes(
        data, about.element.width, _check_codes(about).counts
    ).data.toreadonly(),
    Encoding.RANS_DELTA: lambda data, about: rans.decode_moves(
        data, about.base, about.element.width, _check_codes(about).counts, overwrite=about.in_place
    ).data.toreadonly(),
    Encoding.RANS_RESIDUAL: lambda data, about: exact.decode_residual(
        data, about.base, about.element, overwrite=about.in_place
    ),
    Encoding.RANS_PLANES: lambda data, about: exact.decode_planes_rans(data, about.length, about.element),
    Encoding.ZSTD_DELTA: lambda data, about: frames.decompress_near(data, about.base, about.length),
    Encoding.NARROWED: lambda data, about: narrowed.decode_narrowed(data, about.base),
}
