"""What is no file where one should lie: a folder, a pipe, a link to itself, or a file for the folder."""

import contextlib
import errno
from collections.abc import Iterator

from mvcs.errors import CorruptionError, StorageError

NO_FILE = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP})
ODD_HINT = "move it out of the store"


def is_no_file(error: StorageError) -> bool:
    """Tell whether a store refuses since what lies there is no file."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_FILE


@contextlib.contextmanager
def odd_is_damage() -> Iterator[None]:
    """Treat what is no file as one that is damaged: it ends no look at others.

    Raises:
        CorruptionError: it is none.
    """
    try:
        yield
    except StorageError as error:
        if not is_no_file(error):
            raise
        raise CorruptionError(f"{error.message}, and has to be moved out of the store") from error
