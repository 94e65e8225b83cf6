"""Any contiguous buffer as an array of bytes, without a copy."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

import mvcs_native

Bytes = NDArray[np.uint8]
IDLE_BYTES = 96 << 20
"""What kernels keep of memory that no array uses any more, at most."""
Buffer = bytes | bytearray | memoryview | Bytes
Content = bytes | memoryview
"""What is decoded; nobody writes to it."""


def as_array(buffer: Buffer) -> Bytes:
    """Return a view of the buffer's bytes."""
    return np.frombuffer(buffer, np.uint8)


def writable(buffer: Buffer) -> Bytes | None:
    """Return the array of bytes that a decoder made a content in, to be overwritten; None of any other."""
    made: object = buffer.obj if isinstance(buffer, memoryview) else None
    if not isinstance(made, np.ndarray) or made.dtype != np.uint8 or made.nbytes != len(buffer):
        return None
    return made if made.flags.writeable else None


def bytes_of(buffer: Buffer) -> int:
    """Return how many bytes a buffer has."""
    return len(buffer) if isinstance(buffer, bytes | bytearray) else buffer.nbytes


def joined_bytes(parts: Iterable[Buffer]) -> Buffer:
    """Return the bytes of all parts in order; a single part as it is."""
    found = list(parts)
    return (
        found[0]
        if len(found) == 1
        else b"".join(
            [part if isinstance(part, bytes | memoryview) else as_array(part).data for part in found]
        )
    )


def release_idle() -> None:
    """Give memory that no array uses any more back to the system."""
    mvcs_native.release_buffers()
