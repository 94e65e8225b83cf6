"""Files of torch.save, read without torch, which only a new file needs; what asks to run code is refused."""

import io
import pathlib
import pickle
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from mvcs.checkpoint.formats.archive import MAX_RATIO, check_archive, require_content
from mvcs.checkpoint.formats.layout import Placed, capture_named, layout_node
from mvcs.checkpoint.state.captured import Collector, Found, refuse
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.state.state import MAX_NESTING, ContentReader, StateCapture, rebuild_state
from mvcs.checkpoint.torch_files.pickle_program import AnyPickle
from mvcs.checkpoint.torch_files.stand_ins import (
    ODD,
    Device,
    Items,
    Named,
    Sizes,
    Tensor,
    dtype_named,
    is_plain,
)
from mvcs.checkpoint.torch_files.storage_layout import (
    WHAT,
    ZIP_MAGIC,
    Storages,
    pickle_in,
    source_of,
    state_in,
    tensors_in,
)
from mvcs.errors import FileFormatError, MvcsError, StateError, StorageError, UnsafeFileError
from mvcs.objects import DTYPES, FileEntry, FileFormat, NodeTag, Path, Value, element_count

if TYPE_CHECKING:
    import torch

# What is raised on bytes that no torch.save wrote, where following them stumbles.
_DAMAGE = (
    pickle.UnpicklingError,
    struct.error,
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
_ASKED = re.compile(r"GLOBAL (\S+) was not an allowed")
_CODE = "Can only build"
_FRAME = 149  # with which all that pickle's protocols 4 and 5 write begins


def capture_torch(file: StampedFile, name: str, collector: Collector) -> FileEntry:
    """Take a file of torch.save apart; its tensors are read from the file when they are read.

    Raises:
        FileFormatError: it is not such a file.
        UnsafeFileError: it asks to run code; none was run.
        StateError: it holds a kind of tensor or key that cannot be stored.
    """
    before = len(collector.leaves)
    members = _members(file)
    with _told(file, members):
        made, storages, swapped = state_in(file, members, (name,))
        capture = _TorchCapture(collector, file, storages, swapped=swapped)
        node = capture.node(made, (name,))
    grown = sum(leaf.raw_bytes for leaf in collector.leaves[before:])
    if grown > MAX_RATIO * file.size:
        raise FileFormatError(f"'{file.path}' is not {WHAT}: its {file.size} bytes would grow to {grown}")
    return FileEntry(name, FileFormat.TORCH, node, layout_node(file, node, capture.placed, collector))


class _TorchCapture(StateCapture):
    """Walks what stands for a state, and hands tensors to a collector with their places in the file.

    Attributes:
        placed: where the tensors lie.
    """

    def __init__(self, collector: Collector, file: StampedFile, storages: Storages, *, swapped: bool) -> None:
        super().__init__(collector)
        self.placed: list[Placed] = []
        self._file, self._storages, self._swapped = file, storages, swapped

    def node(self, value: object, path: Path, depth: int = MAX_NESTING) -> Value:
        """Return the structure of what `value` stands for."""
        return super().node(value.container() if isinstance(value, Items) else value, path, depth)

    def _torch(self, value: object, path: Path) -> Value:
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if isinstance(value, Device):
            return [int(NodeTag.TORCH_DEVICE), value.name]
        if isinstance(value, Sizes):
            sizes = cast("tuple[int, ...]", value.sizes)
            if min(sizes, default=0) < 0:
                raise refuse(path, f"a torch.Size of {min(sizes)}")
            return [int(NodeTag.TORCH_SIZE), *sizes]
        dtype = dtype_named(value.name) if isinstance(value, Named) else None
        if dtype is not None:
            return [int(NodeTag.TORCH_DTYPE), dtype]
        raise refuse(path, f"a '{value.name if isinstance(value, Named) else type(value).__name__}'")

    def _tensor(self, tensor: Tensor, path: Path) -> Value:
        if tensor.memory is None:
            raise refuse(path, f"a {tensor.strange} tensor")
        if tensor.dtype not in DTYPES:
            raise refuse(path, f"a tensor of type 'torch.{tensor.dtype}'")
        dtype, memory = DTYPES[tensor.dtype], self._storages[tensor.memory.key]
        start = memory[1][0] + tensor.offset
        swapped = memory[0].number_bytes if self._swapped else 0
        # Tensors without elements have no memory to share, so only the object itself tells them apart.
        bits = tensor.conjugated, tensor.negated
        lying = (start, tensor.dtype, tensor.shape, tensor.strides, bits) if all(tensor.shape) else tensor
        source = source_of(self._file, start, dtype, tensor, swapped)
        known = len(self.collector.leaves)
        found = Found(dtype, tensor.shape, source, tensor.flags, (self._file, lying))
        node = self.collector.tensor(found, path)
        order = tensor.order
        if len(self.collector.leaves) > known and order is not None and not any(bits):
            plain = order == tuple(range(len(order)))
            length = element_count(tensor.shape) * dtype.itemsize
            self.placed.append(Placed(start, known, length, None if plain else order, swapped))
        return node


def capture_loosely(file: StampedFile, name: str, collector: Collector) -> FileEntry:
    """Take a file apart that no state can be made of: its tensors by name, and all else as it stands.

    Raises:
        FileFormatError: no tensors are found in it.
    """
    try:
        found = [*tensors_in(file)]
    except _DAMAGE as error:
        if isinstance(error, MvcsError):
            raise
        raise FileFormatError(f"'{file.path}' is not {WHAT}: {_reason(error)}") from None
    return capture_named(file, name, found, collector)


@contextmanager
def _told(file: StampedFile, members: Sequence[zipfile.ZipInfo]) -> Iterator[None]:
    """Say what is wrong with a file that cannot be loaded, and what it asks for."""
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, MvcsError):
            raise
        asked = _asked(str(error)) or next(_unknown_globals(file, members), None)
        if asked is not None:
            raise _unsafe(file.path, asked) from None
        if members and f"Unsupported operand {_FRAME}" in str(error):
            raise StateError(
                f"'{file.path}' is a pickle of a protocol above 3, which no safe loader reads"
            ) from None
        raise FileFormatError(f"'{file.path}' is not {WHAT}: {_reason(error)}") from None


def _members(file: StampedFile) -> list[zipfile.ZipInfo]:
    """Return the members of an archive; none for the older form."""
    require_content(file, WHAT)
    if bytes(file.read(0, min(file.size, len(ZIP_MAGIC)))) != ZIP_MAGIC:
        return []
    members = check_archive(file, WHAT)
    if min((member.header_offset for member in members), default=0):
        raise StateError(f"'{file.path}' holds several archives of torch.save, or others beside it")
    if any(member.filename.endswith("/constants.pkl") for member in members):
        raise _unsafe(file.path, "TorchScript")
    # torch.save stores, and what is stored can be read where it lies and cannot grow.
    packed = [member.filename for member in members if member.compress_type != zipfile.ZIP_STORED]
    if packed:
        raise FileFormatError(f"'{file.path}' is not {WHAT}: '{packed[0]}' is compressed")
    uneven = [member.filename for member in members if member.compress_size != member.file_size]
    if uneven:
        raise FileFormatError(f"'{file.path}' is not {WHAT}: '{uneven[0]}' has two sizes")
    return members


def _unsafe(path: pathlib.Path, asked: str) -> UnsafeFileError:
    return UnsafeFileError(
        f"'{path}' asks for '{asked}', which could run code; nothing was run",
        hint="save plain tensors, numbers and containers with torch.save",
    )


def _asked(message: str) -> str | None:
    match = _ASKED.search(message)
    return match[1] if match is not None else _CODE if _CODE in message else None


def _reason(error: BaseException) -> str:
    text = str(error)
    if ODD in text:
        return text
    unsupported = re.search(r"Unsupported operand \d+", text)
    return f"following its pickle stops with '{unsupported[0] if unsupported else type(error).__name__}'"


def _unknown_globals(file: StampedFile, members: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    # Following ends at the first opcode that is not known; this finds what the rest would have asked for.
    with suppress(*_DAMAGE), file.open() as opened:
        content = pickle_in(file, opened, members) if members else opened.read(1 << 24)
        program = AnyPickle(io.BytesIO(content), len(content), ())
        with suppress(*_DAMAGE):
            program.follow()
        yield from (name for name in program.asked if not is_plain(name))


def write_torch(node: Value, content: ContentReader, file: BinaryIO) -> None:
    """Write a structure with torch.save; loading it gives the same content.

    Raises:
        ModuleNotFoundError: torch is not installed.
        StorageError: the disk refused it.
    """
    from mvcs.checkpoint.state.torch_values import torch_tensor

    def leaf(index: int) -> "torch.Tensor":
        known = content.tree.leaves[index]
        return torch_tensor(known.dtype, known.shape, content.leaf(index))

    save_torch(rebuild_state(node, leaf, content.blob), file)


def save_torch(state: object, file: BinaryIO) -> None:
    """Write an object with torch.save.

    Raises:
        ModuleNotFoundError: torch is not installed.
        StorageError: the disk refused it.
    """
    import torch

    try:
        torch.save(state, file)
    except RuntimeError as error:  # how torch's archive writer reports a write that failed
        raise StorageError(f"torch.save failed: {str(error).splitlines()[0]}") from error
