"""Computed sizes: what an adaptive arithmetic coder would write, its learning included, without writing it.

A coder that predicts each symbol from those before it, with a Dirichlet prior, has a size that depends on
the counts alone (Krichevsky and Trofimov's estimator with 0.1 for 1/2). Encodings are measured against it.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from mvcs.delta import Bytes
from mvcs.objects import DType

PRIOR = 0.1

Counts = NDArray[np.int64]
Integers = NDArray[np.int64]

_FRACTION = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
_LARGEST_MOVE, _MOVE_BITS = 16, 12
_LARGEST_CODE, _CODE_BITS = 127, 16
_BUCKETS = 7


def adaptive_bits(counts: Counts) -> float:
    """Return the bits of symbols that are coded adaptively, one table a context.

    Args:
        counts: int64 [contexts, alphabet], how often each symbol occurs in each context.
    """
    used = torch.from_numpy(counts[counts.sum(1) > 0].astype(np.float64))
    alphabet = float(counts.shape[1])
    tables = torch.lgamma(used.sum(1) + alphabet * PRIOR) - torch.lgamma(
        torch.tensor(alphabet * PRIOR).double()
    )
    symbols = torch.lgamma(used + PRIOR) - torch.lgamma(torch.tensor(PRIOR).double())
    return float((tables.sum() - symbols.sum()) / np.log(2))


def joint(contexts: Integers, symbols: Integers, shape: tuple[int, int]) -> Counts:
    """Return how often each symbol occurs in each context, as int64 of `shape`."""
    flat = np.bincount(contexts * shape[1] + symbols, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.int64)


def codes_bits(codes: Sequence[Bytes], base: Sequence[Bytes] | None, width: int, levels: int) -> float:
    """Return the bits of codes, per tensor, and where there is a base per bucket of its codes.

    Args:
        codes: of each tensor.
        base: the codes of each tensor before, or None.
        width: 1 for codes of a table, 2 for those of a lattice.
        levels: for codes of a table: more than every code.
    """
    return _table_bits(codes, base, levels) if width == 1 else _lattice_bits(codes, base)


def _table_bits(codes: Sequence[Bytes], base: Sequence[Bytes] | None, levels: int) -> float:
    total = 0.0
    for index, own in enumerate(codes):
        contexts = np.zeros(own.size, np.int64) if base is None else base[index].astype(np.int64)
        total += adaptive_bits(joint(contexts, own.astype(np.int64), (levels, levels)))
    return total


def _lattice_bits(codes: Sequence[Bytes], base: Sequence[Bytes] | None) -> float:
    """Count two-byte codes: buckets by the base code's magnitude up to 6, symbols by the move away from zero.

    Moves are cut off at 16 and codes alone at 127, with 12 and 16 bits for what lies beyond.
    """
    total = 0.0
    for index, own in enumerate(codes):
        values = own.view("<i2").astype(np.int64)
        if base is None:
            total += _counted(np.zeros(values.size, np.int64), values, (1, _LARGEST_CODE), _CODE_BITS)
            continue
        old = base[index].view("<i2").astype(np.int64)
        moves = (values - old) * np.where(old < 0, -1, 1)
        buckets = np.minimum(np.abs(old), _BUCKETS - 1)
        total += _counted(buckets, moves, (_BUCKETS, _LARGEST_MOVE), _MOVE_BITS)
    return total


def _counted(buckets: Integers, values: Integers, sizes: tuple[int, int], escape_bits: int) -> float:
    """Count values cut off at a largest magnitude, and `escape_bits` for each that was."""
    number, largest = sizes
    symbols = np.clip(values, -largest, largest) + largest
    escaped = int((np.abs(values) >= largest).sum())
    return adaptive_bits(joint(buckets, symbols, (number, 2 * largest + 1))) + escape_bits * escaped


def exact_bits(contents: Sequence[Bytes], bases: Sequence[Bytes], dtype: DType) -> float:
    """Return the bits of floats near a base of the same type: the order-preserving integer difference.

    Sign and bit length are coded in the context of the base's exponent, with tables of their own for every
    tensor where that is smaller, the next two bits in that of length and exponent; the rest is stored.
    """
    width, fraction = dtype.itemsize, _FRACTION[dtype.name]
    exponents = 1 << (8 * width - 1 - fraction)
    classes = 2 * (8 * width + 1)
    shared, next_bits = np.zeros((exponents, classes), np.int64), np.zeros((65 * exponents, 4), np.int64)
    own, stored = 0.0, 0
    for content, base in zip(contents, bases, strict=True):
        new, old = content.view(f"<u{width}"), base.view(f"<u{width}")
        context = (old >> old.dtype.type(fraction) & old.dtype.type(exponents - 1)).astype(np.int64)
        length, negative, following = _difference(new, old)
        counts = joint(context, np.where(length > 0, 2 * length + negative, 0), (exponents, classes))
        shared += counts
        own += adaptive_bits(counts)
        next_bits += joint(length * exponents + context, following, next_bits.shape)
        stored += int(np.maximum(length - 1 - 2 * (length >= 3), 0).sum())
    return min(adaptive_bits(shared), own) + adaptive_bits(next_bits) + stored


def _difference(
    new: NDArray[np.unsignedinteger], old: NDArray[np.unsignedinteger]
) -> tuple[Integers, NDArray[np.bool_], Integers]:
    """Return bit length, sign and the two bits after the leading one of new - old in the order of floats."""
    left, right = _ordered(new), _ordered(old)
    negative = left < right
    distance = np.where(negative, right - left, left - right).astype(np.uint64)
    length = _bit_length(distance)
    following = (distance >> np.maximum(length - 3, 0).astype(np.uint64)) & np.uint64(3)
    return length, negative, np.where(length >= 3, following, 0).astype(np.int64)


def _ordered(words: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    top = words.dtype.type(1 << (8 * words.itemsize - 1))
    return np.where(words & top, ~words, words | top)


def _bit_length(numbers: NDArray[np.uint64]) -> Integers:
    length = np.zeros(numbers.shape, np.int64)
    rest = numbers.copy()
    for step in (32, 16, 8, 4, 2, 1):
        large = rest >= np.uint64(1 << step)
        length[large] += step
        rest[large] >>= np.uint64(step)
    return length + (numbers > 0)
