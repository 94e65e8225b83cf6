"""Exact near a base: neighbouring numbers get neighbouring integers, and only the differences are stored."""

from mvcs.delta.buffers import Bytes
from mvcs.delta.element import ElementFormat
from mvcs.delta.planes import Words, as_words, constant, little_endian, pack, unpack


def encode_residual(content: Bytes, base: Bytes, element: ElementFormat) -> bytes:
    """Encode a chunk near a base of the same length as planes of zigzag differences."""
    difference = _ordered(as_words(content, element), element) - _ordered(as_words(base, element), element)
    return pack(_zigzag(difference))


def decode_residual(payload: Bytes, base: Bytes, element: ElementFormat) -> bytes:
    """Decode what `encode_residual` returned for the same base.

    Raises:
        CorruptionError: the payload is not the planes of as many bytes as the base has.
    """
    difference = _unzigzag(unpack(payload, base.size, element.lane))
    words = _unordered(_ordered(as_words(base, element), element) + difference, element)
    return little_endian(words).tobytes()


def _top(words: Words) -> Words:
    return constant(1 << (8 * words.itemsize - 1), words)


def _sign(words: Words) -> Words:
    return words >> constant(8 * words.itemsize - 1, words)


def _ordered(words: Words, element: ElementFormat) -> Words:
    """Number floats in ascending order: negative ones have all bits flipped, the others the sign bit."""
    if not element.floating:
        return words
    return words ^ (-_sign(words) | _top(words))


def _unordered(words: Words, element: ElementFormat) -> Words:
    if not element.floating:
        return words
    return words ^ ((_sign(words) - constant(1, words)) | _top(words))


def _zigzag(words: Words) -> Words:
    """Small differences of either sign become small numbers: 0, -1, 1, -2 are 0, 1, 2, 3."""
    return words << constant(1, words) ^ -_sign(words)


def _unzigzag(words: Words) -> Words:
    one = constant(1, words)
    return words >> one ^ -(words & one)
