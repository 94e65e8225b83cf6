"""The quantizer of groups, a numpy expression a line (docs/format/channels.md)."""

import numpy as np

LEAST, LARGEST = 0x0D80, 0x7F7F  # 2^-100 and the largest, as bfloat16


def quantize(values, bits, seed=None):
    """Return scales [groups] and codes [groups, width] of finite values, with a seed at random."""
    scales = rounded_up(np.abs(values).max(axis=1, initial=0))
    if bits == 1:
        scales = mean_scales(values, scales)
        return scales, np.where((values < 0) & (scales > 0)[:, np.newaxis], np.int16(-1), np.int16(0))
    ratios = divided(values, steps(scales, bits))
    rounded = np.rint(ratios) if seed is None else np.floor(ratios + uniform(values.shape, seed))
    half = 1 << (bits - 1)
    return scales, np.where(scales[:, np.newaxis] > 0, np.clip(rounded, -half, half - 1), 0).astype(np.int16)


def restore(scales, codes, bits):
    """Return codes times their group's step, exactly; a sign is plus or minus the scale."""
    factors = 2 * codes + 1 if bits == 1 else codes
    return factors.astype(np.float32) * steps(scales, bits)


def rounded_up(magnitudes):
    """Return magnitudes as bfloat16 that are not less, or the largest; 0 below 2^-100."""
    upper = np.minimum((magnitudes.view(np.uint32) + np.uint32(0xFFFF)) >> 16, LARGEST)
    return np.where(upper < LEAST, 0, upper).astype(np.uint16)


def steps(scales, bits):
    """Return what a code of 1 stands for in each group, float32 [groups, 1]."""
    wide = (scales.astype(np.uint32) << 16).view(np.float32)
    return (wide * np.float32(2.0 ** (1 - bits)))[:, np.newaxis]


def divided(values, by):
    """Return quotients, and 0 where a group has no scale."""
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0)


def mean_scales(values, scales):
    """Return the mean magnitudes, each taken to 2^-15 of the largest."""
    unit = steps(scales, 16)
    sums = np.rint(divided(np.abs(values), unit)).astype(np.int64).sum(axis=1)
    means = unit[:, 0].astype(np.float64) * sums / max(values.shape[1], 1)
    return rounded_up(means.astype(np.float32))


def uniform(shape, seed):
    """Return numbers from 0 to below 1 in steps of 2^-24: a hash of their place and the seed."""
    places = np.arange(shape[0] * shape[1], dtype=np.uint32).reshape(shape)
    hashed = mixed(places ^ mixed(np.array([seed], np.uint32)))
    return (hashed >> 8).astype(np.float32) * np.float32(2.0**-24)


def mixed(numbers):
    """Return a permutation of 32-bit numbers in which every bit depends on every bit."""
    numbers = (numbers ^ (numbers >> np.uint32(16))) * np.uint32(0x7FEB352D)
    numbers = (numbers ^ (numbers >> np.uint32(15))) * np.uint32(0x846CA68B)
    return numbers ^ (numbers >> np.uint32(16))


def pack(codes, bits):
    """Return the codes of each group one after another in so many bits, low ones first: [groups, bytes]."""
    groups, width = codes.shape
    each = np.unpackbits(codes.astype("<i2").view(np.uint8).reshape(-1, 2), axis=1, bitorder="little")
    return np.packbits(each[:, :bits].reshape(groups, width * bits), axis=1, bitorder="little")


def largest(values, sent):
    """Mark the largest magnitudes of each group; of equal ones the first."""
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :sent]
    marks = np.zeros(values.shape, np.bool_)
    np.put_along_axis(marks, order, values=True, axis=1)
    return marks
