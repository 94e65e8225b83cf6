"""git for model checkpoints: commit, log, diff, branch, resume and push whole training states.

Attributes are resolved on first use: ``import mvcs`` stays quick and loads neither torch nor SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mvcs.errors import (
    ConflictError,
    CorruptionError,
    EvaluationError,
    FileFormatError,
    LimitError,
    LostError,
    MvcsError,
    NotFoundError,
    NothingToCommitError,
    StateError,
    StorageError,
    UnsafeFileError,
    UnsupportedFormatError,
    UsageError,
)

if TYPE_CHECKING:
    from mvcs import train
    from mvcs.reports import CommitInfo, Restored
    from mvcs.repository import Repository, open_or_init
    from mvcs.train import Checkpointer

    __version__: str

__all__ = [
    "Checkpointer",
    "CommitInfo",
    "ConflictError",
    "CorruptionError",
    "EvaluationError",
    "FileFormatError",
    "LimitError",
    "LostError",
    "MvcsError",
    "NotFoundError",
    "NothingToCommitError",
    "Repository",
    "Restored",
    "StateError",
    "StorageError",
    "UnsafeFileError",
    "UnsupportedFormatError",
    "UsageError",
    "__version__",
    "open_or_init",
    "train",
]

_HOMES = {
    "Checkpointer": "mvcs.train",
    "CommitInfo": "mvcs.reports",
    "Repository": "mvcs.repository",
    "Restored": "mvcs.reports",
    "open_or_init": "mvcs.repository",
}


def __getattr__(name: str) -> object:
    """The public name ``name``, imported on first use.

    Raises:
        AttributeError: mvcs has no such name.
    """
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    match name:
        case "train":
            return import_module("mvcs.train")
        case "__version__":
            return import_module("importlib.metadata").version("mvcs")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    """The public names, whether they are imported yet or not."""
    return sorted(__all__)
