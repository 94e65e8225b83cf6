"""Which file formats mvcs reads: by suffix, and what torch.save wrote by its content."""

import pathlib

from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.errors import UsageError
from mvcs.objects import FileEntry, FileFormat

MAX_NAME = 60_000
SUFFIXES = {
    ".safetensors": FileFormat.SAFETENSORS,
    ".pt": FileFormat.TORCH,
    ".pth": FileFormat.TORCH,
    ".npz": FileFormat.NPZ,
}
TORCH_SUFFIXES = (".ckpt", ".bin")  # what torch.save wrote is called like this as well, and much else is
_HEAD_BYTES = 512
_ZIP_MAGIC, _NAME_LENGTH, _NAME = b"PK\x03\x04", 26, 30
_FIRST_MEMBER = b"/data.pkl"
_OLD_MAGIC = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."


def format_of(path: pathlib.PurePath) -> FileFormat | None:
    """Return the format a file's suffix claims, None for any other suffix."""
    return SUFFIXES.get(path.suffix.lower())


def format_in(file: StampedFile) -> FileFormat | None:
    """Return the format that a file's suffix claims, or else torch's where its content begins like that.

    Raises:
        ConflictError: the file changed since it was looked at.
        StorageError: it cannot be read.
    """
    return format_of(file.path) or (FileFormat.TORCH if _is_torch(file) else None)


def _is_torch(file: StampedFile) -> bool:
    head = bytes(file.read(0, min(file.size, _HEAD_BYTES)))
    if head.startswith(_ZIP_MAGIC):
        length = int.from_bytes(head[_NAME_LENGTH : _NAME_LENGTH + 2], "little")
        return head[_NAME : _NAME + length].endswith(_FIRST_MEMBER)
    return head.startswith(_OLD_MAGIC)


def format_as_it_is(entry: FileEntry) -> FileFormat | None:
    """Return the format that a committed file has when it is written as it was, as its suffix says."""
    bytewise = entry.format in (FileFormat.BINARY, FileFormat.OPAQUE)
    return format_of(pathlib.PurePosixPath(entry.path)) if bytewise else entry.format


def is_called_file(path: pathlib.PurePath) -> bool:
    """Tell whether something is called as files of tensors are, or may be."""
    return path.suffix.lower() in (*SUFFIXES, *TORCH_SUFFIXES)


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
