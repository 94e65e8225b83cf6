"""Small files of one machine: replaced whole, and changed by one process at a time."""

import contextlib
import fcntl
import os
import pathlib
import secrets
from collections.abc import Iterator

from mvcs.errors import StorageError


def replace_file(path: pathlib.Path, data: bytes) -> None:
    """Replace a small file so that a reader sees the old or the new bytes, also after a power cut.

    Raises:
        StorageError: it cannot be written; the old file is untouched.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        try:
            _write_durably(temporary, data)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}") from error


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
    """Let one process at a time read a file and replace it; the lock is a file of its own and stays.

    The system lets go of it when its holder dies. A file system without locks is used without one.

    Args:
        path: the lock.

    Raises:
        StorageError: it cannot be made.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise StorageError(f"cannot lock '{path}': {(error.strerror or str(error)).lower()}") from error
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_durably(path: pathlib.Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
