"""Where the memory lies that a file of torch.save asks for, checked before anything is loaded.

Of a file that no state can be made of, the tensors are found here as well, and nothing is loaded.
"""

import io
import os
import secrets
import zipfile
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import BinaryIO

import numpy as np
import torch

from mvcs.checkpoint.formats.archive import archives_in, content_at
from mvcs.checkpoint.formats.layout import NamedTensor, Placed
from mvcs.checkpoint.state.captured import CapturedLeaf, Source
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.state.torch_values import TensorSource
from mvcs.checkpoint.torch_files.pickle_program import AnyPickle, TorchPickle, check_made, tensors_made
from mvcs.checkpoint.torch_files.stand_ins import Items, Made, Storage, odd
from mvcs.errors import FileFormatError
from mvcs.objects import DTYPES, Kind, ObjectId, Path, object_id

WHAT = "a file of torch.save"
ZIP_MAGIC = b"PK\x03\x04"
Run = tuple[int, int]
"""Where bytes begin in a file, and how many there are."""
Memory = dict[str, tuple[Storage, Run]]
"""Storages and where each lies, by key."""
_MAGIC = 0x1950A86A20F9469CFC6C
_COUNT_BYTES = 8  # in front of each storage of the older form, its number of elements
SMALL = 1 << 12
_WHOLE = 16  # bytes of the largest element; the loader leaves out what is less than one at the end
_COPIED = 1 << 24
_PLACE_BYTES = 8
_SIGN_BYTES = 16
_BIG_ENDIAN = "/byteorder"


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


@dataclass(frozen=True)
class Outline:
    """The file that the loader is given.

    Attributes:
        file: what it is of.
        path: where the loader finds it, while it is open.
        zipped: whether it is an archive; of the older form, which is loaded whole, this is the file itself.
        places: the offset of each tensor that was left out, and its bytes.
        sign: stands in front of each place. The file cannot know it, so none of its bytes is taken for one.
    """

    file: StampedFile
    path: str
    zipped: bool
    places: dict[int, int]
    sign: bytes = field(default_factory=lambda: secrets.token_bytes(_SIGN_BYTES))

    @classmethod
    @contextmanager
    def of(
        cls, file: StampedFile, members: Sequence[zipfile.ZipInfo], memory: Sequence[zipfile.ZipInfo]
    ) -> Iterator["Outline"]:
        """Make the outline of a file.

        Args:
            file: the file.
            members: of the archive it is, all stored; none for the older form.
            memory: those of them that hold the memory of tensors, each whole.

        Raises:
            ConflictError: the file changed since it was looked at.
            FileFormatError: its members do not lie inside it.
        """
        with file.open() as opened:
            if not members:
                yield cls(file, _path_of(opened.fileno()), zipped=False, places={})
                return
            descriptor = os.memfd_create("mvcs", os.MFD_CLOEXEC)
            try:
                swapped = any(_swapped(file, opened, member) for member in members)
                # The loader turns the bytes of every tensor round, those of a place as well.
                places = {} if swapped else dict(_places(file, opened, memory))
                outline = cls(file, _path_of(descriptor), zipped=True, places=places)
                outline._fill(opened, descriptor)
                outline._check(memory)
                yield outline
            finally:
                os.close(descriptor)

    def placed(self, leaf: CapturedLeaf) -> CapturedLeaf:
        """Return a leaf that was loaded from the outline with what its file holds.

        Raises:
            FileFormatError: it lies where no tensor of the file lies.
        """
        if not self.places or not isinstance(leaf.source, TensorSource):
            return leaf
        tensor = leaf.source.tensor
        storage = tensor.untyped_storage()
        if storage.nbytes() <= SMALL:
            return leaf
        begin = bytes(storage[: _SIGN_BYTES + _PLACE_BYTES].tolist())
        start = int.from_bytes(begin[_SIGN_BYTES:], "little")
        left = self.places.get(start, 0) - storage.nbytes()
        if not begin.startswith(self.sign) or not 0 <= left < _WHOLE:
            raise not_torch(self.file, "a tensor lies where none was saved")
        return replace(leaf, source=StoredTensor(self.file, start, tensor))

    def _fill(self, opened: BinaryIO, descriptor: int) -> None:
        file = self.file
        os.ftruncate(descriptor, file.size)
        done = 0
        for start, length in [*sorted(self.places.items()), (file.size, 0)]:
            if start < done or start + length > file.size:
                raise not_torch(file, "its members overlap")
            for at in range(done, start, _COPIED):
                os.pwrite(descriptor, file.part(opened, at, min(_COPIED, start - at)), at)
            if length:
                os.pwrite(descriptor, self.sign + start.to_bytes(_PLACE_BYTES, "little"), start)
            done = start + length

    def _check(self, memory: Sequence[zipfile.ZipInfo]) -> None:
        """Check that what the loader gets has tensors where they were left out: it was read a second time."""
        with open(self.path, "rb") as copy:  # noqa: PTH123 - it has no name
            if self.places and self.places != dict(_places(self.file, copy, memory)):
                raise self.file.changed()


def _path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _places(
    file: StampedFile, opened: BinaryIO, memory: Sequence[zipfile.ZipInfo]
) -> Iterator[tuple[int, int]]:
    """Yield where the tensors lie that are left out."""
    for member in memory:
        if member.file_size > SMALL:
            yield content_at(file, WHAT, opened, member), member.file_size


def _swapped(file: StampedFile, opened: BinaryIO, member: zipfile.ZipInfo) -> bool:
    if not member.filename.endswith(_BIG_ENDIAN) or member.file_size > SMALL:
        return False
    start = content_at(file, WHAT, opened, member)
    return bytes(file.part(opened, start, min(member.file_size, file.size - start))) != b"little"


def places_of(
    leaves: Sequence[CapturedLeaf], first: int, file: StampedFile, runs: Sequence[Run]
) -> Iterator[Placed]:
    """Yield where leaves that were loaded from a file lie in it, of which the first has the number `first`.

    Memory that was loaded is found by its content among the runs; of equal ones the first goes to the first.
    """
    stored = {leaf.source.start for leaf in leaves if isinstance(leaf.source, StoredTensor)}
    known: dict[ObjectId, deque[int]] = defaultdict(deque)
    with file.open() as opened:
        for start, length in runs:
            if length and start not in stored:
                known[object_id(Kind.CHUNK, file.part(opened, start, length))].append(start)
    met: dict[int, tuple[int, int] | None] = {}
    for number, leaf in enumerate(leaves, first):
        if not isinstance(leaf.source, StoredTensor | TensorSource):
            continue
        tensor = leaf.source.tensor
        place: tuple[int, int] | None = None
        if isinstance(leaf.source, StoredTensor):
            place = leaf.source.start, 0
        elif tensor.numel():
            address = tensor.untyped_storage().data_ptr()
            if address not in met:
                met[address] = _found(tensor, known)
            place = met[address]
        order = _order(tensor)
        if place is not None and order is not None:
            begin = place[0] + int(tensor.storage_offset()) * tensor.element_size()
            plain = order == [*range(tensor.dim())]
            yield Placed(begin, number, leaf.raw_bytes, None if plain else tuple(order), place[1])


def _found(tensor: torch.Tensor, known: dict[ObjectId, deque[int]]) -> tuple[int, int] | None:
    """Return where the memory of a tensor begins, and the width of numbers that stand big-endian."""
    storage = tensor.untyped_storage()
    memory = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,)).numpy()
    width = tensor.element_size() // (2 if tensor.is_complex() else 1)
    for swapped in (0, width) if width > 1 and not memory.size % width else (0,):
        content = memory.view(f"u{swapped}").byteswap() if swapped else memory
        if places := known.get(object_id(Kind.CHUNK, content.view(np.uint8).data)):
            return places.popleft(), swapped
    return None


def _order(tensor: torch.Tensor) -> list[int] | None:
    """Return dimensions as they vary in memory, slowest first; None where its elements lie apart."""
    steps = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda way: (-steps[way], way))
    if tensor.is_contiguous():
        order = [*range(tensor.dim())]
    step = 1
    for way in reversed(order):
        if tensor.size(way) != 1 and steps[way] != step:
            return None
        step *= tensor.size(way)
    return None if tensor.is_conj() or tensor.is_neg() else order


@dataclass(frozen=True, eq=False)
class StoredTensor(Source):
    """Reads a tensor from the member of an archive that holds its memory.

    Attributes:
        file: the archive.
        start: where the memory lies in it.
        tensor: how the tensor lies in its memory, which holds nothing of it. It is kept, since tensors that
            are the same memory are told by its address.
    """

    file: StampedFile
    start: int
    tensor: torch.Tensor

    @property
    def _plain(self) -> bool:
        tensor = self.tensor
        return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()

    @property
    def _offset(self) -> int:
        return self.start + int(self.tensor.storage_offset()) * self.tensor.element_size()

    @property
    def _length(self) -> int:
        return self.tensor.numel() * self.tensor.element_size()

    def read(self) -> memoryview:
        """Return the tensor's content, row-major and little-endian."""
        if self._plain:
            return self.file.read(self._offset, self._length)
        tensor = self.tensor
        reach = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
        data = bytearray(self.file.read(self._offset, reach * tensor.element_size()))
        flat = torch.frombuffer(data, dtype=torch.uint8).view(tensor.dtype)
        found = flat.as_strided(tensor.shape, tensor.stride())
        found = found.conj() if tensor.is_conj() else found
        return TensorSource(found.neg() if tensor.is_neg() else found).read()

    def part(self, start: int, length: int) -> memoryview:
        """Return some of the content."""
        if not self._plain:
            return super().part(start, length)
        return self.file.read(self._offset + start, min(length, self._length - start))

    def parts(self, length: int, *, own: bool = True) -> Iterator[memoryview]:  # noqa: ARG002 - it always is
        """Yield the content in runs."""
        if not self._plain:
            yield from super().parts(length, own=False)
            return
        for start in range(0, self._length, length):
            yield self.part(start, length)
