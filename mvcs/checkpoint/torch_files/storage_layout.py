"""Where the memory of tensors lies in a file of torch.save, checked before any of it is read.

Of a file that no state can be made of, the tensors are found here as well.
"""

import io
import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from mvcs.checkpoint.formats.archive import archives_in, content_at
from mvcs.checkpoint.formats.layout import NamedTensor
from mvcs.checkpoint.state.arrays import numpy_dtype
from mvcs.checkpoint.state.captured import Memory, Source
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.torch_files.pickle_program import AnyPickle, TorchPickle, check_made, tensors_made
from mvcs.checkpoint.torch_files.stand_ins import Items, Made, Storage, Tensor, odd
from mvcs.errors import FileFormatError
from mvcs.objects import DTYPES, DType, Path

WHAT = "a file of torch.save"
ZIP_MAGIC = b"PK\x03\x04"
Run = tuple[int, int]
"""Where bytes begin in a file, and how many there are."""
Storages = dict[str, tuple[Storage, Run]]
"""Storages and where each lies, by key."""
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_COUNT_BYTES = 8  # in front of each storage of the older form, its number of elements


def state_in(
    file: StampedFile, members: Sequence[zipfile.ZipInfo], path: Path
) -> tuple[Made, Storages, bool]:
    """Return what stands for the state in a file, where its storages lie, and whether they are big-endian.

    Args:
        file: the file.
        members: of the archive it is; none for the older form.
        path: of the file in the commit.

    Raises:
        UnpicklingError: torch's restricted loader would refuse the file, or no torch.save writes such a one.
        FileFormatError: its members do not lie inside it.
        StateError: no commit can hold what is in it.
    """
    with file.open() as opened:
        made, storages, length = _followed(TorchPickle, file, opened, members, path)
        check_made(made, path, length)
        order = _member(file, opened, members, "byteorder") or b"little"
        if order not in (b"little", b"big"):
            raise odd("the order of bytes")
        return made, storages, order == b"big"


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
            made, storages, _ = _followed(AnyPickle, file, opened, members, ())
            for name, dtype, shape, begin in _of(made, storages):
                yield ".".join(filter(None, (named, name))) or "tensor", dtype, shape, begin


def _of(made: Made, storages: Storages) -> Iterator[NamedTensor]:
    left = dict(storages)
    for name, tensor in tensors_made(made):
        dtype = DTYPES.get(tensor.dtype)
        by_rows = tensor.order == tuple(range(len(tensor.shape)))
        if by_rows and dtype is not None and tensor.memory is not None and tensor.memory.key in storages:
            left.pop(tensor.memory.key, None)
            yield name, dtype, tensor.shape, storages[tensor.memory.key][1][0] + tensor.offset
    for key, (storage, (start, _)) in left.items():
        yield f"storage {key}", storage.dtype, (storage.elements,), start


def _followed(
    kind: type[TorchPickle],
    file: StampedFile,
    opened: BinaryIO,
    members: Sequence[zipfile.ZipInfo],
    path: Path,
) -> tuple[Made, Storages, int]:
    """Return what a file makes, where its storages lie, and the length of its pickle."""
    if not members:
        return _older(kind(opened, file.size, path), file, opened)
    whole = pickle_in(file, opened, members)
    program = kind(io.BytesIO(whole), len(whole), path)
    made = program.follow()
    found = zip(program.storages.items(), _asked_for(program, members), strict=True)
    storages = {
        key: (storage, (content_at(file, WHAT, opened, member), member.file_size))
        for (key, storage), member in found
    }
    return made, storages, len(whole)


def _asked_for(followed: TorchPickle, members: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    names = {member.filename: member for member in members}
    # torch ignores case, and takes the one it finds first.
    if len({name.lower() for name in names}) != len(members):
        raise odd("an archive whose members differ in case alone")
    found = []
    for storage in followed.storages.values():
        member = names.get(_called(members, f"data/{storage.key}"))
        # The last bytes of a view as another type may be less than one element.
        if member is None or member.file_size // storage.dtype.itemsize != storage.elements:
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
    found = _member(file, opened, members, "data.pkl")
    if found is None:
        raise not_torch(file, f"it has no '{_called(members, 'data.pkl')[:200]}'")
    return found


def _called(members: Sequence[zipfile.ZipInfo], name: str) -> str:
    return f"{members[0].filename.partition('/')[0]}/{name}"


def _member(
    file: StampedFile, opened: BinaryIO, members: Sequence[zipfile.ZipInfo], name: str
) -> bytes | None:
    for member in members:
        if member.filename == _called(members, name):
            start = content_at(file, WHAT, opened, member)
            if start + member.file_size > file.size:
                raise not_torch(file, "it ends inside a member")
            return bytes(file.part(opened, start, member.file_size))
    return None


def not_torch(file: StampedFile, what: str) -> FileFormatError:
    """Return the error for a file that no torch.save wrote."""
    return FileFormatError(f"'{file.path}' is not a file of torch.save: {what}")


def _older(program: TorchPickle, file: StampedFile, opened: BinaryIO) -> tuple[Made, Storages, int]:
    """Return what the older form makes, where its storages lie, and how long its pickle is."""
    if program.follow() != _MAGIC or program.follow() != _PROTOCOL:
        raise odd("its first number")
    program.follow()  # what tells of the machine
    made, asked = program.follow(), program.storages
    end = opened.tell()
    keys = program.follow()
    if not isinstance(keys, Items) or set(map(str, keys.items)) != set(asked):
        raise odd("its list of storages")
    # Memory that is not in the file would hold whatever was there before.
    at, storages = opened.tell(), {}
    for key in map(str, keys.items):
        storages[key] = asked[key], (at + _COUNT_BYTES, asked[key].nbytes)
        at += _COUNT_BYTES + asked[key].nbytes
    if at > file.size:
        raise not_torch(file, f"it ends before its {at - opened.tell()} bytes of tensors do")
    for storage, (start, _) in storages.values():
        count = file.part(opened, start - _COUNT_BYTES, _COUNT_BYTES)
        if int.from_bytes(count, "little") != storage.elements:
            raise odd("the length of a storage")
    return made, storages, end


def source_of(file: StampedFile, start: int, dtype: DType, tensor: Tensor, swapped: int) -> Source:
    """Return what reads a tensor from the file, row by row and little-endian.

    Args:
        file: the file.
        start: where its first element lies.
        dtype: its element type.
        tensor: how it lies there.
        swapped: bytes of each number that stands big-endian; 0 where none does.
    """
    length = math.prod(tensor.shape) * dtype.itemsize
    if not length:
        return Memory(b"")
    plain = not (swapped or tensor.conjugated or tensor.negated)
    if plain and tensor.order == tuple(range(len(tensor.shape))):
        return file.span(start, length)
    return _TurnedTensor(file, start, dtype, tensor, swapped)


@dataclass(frozen=True, eq=False)
class _TurnedTensor(Source):
    """Reads a tensor that lies in its file otherwise than it is stored."""

    file: StampedFile
    start: int
    dtype: DType
    tensor: Tensor
    swapped: int

    def read(self) -> memoryview:
        """Return the tensor's content, row-major and little-endian."""
        tensor, dtype = self.tensor, numpy_dtype(self.dtype)
        steps = [0 if size == 1 else step for size, step in zip(tensor.shape, tensor.strides, strict=True)]
        reach = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, steps, strict=True))
        data = self.file.read(self.start, reach * dtype.itemsize)
        if self.swapped:
            data = np.frombuffer(data, f"u{self.swapped}").byteswap().data.cast("B")
        lying = np.ndarray(tensor.shape, dtype, data, strides=[step * dtype.itemsize for step in steps])
        is_complex = self.dtype.kind == "complex"
        bits = np.array(lying, order="C").reshape(-1).view(f"u{dtype.itemsize >> is_complex}")
        sign = bits.dtype.type(1 << 8 * bits.itemsize - 1)
        # A number with the other sign differs in one bit, that of a NaN too.
        if tensor.negated:
            bits ^= sign
        if tensor.conjugated:
            bits[1::2] ^= sign
        return bits.view(np.uint8).data

    def parts(self, length: int, *, own: bool = True) -> Iterator[memoryview]:  # noqa: ARG002 - it always is
        """Yield the content in runs."""
        return super().parts(length, own=False)
