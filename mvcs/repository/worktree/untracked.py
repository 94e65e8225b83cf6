"""Files of the working folder that no commit at HEAD holds."""

import os
import pathlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mvcs.checkpoint import StampedFile, format_in, format_of, is_called_file, is_store, is_temporary
from mvcs.errors import MvcsError
from mvcs.objects import MAX_PARTS, is_bare, is_tool_folder


@dataclass(frozen=True)
class Uncommitted:
    """Files of the folder that HEAD does not hold, and that a commit of the whole folder would take.

    Attributes:
        checkpoints: those that are; none of hidden folders that HEAD has nothing of.
        others: all else; a hidden folder, which is not looked into, ends in a slash.
    """

    checkpoints: list[str]
    others: list[str]

    @classmethod
    def of(cls, top: pathlib.Path, known: Collection[str]) -> "Uncommitted":
        """Look for them.

        Args:
            top: the working folder.
            known: the paths that HEAD holds.
        """
        found = sorted(path for path in _walk(top, known) if path not in known)
        checkpoints = [path for path in found if _is_checkpoint(top / path)]
        seen = set(checkpoints)
        rest = [path for path in found if path not in seen]
        return cls(checkpoints, [path for path in rest if path.endswith("/") or (top / path).is_file()])


def _walk(top: pathlib.Path, known: Collection[str]) -> Iterator[str]:
    """Yield what a commit would take; a hidden folder of which HEAD has nothing by its name alone."""
    familiar = {str(parent) for path in known for parent in pathlib.PurePosixPath(path).parents}
    for folder, folders, files in os.walk(top):
        here = pathlib.Path(folder)
        prefix = here.relative_to(top)
        if here != top and (is_store(here) or is_bare([*folders, *files])):
            folders[:] = []
            continue
        inner = {name: (prefix / name).as_posix() for name in folders if not is_tool_folder(name)}
        # Hidden folders hold environments and caches, with more files than all the rest.
        hidden = {name for name, path in inner.items() if name.startswith(".") and path not in familiar}
        folders[:] = [] if len(prefix.parts) >= MAX_PARTS else [name for name in inner if name not in hidden]
        yield from (f"{inner[name]}/" for name in hidden)
        yield from (
            (prefix / name).as_posix() for name in files if not (is_tool_folder(name) or is_temporary(name))
        )


def _is_checkpoint(path: pathlib.Path) -> bool:
    if path.name.startswith(".") or not is_called_file(path):
        return False
    try:
        return format_of(path) is not None or format_in(StampedFile.at(path)) is not None
    except MvcsError:
        return False  # such as one that is gone by now
