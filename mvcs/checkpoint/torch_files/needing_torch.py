"""What cannot be done where torch is not installed: it is said once, with what can be done instead."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from mvcs.errors import UsageError
from mvcs.objects import FileEntry, FileFormat


@contextmanager
def needing_torch(what: str, hint: str) -> Iterator[None]:
    """Import modules that import torch, on behalf of something that is being done.

    Args:
        what: what is done, such as "writing 'model.pt'".
        hint: what can be done without torch.

    Raises:
        UsageError: torch is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError(f"{what} needs torch, which is not installed", hint=hint) from None


def unreadable_here(entry: FileEntry) -> bool:
    """Tell whether a committed file is one that torch alone reads, and torch is not installed."""
    return entry.format is FileFormat.TORCH and find_spec("torch") is None
