"""Where the memory lies that a file of torch.save asks for, checked before anything is loaded.

Of a file that no state can be made of, the tensors are found here as well, and nothing is loaded.
"""

import io
import zipfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from mvcs.checkpoint.formats.archive import archives_in, content_at
from mvcs.checkpoint.formats.layout import NamedTensor
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.torch_files.pickle_program import AnyPickle, TorchPickle, check_made, tensors_made
from mvcs.checkpoint.torch_files.stand_ins import Items, Made, Storage, odd
from mvcs.errors import FileFormatError
from mvcs.objects import DTYPES, Path

WHAT = "a file of torch.save"
ZIP_MAGIC = b"PK\x03\x04"
Run = tuple[int, int]
"""Where bytes begin in a file, and how many there are."""
Memory = dict[str, tuple[Storage, Run]]
"""Storages and where each lies, by key."""
_MAGIC = 0x1950A86A20F9469CFC6C
_COUNT_BYTES = 8  # in front of each storage of the older form, its number of elements


def memory_of(
    file: StampedFile, members: Sequence[zipfile.ZipInfo], path: Path
) -> tuple[list[zipfile.ZipInfo], list[Run]]:
    """Return the members that hold memory of tensors, each as large as the pickle says, and where all lies.

    Args:
        file: the file.
        members: of the archive it is; none for the older form, whose memory is in no member.
        path: of the file in the commit.

    Raises:
        UnpicklingError: the restricted loader would not load the file, or no torch.save writes such a one.
        FileFormatError: its members do not lie inside it.
        StateError: no commit can hold what is in it.
    """
    with file.open() as opened:
        made, memory, length, found = _followed(TorchPickle, file, opened, members, path)
        check_made(made, path, length)
        return found, [run for _, run in memory.values()]


def tensors_in(file: StampedFile) -> Iterator[NamedTensor]:
    """Yield the tensors of a file, which nothing is loaded from.

    A storage whose tensors lie in it otherwise than row by row, or are of a kind of their own, is a tensor
    itself. Of several archives, as torch.distributed.checkpoint writes them, each name begins with a number.

    Raises:
        UnpicklingError: or what else is raised on bytes that no torch.save wrote.
        FileFormatError: its archives do not lie inside it.
    """
    zipped = bytes(file.read(0, min(file.size, len(ZIP_MAGIC)))) == ZIP_MAGIC
    archives = archives_in(file, WHAT) if zipped else [[]]
    with file.open() as opened:
        for number, members in enumerate(archives):
            named = "" if len(archives) == 1 else f"{number}"
            made, memory, *_ = _followed(AnyPickle, file, opened, members, ())
            for name, dtype, shape, begin in _of(made, memory):
                yield ".".join(filter(None, (named, name))) or "tensor", dtype, shape, begin


def _of(made: Made, memory: Memory) -> Iterator[NamedTensor]:
    left = dict(memory)
    for name, tensor in tensors_made(made):
        dtype = DTYPES.get(tensor.dtype)
        if tensor.memory is not None and dtype is not None and tensor.memory.key in memory:
            left.pop(tensor.memory.key, None)
            yield name, dtype, tensor.shape, memory[tensor.memory.key][1][0] + tensor.offset
    for key, (storage, (start, _)) in left.items():
        yield f"storage {key}", storage.dtype, (storage.elements,), start


def _followed(
    kind: type[TorchPickle],
    file: StampedFile,
    opened: BinaryIO,
    members: Sequence[zipfile.ZipInfo],
    path: Path,
) -> tuple[Made, Memory, int, list[zipfile.ZipInfo]]:
    """Return what a file makes, where its storages lie, the length of its pickle, and their members."""
    if not members:
        return *_older(kind(opened, file.size, path), file, opened), []
    whole = pickle_in(file, opened, members)
    program = kind(io.BytesIO(whole), len(whole), path)
    made = program.follow()
    found = _asked_for(program, members)
    runs = [(content_at(file, WHAT, opened, one), one.file_size) for one in found]
    memory = {one.key: (one, run) for one, run in zip(program.storages.values(), runs, strict=True)}
    return made, memory, len(whole), found


def _asked_for(followed: TorchPickle, members: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    names = {member.filename: member for member in members}
    # The loader ignores case, and takes the one it finds first.
    if len({name.lower() for name in names}) != len(members):
        raise odd("an archive whose members differ in case alone")
    prefix = members[0].filename.partition("/")[0]
    found = []
    for storage in followed.storages.values():
        member = names.get(f"{prefix}/data/{storage.key}")
        # The last bytes of a view as another type may be less than one element.
        if member is None or member.file_size // storage.itemsize != storage.elements:
            raise odd(f"the storage '{storage.key[:200]}'")
        if member.compress_type != zipfile.ZIP_STORED:
            raise odd("a compressed member")
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
            start = content_at(file, WHAT, opened, member)
            if start + member.file_size > file.size:
                raise not_torch(file, "it ends inside a member")
            return bytes(file.part(opened, start, member.file_size))
    raise not_torch(file, f"it has no '{name[:200]}'")


def not_torch(file: StampedFile, what: str) -> FileFormatError:
    """Return the error for a file that no torch.save wrote."""
    return FileFormatError(f"'{file.path}' is not a file of torch.save: {what}")


def _older(program: TorchPickle, file: StampedFile, opened: BinaryIO) -> tuple[Made, Memory, int]:
    """Return what the older form makes, where the memory of its storages lies, and how long its pickle is."""
    if program.follow() != _MAGIC:
        raise odd("its first number")
    program.follow(), program.follow()  # the protocol, and what tells of the machine
    made, storages = program.follow(), program.storages
    end = opened.tell()
    keys = program.follow()
    if not isinstance(keys, Items) or set(map(str, keys.items)) != set(storages):
        raise odd("its list of storages")
    # Memory that is not in the file would hold whatever was there before.
    at, memory = opened.tell(), {}
    for key in map(str, keys.items):
        length = storages[key].elements * storages[key].itemsize
        memory[key] = storages[key], (at + _COUNT_BYTES, length)
        at += _COUNT_BYTES + length
    if at > file.size:
        raise not_torch(file, f"it ends before its {at - opened.tell()} bytes of tensors do")
    return made, memory, end
