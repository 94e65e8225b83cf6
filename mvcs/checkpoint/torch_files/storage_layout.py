"""Where the memory lies that a file of torch.save asks for, checked before anything is loaded."""

import io
import zipfile
from collections.abc import Sequence
from typing import BinaryIO

from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.torch_files.pickle_program import TorchPickle, check_made
from mvcs.checkpoint.torch_files.stand_ins import Items, odd
from mvcs.errors import FileFormatError
from mvcs.objects import Path

_MAGIC = 0x1950A86A20F9469CFC6C
_COUNT_BYTES = 8  # in front of each storage of the older form, its number of elements
_LOCAL_HEADER, _LENGTHS = 30, 26  # bytes of a member's own header, and where the lengths of two names are


def memory_of(file: StampedFile, members: Sequence[zipfile.ZipInfo], path: Path) -> list[zipfile.ZipInfo]:
    """Return the members that hold the memory of tensors, each as large as the pickle says.

    Args:
        file: the file.
        members: of the archive it is; none for the older form.
        path: of the file in the commit.

    Raises:
        UnpicklingError: the restricted loader would not load the file, or no torch.save writes such a one.
        FileFormatError: its members do not lie inside it.
        StateError: no commit can hold what is in it.
    """
    with file.open() as opened:
        if members:
            return _members_asked_for(file, opened, members, path)
        _check_older(file, opened, path)
        return []


def _members_asked_for(
    file: StampedFile, opened: BinaryIO, members: Sequence[zipfile.ZipInfo], path: Path
) -> list[zipfile.ZipInfo]:
    names = {member.filename: member for member in members}
    # The loader ignores case, and takes the one it finds first.
    if len({name.lower() for name in names}) != len(members):
        raise odd("an archive whose members differ in case alone")
    prefix = members[0].filename.partition("/")[0]
    whole = pickle_in(file, opened, members)
    followed = TorchPickle(io.BytesIO(whole), len(whole), path)
    check_made(followed.follow(), path, len(whole))
    found = []
    for storage in followed.storages.values():
        member = names.get(f"{prefix}/data/{storage.key}")
        # The last bytes of a view as another type may be less than one element.
        if member is None or member.file_size // storage.itemsize != storage.elements:
            raise odd(f"the storage '{storage.key[:200]}'")
        found.append(member)
    return found


def pickle_in(file: StampedFile, opened: BinaryIO, members: Sequence[zipfile.ZipInfo]) -> bytes:
    """Return the pickle of an archive.

    Raises:
        FileFormatError: there is none in it.
    """
    name = members[0].filename.partition("/")[0] + "/data.pkl"
    for member in members:
        if member.filename == name:
            start = content_at(file, opened, member)
            if start + member.file_size > file.size:
                raise not_torch(file, "it ends inside a member")
            return bytes(file.part(opened, start, member.file_size))
    raise not_torch(file, f"it has no '{name[:200]}'")


def content_at(file: StampedFile, opened: BinaryIO, member: zipfile.ZipInfo) -> int:
    """Return where the content of a stored member begins.

    Raises:
        FileFormatError: the file ends before.
    """
    if member.header_offset + _LOCAL_HEADER > file.size:
        raise not_torch(file, "it ends inside a member")
    header = file.part(opened, member.header_offset, _LOCAL_HEADER)
    lengths = (int.from_bytes(header[at : at + 2], "little") for at in (_LENGTHS, _LENGTHS + 2))
    return member.header_offset + _LOCAL_HEADER + sum(lengths)


def not_torch(file: StampedFile, what: str) -> FileFormatError:
    """Return the error for a file that no torch.save wrote."""
    return FileFormatError(f"'{file.path}' is not a file of torch.save: {what}")


def _check_older(file: StampedFile, opened: BinaryIO, path: Path) -> None:
    followed = TorchPickle(opened, file.size, path)
    if followed.follow() != _MAGIC:
        raise odd("its first number")
    followed.follow(), followed.follow()  # the protocol, and what tells of the machine
    made = followed.follow()
    check_made(made, path, opened.tell())
    keys = followed.follow()
    if not isinstance(keys, Items) or set(map(str, keys.items)) != set(followed.storages):
        raise odd("its list of storages")
    # Memory that is not in the file would hold whatever was there before.
    needed = sum(_COUNT_BYTES + found.elements * found.itemsize for found in followed.storages.values())
    if needed > file.size - opened.tell():
        raise not_torch(file, f"it ends before its {needed} bytes of tensors do")
