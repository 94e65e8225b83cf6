"""The time as a store sees it: a clock of ours may be wrong, and the age of files is what protects them."""

from mvcs.local_files import temporary_name
from mvcs.store.backend.base import TEMPORARY_FOLDER, Backend


def store_time(backend: Backend) -> float | None:
    """Return the seconds since 1970-01-01 UTC by a store's own clock; None where it does not tell.

    Raises:
        StorageError: it refuses a file.
    """
    name = f"{TEMPORARY_FOLDER}/{temporary_name()}"
    backend.put(name, b"")
    try:
        return backend.modified(name)
    finally:
        backend.delete(name)
