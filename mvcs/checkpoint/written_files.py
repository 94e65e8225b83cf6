"""A file of a commit written again, in its own format, and made durable."""

import os
import pathlib
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from mvcs.checkpoint.formats.layout import write_laid_out
from mvcs.checkpoint.formats.npz_file import write_npz
from mvcs.checkpoint.formats.safetensors_file import write_safetensors
from mvcs.checkpoint.state.content_reader import ContentReader
from mvcs.checkpoint.state.stamped import storage_error
from mvcs.checkpoint.torch_files.needing_torch import needing_torch
from mvcs.errors import CorruptionError, MvcsError
from mvcs.objects import FileEntry, FileFormat, blob_reference


def write_file(
    entry: FileEntry,
    content: ContentReader,
    target: pathlib.Path,
    opener: Callable[[str, int], int] | None = None,
) -> bool:
    """Write one file of a commit in full to `target`, durably; return whether it is laid out as it was.

    It comes back byte for byte from an exact layer, and laid out as it was from a value layer; a safetensors
    file that is not what was handed over says so. A torch or npz file without a layout, from an earlier
    version, has the same content. So has an npz file whose compressed arrays are not what was handed over, or
    are compressed otherwise here. A tensor at a time is held, but for a torch file without a layout.

    Args:
        entry: the file.
        content: of the commit's tree; each leaf is asked for once, in the order of the file.
        target: a temporary name beside the final one; an existing file is overwritten.
        opener: opens it in place of `os.open`.

    Raises:
        CorruptionError: the tree or what is read for it does not fit together.
        UsageError: it is a torch file, and torch is not installed.
        StorageError: the disk refused it.
    """
    with durable_file(target, opener) as file:
        if entry.format is FileFormat.SAFETENSORS:
            write_safetensors(entry, content, file)
        elif entry.header is not None and write_laid_out(entry, content, file):
            return True
        elif entry.format is FileFormat.NPZ:
            write_npz(entry, content, file)
            return entry.header is None or content.restored is not None
        elif entry.format is FileFormat.TORCH:
            with needing_torch(f"writing '{entry.path}'", hint=_tensors_of(entry.path)):
                from mvcs.checkpoint.torch_files.torch_file import write_torch
            write_torch(entry.node, content, file)
        else:
            _write_opaque(entry, content, file)
    return True


def _tensors_of(path: str) -> str:
    """Say how the tensors of a torch file are written where it cannot be."""
    line = f"mvcs checkout {shlex.quote(f'REV:{path}')} -o FILE.safetensors"
    return f"its tensors are written without: {line}"


def _write_opaque(entry: FileEntry, content: ContentReader, file: BinaryIO) -> None:
    reference = blob_reference(entry.node)
    if reference is None:
        raise CorruptionError(f"the file '{entry.path}' has no content")
    file.writelines(content.pieces(*reference))


@contextmanager
def durable_file(target: pathlib.Path, opener: Callable[[str, int], int] | None = None) -> Iterator[BinaryIO]:
    """Give a new file to write, which is on the disk when that ends.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        with open(target, "w+b", opener=opener) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if isinstance(error, MvcsError):
            raise
        raise storage_error("write", target, error) from error
