"""The smallest encoding for a chunk, found without trying everything on all of it."""

import numpy as np

from mvcs.delta.buffers import Buffer, Bytes, as_array
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, encode

_SLICES = 3
_SLICE_ELEMENTS = 1 << 15
_CODE = ElementFormat(1, floating=False)

Chosen = tuple[Encoding, bytes]


def choose_exact(content: Buffer, element: ElementFormat, base: Buffer | None) -> Chosen:
    """Encode a chunk exactly: RAW, PLANES, or near a base of the same length RESIDUAL; never larger than raw.

    A large chunk is tried on three slices first and then encoded once.
    """
    data = as_array(content)
    near = None if base is None or as_array(base).size != data.size else as_array(base)
    best = Encoding.PLANES if near is None else _best_on_sample(data, near, element)
    return _unless_larger(data, best, encode(best, data, element=element, base=near))


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


def _best_on_sample(data: Bytes, base: Bytes, element: ElementFormat) -> Encoding:
    part, near = _sample(data, element.width), _sample(base, element.width)
    candidates = (Encoding.PLANES, Encoding.RESIDUAL)
    sizes = {encoding: len(encode(encoding, part, element=element, base=near)) for encoding in candidates}
    return min(sizes, key=lambda encoding: (sizes[encoding], encoding))


def _sample(data: Bytes, width: int) -> Bytes:
    """The start, the middle and the end of a large chunk, in whole elements; a small chunk as it is."""
    count = data.size // width
    if count <= _SLICES * _SLICE_ELEMENTS:
        return data
    starts = (0, (count - _SLICE_ELEMENTS) // 2, count - _SLICE_ELEMENTS)
    return np.concatenate([data[start * width : (start + _SLICE_ELEMENTS) * width] for start in starts])
