"""Files of torch.save, read with the restricted loader alone: what asks to run code is refused, by name."""

import io
import pathlib
import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

import torch

from mvcs.checkpoint.formats.archive import MAX_RATIO, check_archive, require_content
from mvcs.checkpoint.formats.layout import capture_named, layout_node
from mvcs.checkpoint.state.captured import Collector
from mvcs.checkpoint.state.rebuild import ContentReader, rebuild_state
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.state.state import StateCapture
from mvcs.checkpoint.state.torch_values import torch_tensor
from mvcs.checkpoint.torch_files.pickle_program import AnyPickle
from mvcs.checkpoint.torch_files.stand_ins import ODD
from mvcs.checkpoint.torch_files.storage_layout import (
    WHAT,
    ZIP_MAGIC,
    Outline,
    memory_of,
    pickle_in,
    places_of,
    tensors_in,
)
from mvcs.errors import FileFormatError, MvcsError, StateError, StorageError, UnsafeFileError
from mvcs.objects import FileEntry, FileFormat, Value

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
_FRAME = 149  # with which all that pickle's protocols 4 and 5 write begins
_HARMLESS = re.compile(
    r"torch\.(_utils\.)?\w+$|torch\.nn\.parameter\.Parameter$|collections\.(OrderedDict|Counter)$|_codecs\.encode$|(builtins|__builtin__)\.(set|bytearray|complex)$"
)


def capture_torch(file: StampedFile, name: str, collector: Collector) -> FileEntry:
    """Take a file of torch.save apart; its tensors are read from the file when they are read.

    Raises:
        FileFormatError: it is not such a file.
        UnsafeFileError: it asks to run code, or this torch might run some that hides in it; none was run.
        StateError: it holds a kind of tensor or key that cannot be stored.
    """
    require_safe(str(torch.__version__), file.path)
    before = len(collector.leaves)
    members = _members(file)
    with _told(file, members):
        memory, runs = memory_of(file, members, (name,))
    with Outline.of(file, members, memory) as outline:
        with _told(file, members):
            loaded = _load(outline)
        node = StateCapture(collector).node(loaded, (name,))
        collector.leaves[before:] = map(outline.placed, collector.leaves[before:])
    found = collector.leaves[before:]
    grown = sum(leaf.raw_bytes for leaf in collector.leaves[before:])
    if grown > MAX_RATIO * file.size:
        raise FileFormatError(f"'{file.path}' is not {WHAT}: its {file.size} bytes would grow to {grown}")
    layout = layout_node(file, node, places_of(found, before, file, runs), collector)
    return FileEntry(name, FileFormat.TORCH, node, layout)


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


def _load(outline: Outline) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded: object = torch.load(outline.path, map_location="cpu", weights_only=True, mmap=outline.zipped)
        return loaded


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
    if match is not None:
        return match[1] or match[2]
    return next((reason for reason in _CODE if reason in message), None)


def _reason(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, RuntimeError) and not isinstance(error, RecursionError):
        return text.split("\n", maxsplit=1)[0].split(". ", maxsplit=1)[0]
    if ODD in text:
        return text
    unsupported = re.search(r"Unsupported operand \d+", text)
    detail = unsupported[0] if unsupported else type(error).__name__
    return f"the restricted loader stops with '{detail}'"


def _unknown_globals(file: StampedFile, members: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    # The loader gives up at the first opcode it does not know; this finds what the rest would have asked for.
    with suppress(*_DAMAGE), file.open() as opened:
        content = pickle_in(file, opened, members) if members else opened.read(1 << 24)
        program = AnyPickle(io.BytesIO(content), len(content), ())
        with suppress(*_DAMAGE):
            program.follow()
        yield from (name for name in program.asked if not _HARMLESS.match(name))


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


# Known are files that run code in spite of `weights_only=True` up to 2.5.1 (CVE-2025-32434), and files that
# damage memory, which may run code, up to 2.9.1 (CVE-2026-24747).
SAFE_SINCE = (2, 10)
_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})(?:\.[0-9]+)*(\.?(?:a|b|rc|dev)[0-9]*)?.*", re.DOTALL)


def is_safe(version: str) -> bool:
    """Tell whether no way around the restricted loader of a version of torch is published.

    What comes before a release may lack what the release mended, so it counts as older. A version that cannot
    be read counts as old.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return False
    release = int(match[1]), int(match[2])
    return release > SAFE_SINCE or (release == SAFE_SINCE and match[3] is None)


def require_safe(version: str, path: pathlib.Path) -> None:
    """Check that a file may be given to the restricted loader.

    Raises:
        UnsafeFileError: this version of torch may run code that is in the file; nothing was run.
    """
    if not is_safe(version):
        needed = ".".join(map(str, SAFE_SINCE))
        raise UnsafeFileError(
            f"'{path}' is not read with torch {version}: ways around its restricted loader are known",
            hint=f"files of torch.save are read with torch {needed} or newer; a file of safetensors with any",
        )
