"""Zip archives that checkpoints come in, checked before a library reads them."""

import io
import os
import pathlib
import struct
import zipfile
import zlib
from typing import IO, BinaryIO, cast

from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.errors import FileFormatError

# The most that deflate can shrink is 1032 to 1; a file that claims more is a bomb, not a checkpoint.
MAX_RATIO = 1100

_LOCAL_HEADER, _LENGTHS = 30, 26  # bytes of a member's own header, and where the lengths of two names are
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    struct.error,
    zlib.error,
    EOFError,
    ValueError,
    OverflowError,
    NotImplementedError,
)


def damage(path: pathlib.Path, what: str, error: BaseException) -> FileFormatError:
    """Return the error for an archive that cannot be read as `what`."""
    detail = str(error).strip().split("\n")[0][:200] or type(error).__name__
    if detail == "File is not a zip file":
        detail = "the list of members at its end is missing, as where a file is cut short"
    return FileFormatError(f"'{path}' is not {what}: {detail}")


def require_content(file: StampedFile, what: str) -> None:
    """Refuse a file without a byte.

    Raises:
        FileFormatError: it has none.
    """
    if not file.size:
        raise FileFormatError(f"'{file.path}' is not {what}: it is empty")


def check_archive(file: StampedFile, what: str, end: int | None = None) -> list[zipfile.ZipInfo]:
    """Check that an archive's members lie apart, inside the file, and cannot explode.

    Args:
        file: the archive, or a file with one in it.
        what: what it should be, with its article, for the message.
        end: where the archive ends; None for the end of the file.

    Returns:
        The members, in order; each is stored or deflated.

    Raises:
        FileFormatError: it is damaged or built to do harm.
    """
    path = file.path
    require_content(file, what)
    try:
        with file.open() as opened:
            front = opened if end is None else _Front(opened, end)
            with zipfile.ZipFile(cast("IO[bytes]", front)) as archive:
                members = archive.infolist()
    except DAMAGE as error:
        raise damage(path, what, error) from error
    for member in members:
        if member.compress_type not in _METHODS or member.flag_bits & 1:
            raise FileFormatError(
                f"'{path}' is not {what}: '{member.filename}' is compressed or encrypted oddly"
            )
        if member.file_size > MAX_RATIO * max(member.compress_size, 1):
            raise FileFormatError(f"'{path}' is not {what}: '{member.filename}' would grow beyond belief")
    _check_layout(file, what, members)
    return members


def _check_layout(file: StampedFile, what: str, members: list[zipfile.ZipInfo]) -> None:
    path = file.path
    names = {member.filename for member in members}
    if len(names) != len(members):
        raise FileFormatError(f"'{path}' is not {what}: it holds two members of one name")
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise FileFormatError(f"'{path}' is not {what}: '{member.filename}' overlaps another member")
        end = member.header_offset + member.compress_size
    if end > file.size:
        raise FileFormatError(f"'{path}' is not {what}: it ends before its members do")


def content_at(file: StampedFile, what: str, opened: BinaryIO, member: zipfile.ZipInfo) -> int:
    """Return where the content of a member begins.

    Raises:
        FileFormatError: the file ends before the content does.
    """
    ends = FileFormatError(f"'{file.path}' is not {what}: it ends inside a member")
    if member.header_offset + _LOCAL_HEADER > file.size:
        raise ends
    header = bytes(file.part(opened, member.header_offset, _LOCAL_HEADER))
    names: tuple[int, int] = struct.unpack("<HH", header[_LENGTHS:])
    start = member.header_offset + _LOCAL_HEADER + sum(names)
    if start + member.compress_size > file.size:
        raise ends
    return start


def archives_in(file: StampedFile, what: str) -> list[list[zipfile.ZipInfo]]:
    """Return the members of each archive of a file that is nothing but archives, one behind the other.

    Raises:
        FileFormatError: it is damaged or built to do harm, or has something else in it.
    """
    found: list[list[zipfile.ZipInfo]] = []
    end = file.size
    while end:
        members = check_archive(file, what, end)
        begin = min((member.header_offset for member in members), default=end)
        if begin == end:
            raise FileFormatError(f"'{file.path}' is not {what}: it holds more than archives")
        found.insert(0, members)
        end = begin
    return found


class _Front(io.RawIOBase):
    """The first bytes of an open file, as a file."""

    def __init__(self, opened: BinaryIO, size: int) -> None:
        self._file, self._size, self._at = opened.fileno(), size, 0

    def seekable(self) -> bool:
        """Tell that it is."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go somewhere."""
        at = (0, self._at, self._size)[whence] + offset
        if at < 0:
            raise ValueError("in front of the file")
        self._at = at
        return at

    def read(self, count: int = -1) -> bytes:
        """Return bytes from here, fewer at the end."""
        left = max(self._size - self._at, 0)
        data = os.pread(self._file, left if count < 0 else min(count, left), self._at)
        self._at += len(data)
        return data
