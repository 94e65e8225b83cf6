"""Files of torch.save, read with the restricted loader alone: what asks to run code is refused, by name."""

import io
import pathlib
import pickle
import pickletools
import re
import struct
import warnings
import zipfile
from collections.abc import Iterator
from typing import BinaryIO

import torch

from mvcs.checkpoint.archive import MAX_RATIO, check_archive
from mvcs.checkpoint.captured import Collector
from mvcs.checkpoint.mapped import MappedFile
from mvcs.checkpoint.reading import ContentReader
from mvcs.checkpoint.rebuild import rebuild_state
from mvcs.checkpoint.state import StateCapture
from mvcs.checkpoint.torch_values import torch_tensor
from mvcs.errors import FileFormatError, StorageError, UnsafeFileError
from mvcs.objects.cbor import Value
from mvcs.objects.tree import FileEntry, FileFormat

WHAT = "a file of torch.save"
_ZIP_MAGIC = b"PK\x03\x04"
# What the loader raises on bytes that no torch.save wrote: it checks little and fails where it stumbles.
_DAMAGE = (
    pickle.UnpicklingError,
    struct.error,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
_ASKED = re.compile(
    r"GLOBAL (\S+) (?:was not an allowed|whose module)|unrecognized function (.+?)(?: which|$)"
)
_CODE = ("Can only create new object", "Can only build", "must be imported to load")
_HARMLESS = re.compile(
    r"torch\.(_utils\.)?\w+$|torch\.nn\.parameter\.Parameter$|collections\.(OrderedDict|Counter)$|_codecs\.encode$|(builtins|__builtin__)\.(set|bytearray|complex)$"
)


def capture_torch(path: pathlib.Path, name: str, collector: Collector) -> FileEntry:
    """Take a file of torch.save apart; its tensors are read from the file when they are read.

    Raises:
        FileFormatError: it is not such a file.
        UnsafeFileError: it asks to run code; none was run.
        StateError: it holds a kind of tensor or key that cannot be stored.
    """
    file = MappedFile.at(path)
    before = len(collector.leaves)
    node = StateCapture(collector).node(_load(file), (name,))
    grown = sum(leaf.raw_bytes for leaf in collector.leaves[before:])
    if grown > MAX_RATIO * file.size:
        raise FileFormatError(f"'{path}' is not {WHAT}: its {file.size} bytes would grow to {grown}")
    return FileEntry(name, FileFormat.TORCH, node)


def _load(file: MappedFile) -> object:
    path = file.path
    zipped = bytes(file.view()[:4]) == _ZIP_MAGIC
    if zipped:
        _check_members(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded: object = torch.load(str(path), map_location="cpu", weights_only=True, mmap=zipped)
            return loaded
    except _DAMAGE as error:
        asked = _asked(str(error)) or next(_unknown_globals(file, zipped=zipped), None)
        if asked is not None:
            raise _unsafe(path, asked) from None
        raise FileFormatError(f"'{path}' is not {WHAT}: {_reason(error)}") from None


def _check_members(path: pathlib.Path) -> None:
    members = check_archive(path, WHAT)
    if any(member.filename.endswith("/constants.pkl") for member in members):
        raise _unsafe(path, "TorchScript")
    # torch.save stores, and what is stored can be read where it lies and cannot grow.
    packed = [member.filename for member in members if member.compress_type != zipfile.ZIP_STORED]
    if packed:
        raise FileFormatError(f"'{path}' is not {WHAT}: '{packed[0]}' is compressed")


def _unsafe(path: pathlib.Path, asked: str) -> UnsafeFileError:
    return UnsafeFileError(
        f"'{path}' asks for '{asked}', which could run code; nothing was run",
        hint="save plain tensors, numbers and containers with torch.save",
    )


def _asked(message: str) -> str | None:
    match = _ASKED.search(message)
    if match is not None:
        return match[1] or match[2]
    return next((reason for reason in _CODE if reason in message), None)


def _reason(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, RuntimeError) and not isinstance(error, RecursionError):
        return text.split("\n", maxsplit=1)[0].split(". ", maxsplit=1)[0]
    unsupported = re.search(r"Unsupported operand \d+", text)
    detail = unsupported[0] if unsupported else type(error).__name__
    return f"the restricted loader stops with '{detail}'"


def _unknown_globals(file: MappedFile, *, zipped: bool) -> Iterator[str]:
    # The loader gives up at the first opcode it does not know; this finds what the rest would have asked for.
    try:
        stream = io.BytesIO(_pickle_in_archive(file) if zipped else bytes(file.view()[: 1 << 24]))
        strings: list[str] = []
        for opcode, argument, _ in pickletools.genops(stream):
            if isinstance(argument, str) and opcode.name != "GLOBAL":
                strings.append(argument)
            name = _global_name(opcode.name, argument, strings)
            if name is not None and not _HARMLESS.match(name):
                yield name
    except (*_DAMAGE, zipfile.BadZipFile):
        return


def _pickle_in_archive(file: MappedFile) -> bytes:
    with zipfile.ZipFile(file.path) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        return archive.read(names[0])


def _global_name(opcode: str, argument: object, strings: list[str]) -> str | None:
    if opcode in ("GLOBAL", "INST"):
        return str(argument).replace(" ", ".")
    if opcode == "STACK_GLOBAL" and len(strings) > 1:
        return ".".join(strings[-2:])
    return None


def write_torch(node: Value, content: ContentReader, file: BinaryIO) -> None:
    """Write a structure with torch.save; loading it gives the same content.

    Raises:
        StorageError: the disk refused it.
    """

    def leaf(index: int) -> torch.Tensor:
        known = content.tree.leaves[index]
        return torch_tensor(known.dtype, known.shape, content.leaf(index))

    save_torch(rebuild_state(node, leaf, content.blob), file)


def save_torch(state: object, file: BinaryIO) -> None:
    """Write an object with torch.save.

    Raises:
        StorageError: the disk refused it.
    """
    try:
        torch.save(state, file)
    except RuntimeError as error:  # how torch's archive writer reports a write that failed
        raise StorageError(f"torch.save failed: {str(error).splitlines()[0]}") from error
