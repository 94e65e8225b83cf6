"""The package `blake3`, as far as the second reader calls it, where no wheel of it is built for the machine.

The library that `blake3.cpp` becomes is named in the environment.
"""

import ctypes
import os

_hash = ctypes.CDLL(os.environ["BLAKE3_LIBRARY"]).hash
_hash.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]
_hash.restype = None


class blake3:  # noqa: N801 - called as in the package
    """The hash of all data at once."""

    def __init__(self, data: bytes = b"", *, derive_key_context: str = "") -> None:
        name, content, out = derive_key_context.encode(), bytes(data), ctypes.create_string_buffer(32)
        _hash(name, len(name), content, len(content), out)
        self._digest = out.raw

    def digest(self) -> bytes:
        """Return the 32 bytes."""
        return self._digest

    def hexdigest(self) -> str:
        """Return them in hexadecimal digits."""
        return self._digest.hex()
