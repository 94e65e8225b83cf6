"""The sketch, one value at a time."""

import struct


def sketch(values, counts, low, high):
    """Count each float32 in the bucket of its upper 16 bits and keep the bucket's extreme patterns."""
    for value in values:
        (pattern,) = struct.unpack("<I", value.tobytes())
        bucket = pattern >> 16
        counts[bucket] += 1
        low[bucket] = min(low[bucket], pattern)
        high[bucket] = max(high[bucket], pattern)
