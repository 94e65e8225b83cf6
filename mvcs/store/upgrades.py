"""Whether a store outgrew format 1: `mvcs.json` is never written again, upgrades are recorded beside it."""

from mvcs.errors import UnsupportedFormatError
from mvcs.store.backend import Backend

FOLDER = "format"


def refuse_upgraded(backend: Backend) -> None:
    """Check that no record of an upgrade lies in a store; format 1 knows none.

    Readers look when they open a store, and writers again before each change of a ref: a training run
    keeps a store open for weeks.

    Raises:
        UnsupportedFormatError: a newer mvcs upgraded the store.
        StorageError: the store cannot be listed.
    """
    record = backend.newest(FOLDER)
    if record is not None:
        raise UnsupportedFormatError(
            f"'{backend.url}' was upgraded to a newer format ('{record}')",
            hint="upgrade mvcs; nothing was changed",
        )
