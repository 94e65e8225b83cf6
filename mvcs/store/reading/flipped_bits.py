"""One bit that flipped, found by trying all: a checksum of 16 bytes proves which one it was."""

from collections.abc import Callable

MOST_BYTES = 1 << 33  # that are hashed for one search, some seconds: 32 KiB, each bit of them turned


def turned_back(
    data: bytes, is_good: Callable[[bytes], bool], start: int = 0, most: int = MOST_BYTES
) -> bytes | None:
    """Return `data` with the one bit turned back without which it is not good; None where there is none such.

    Args:
        data: what is damaged.
        is_good: compares all of it with a checksum, or a hash.
        start: the first byte that may be wrong.
        most: bytes that may be hashed for that.
    """
    if 8 * (len(data) - start) * len(data) > most:
        return None
    tried = bytearray(data)
    for place in range(start, len(data)):
        for bit in range(8):
            tried[place] ^= 1 << bit
            if is_good(bytes(tried)):
                return bytes(tried)
            tried[place] ^= 1 << bit
    return None
