"""Any contiguous buffer as an array of bytes, without a copy."""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Buffer = bytes | bytearray | memoryview | Bytes


def as_array(buffer: Buffer) -> Bytes:
    """Return a view of the buffer's bytes."""
    return np.frombuffer(buffer, np.uint8)
