"""Zip archives that checkpoints come in, checked before a library reads them."""

import pathlib
import struct
import zipfile
import zlib

from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.errors import FileFormatError

# The most that deflate can shrink is 1032 to 1; a file that claims more is a bomb, not a checkpoint.
MAX_RATIO = 1100

_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    struct.error,
    zlib.error,
    EOFError,
    ValueError,
    OverflowError,
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


def check_archive(file: StampedFile, what: str) -> list[zipfile.ZipInfo]:
    """Check that an archive's members lie apart, inside the file, and cannot explode.

    Args:
        file: the archive.
        what: what it should be, with its article, for the message.

    Returns:
        The members, in order; each is stored or deflated.

    Raises:
        FileFormatError: it is damaged or built to do harm.
    """
    path = file.path
    require_content(file, what)
    try:
        with file.open() as opened, zipfile.ZipFile(opened) as archive:
            members = archive.infolist()
    except (*_DAMAGE, NotImplementedError) as error:
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
