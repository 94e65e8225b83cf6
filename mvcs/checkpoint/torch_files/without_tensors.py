"""A file of torch.save without its large tensors: what the loader is given, and where each tensor lies.

The loader reads a file several times, and maps it: what another process writes meanwhile shows in tensors,
and cutting the file short kills this one. So it gets a file of the same layout that nobody else has: small
members as they are, and instead of each large tensor its place in the file.
"""

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

from mvcs.checkpoint.formats.archive import content_at
from mvcs.checkpoint.formats.layout import Placed
from mvcs.checkpoint.state.captured import CapturedLeaf, Source
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.state.torch_values import TensorSource
from mvcs.checkpoint.torch_files.storage_layout import WHAT, Run, not_torch
from mvcs.objects import Kind, ObjectId, object_id

SMALL = 1 << 12
_WHOLE = 16  # bytes of the largest element; the loader leaves out what is less than one at the end
_COPIED = 1 << 24
_PLACE_BYTES = 8
_SIGN_BYTES = 16
_BIG_ENDIAN = "/byteorder"


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
