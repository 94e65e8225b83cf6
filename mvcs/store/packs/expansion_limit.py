"""How much larger than its stored bytes a description may be.

Reading canonical CBOR takes some sixty times its size in memory, so a few stored bytes must not stand for
millions of them. Tensors may compress as far as they like: their content is never parsed.
"""

from mvcs.delta import Chosen, Encoding, choose_opaque

FREE_BYTES = 1 << 16
FREE_FOOTER_BYTES = 1 << 18  # the copies of 20 commits are much alike
LARGE_BYTES = 1 << 20  # from here on ids, which do not compress, are most of what is real
RATIO, LARGE_RATIO = 16, 4


def is_plausible(length: int, stored: int, free: int = FREE_BYTES) -> bool:
    """Tell whether a reader takes a description of `length` bytes from so many stored ones, with bases."""
    ratio = RATIO if length <= LARGE_BYTES else LARGE_RATIO
    return length <= max(free, ratio * stored)


def choose_described(content: bytes, free: int = FREE_BYTES) -> Chosen:
    """Encode a description as `choose_opaque` does, or RAW where a reader would not believe the result."""
    encoding, payload = choose_opaque(content)
    return (encoding, payload) if is_plausible(len(content), len(payload), free) else (Encoding.RAW, content)
