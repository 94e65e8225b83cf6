"""Which file formats mvcs reads, by suffix."""

import pathlib

from mvcs.errors import UsageError
from mvcs.objects.tree import FileFormat

MAX_NAME = 60_000
SUFFIXES = {
    ".safetensors": FileFormat.SAFETENSORS,
    ".pt": FileFormat.TORCH,
    ".pth": FileFormat.TORCH,
    ".npz": FileFormat.NPZ,
}


def format_of(path: pathlib.PurePath) -> FileFormat | None:
    """Return the format a file's suffix claims, None for any other suffix."""
    return SUFFIXES.get(path.suffix.lower())


def check_tensor_name(name: str, fmt: FileFormat) -> None:
    """Refuse a tensor's name that a new file cannot hold.

    Raises:
        UsageError: it is not UTF-8, holds a NUL, or is longer than 60,000 bytes.
    """
    if not can_name(name):
        raise UsageError(f"'{fmt}' cannot hold a tensor named {name[:200]!r}")


def can_name(name: str) -> bool:
    """Tell whether a new file can hold a tensor of this name."""
    try:
        encoded = name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return b"\0" not in encoded and len(encoded) <= MAX_NAME
