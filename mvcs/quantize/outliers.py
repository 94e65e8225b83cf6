"""Elements that no code stands for: their positions and exact bytes, beside 16-bit codes that mark them."""

import math

import numpy as np
from numpy.typing import NDArray

from mvcs.errors import CorruptionError
from mvcs.quantize.float_values import Bytes, Floats, elements_of

Codes = NDArray[np.int16]
Positions = NDArray[np.uint32]
Buffer = bytes | bytearray | memoryview | Bytes

EXCEPTION = -32768
_NO_POSITIONS = np.zeros(0, np.uint32)
# Magnitudes beyond which a finite float32 becomes infinite in another type, and zero.
_RANGES = {
    "float16": (65504.0, 2.0**-24),
    "bfloat16": (255 * 2.0**120, 2.0**-149),
    "float64": (math.inf, 2.0**-149),
}


def split(raw: Buffer, width: int) -> tuple[Positions, bytes]:
    """Cut a chunk of exceptions into positions and the exact elements, of `width` bytes each.

    Raises:
        CorruptionError: it is not whole exceptions.
    """
    if not len(raw):
        return _NO_POSITIONS, b""
    content = bytes(raw)
    marked, rest = divmod(len(content), 4 + width)
    if rest:
        raise CorruptionError("the exceptions of a chunk of a quantized tensor have an impossible length")
    return np.frombuffer(content, "<u4", marked), content[4 * marked :]


def joined(codes: Codes, elements: Buffer, width: int) -> bytes:
    """Return the chunk of exceptions of codes made from these elements; nothing where no code is -32768."""
    if codes.min(initial=0) != EXCEPTION:
        return b""
    positions = np.flatnonzero(codes == EXCEPTION).astype("<u4")
    exact: NDArray[np.uint8] = np.frombuffer(elements, np.uint8).reshape(-1, width)[positions]
    return positions.tobytes() + exact.tobytes()


def held(codes: Codes, restored: Floats, elements: Buffer, dtype: str, *, nonzero: bool = False) -> Codes:
    """Return the codes, with an exception wherever the tensor's own type cannot hold what they restore.

    Rounded to 16 bits, a finite value may become infinite, or a small one zero; and float64 has small numbers
    that are zero in float32.

    Args:
        codes: int16 [n].
        restored: float32 [n], what they restore.
        elements: the exact elements.
        dtype: their type.
        nonzero: whether only zeros may be restored as zeros.
    """
    if dtype not in _RANGES or not codes.size:
        return codes
    largest, smallest = _RANGES[dtype]
    magnitudes = np.abs(restored)
    lost = magnitudes > largest
    if nonzero:
        width = len(elements) // codes.size
        patterns = np.frombuffer(elements, f"<u{width}") << np.array(1, f"<u{width}")
        lost |= (magnitudes < smallest) & (patterns != 0)
    return np.where(lost, np.int16(EXCEPTION), codes) if lost.any() else codes


def with_exceptions(values: Floats, codes: Codes, dtype: str, positions: Positions, exact: bytes) -> Bytes:
    """Return values as elements of the restored type, and the exact ones at their positions.

    Args:
        values: float32 [n]; of a float32 tensor the same memory is returned.
        codes: int16 [n].
        dtype: the restored type.
        positions: of the exceptions.
        exact: their elements.

    Raises:
        CorruptionError: the positions are not those of the codes -32768.
    """
    if not positions.size and np.minimum.reduce(codes, initial=0) != EXCEPTION:
        return elements_of(values, dtype)
    marked = np.flatnonzero(codes == EXCEPTION)
    if not np.array_equal(marked, positions):
        raise CorruptionError("the exceptions of a chunk do not agree with its codes")
    restored = elements_of(values, dtype)
    if marked.size:
        elements = restored.view(f"<u{restored.size // values.size}")
        elements[marked] = np.frombuffer(exact, elements.dtype)
    return restored
