"""The smallest encoding for a chunk, found without trying everything on all of it."""

import numpy as np

from mvcs.delta import exact, frames
from mvcs.delta.buffers import Buffer, Bytes, as_array
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, encode

_SLICES = 3
_SLICE_ELEMENTS = 1 << 15
_CODE = ElementFormat(1, floating=False)

Chosen = tuple[Encoding, bytes]


def choose_exact(content: Buffer, element: ElementFormat, base: Buffer | None) -> Chosen:
    """Encode chunks exactly: as planes, or near a base of the same length; never larger than raw.

    A large content is tried on slices first and then encoded once.
    """
    data = as_array(content)
    best, size = _best_planes(data, element)
    near = None if base is None or as_array(base).size != data.size else as_array(base)
    if near is not None and exact.estimate_residual(data, near, element) < size:
        best = Encoding.RANS_RESIDUAL
    payload = encode(best, data, element=element, base=near)
    return _unless_larger(data, best, payload)


def _best_planes(data: Bytes, element: ElementFormat) -> tuple[Encoding, int]:
    """Return the encoding for a chunk alone and about its size: long repeats are what zstd is for."""
    size = exact.estimate_planes(data, element)
    part = _sample(data, element.width)
    if len(frames.compress(part, 1)) * data.size < size * part.size:
        planes = len(encode(Encoding.PLANES, part, element=element)) * data.size // max(part.size, 1)
        if planes < size:
            return Encoding.PLANES, planes
    return Encoding.RANS_PLANES, size


def choose_codes(codes: Buffer, levels: int, base: Buffer | None, *, width: int = 1) -> Chosen:
    """Encode codes: CODES, near base codes of the same count DELTA, or RAW; whichever is smallest.

    Args:
        codes: the codes of one chunk or of several; those of one byte each below `levels`.
        levels: for codes of one byte: their number of levels, 1 to 256.
        base: the base chunks' codes, or None.
        width: bytes of a code.
    """
    data = as_array(codes)
    if width > 1:
        return choose_exact(codes, ElementFormat(width, floating=False), base)
    alone = encode(Encoding.CODES, data, element=_CODE, levels=levels)
    best = _unless_larger(data, Encoding.CODES, alone)
    if base is None or as_array(base).size != data.size:
        return best
    most = max(levels, int(as_array(base).max(initial=0)) + 1)
    near = encode(Encoding.DELTA, data, element=_CODE, base=base, levels=most)
    return (Encoding.DELTA, near) if len(near) < len(best[1]) else best


def choose_opaque(content: Buffer) -> Chosen:
    """Encode a structured object or a piece of a blob: ZSTD, or RAW where that gains nothing."""
    data = as_array(content)
    return _unless_larger(data, Encoding.ZSTD, encode(Encoding.ZSTD, data, element=_CODE))


def _unless_larger(data: Bytes, encoding: Encoding, payload: bytes) -> Chosen:
    return (encoding, payload) if len(payload) < data.size else (Encoding.RAW, data.tobytes())


def _sample(data: Bytes, width: int) -> Bytes:
    """The start, the middle and the end of a large chunk, in whole elements; a small chunk as it is."""
    count = data.size // width
    if count <= _SLICES * _SLICE_ELEMENTS:
        return data
    starts = (0, (count - _SLICE_ELEMENTS) // 2, count - _SLICE_ELEMENTS)
    return np.concatenate([data[start * width : (start + _SLICE_ELEMENTS) * width] for start in starts])
