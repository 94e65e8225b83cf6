"""git for model checkpoints: commit, log, diff, branch, resume and push whole training states.

Attributes are resolved on first use: ``import mvcs`` stays quick and loads neither torch nor SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mvcs import train
    from mvcs.repository import Repository

    __version__: str

__all__ = ["Repository", "__version__", "train"]


def __getattr__(name: str) -> object:
    """The public name ``name``, imported on first use.

    Raises:
        AttributeError: mvcs has no such name.
    """
    match name:
        case "Repository":
            return import_module("mvcs.repository").Repository
        case "train":
            return import_module("mvcs.train")
        case "__version__":
            return import_module("importlib.metadata").version("mvcs")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    """The public names, whether they are imported yet or not."""
    return sorted(__all__)
