"""Files of the working folder that no commit at HEAD holds."""

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mvcs.checkpoint import (
    FolderWalk,
    FoundKind,
    IgnoreRules,
    KnownFiles,
    StampedFile,
    format_in,
    format_of,
    is_called_file,
)
from mvcs.errors import MvcsError
from mvcs.objects import unfit_paths


@dataclass(frozen=True)
class Uncommitted:
    """Files of the folder that HEAD does not hold, and what a commit of the whole folder does with them.

    Attributes:
        checkpoints: those that it takes; none of hidden folders that HEAD has nothing of.
        others: all else that it takes; a hidden folder, which is not looked into, ends in a slash.
        refused: why it is refused, by the files and folders that it is refused for, of HEAD too.
        links: what is a link now where HEAD has files, by its path; it is refused for these as well.
    """

    checkpoints: list[str]
    others: list[str]
    refused: dict[str, str]
    links: dict[str, str]

    @classmethod
    def of(cls, top: pathlib.Path, known: KnownFiles, there: Iterable[str] = ()) -> "Uncommitted":
        """Look for them.

        Args:
            top: the working folder.
            known: the files that HEAD holds.
            there: those of them that are in the folder.

        Raises:
            StorageError: what says which files are left out cannot be read.
        """
        walk = FolderWalk(top, ".", top, IgnoreRules.of(top), known, glancing=True)
        taken = {FoundKind.FILE, FoundKind.HIDDEN}
        found = [one for one in walk.found() if one.kind not in taken or one.name not in known.names]
        hidden = [f"{one.name}/" for one in found if one.kind is FoundKind.HIDDEN]
        files = sorted(one.name for one in found if one.kind is FoundKind.FILE)
        refused = _unfit([*files, *there])
        refused |= {one.name: f"it is {one.what}" for one in found if one.kind is FoundKind.LINK_OUT}
        links = {one.name: one.what for one in found if one.kind is FoundKind.LINK and one.name in known}
        files = [name for name in files if refused.keys().isdisjoint(_with_folders(name))]
        checkpoints = [name for name in files if _is_checkpoint(top / name)]
        seen = set(checkpoints)
        others = sorted([*hidden, *(name for name in files if name not in seen)])
        return cls(checkpoints, others, refused, links)


def _unfit(paths: Sequence[str]) -> dict[str, str]:
    """Return why paths cannot be those of files in a commit, by files and folders."""
    return {place: unfit.reason for unfit in unfit_paths(paths) for place in unfit.places}


def _with_folders(path: str) -> Iterator[str]:
    """Yield a path, and the folders that it lies in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _is_checkpoint(path: pathlib.Path) -> bool:
    if path.name.startswith(".") or not is_called_file(path):
        return False
    try:
        return format_of(path) is not None or format_in(StampedFile.at(path)) is not None
    except MvcsError:
        return False  # such as one that is gone by now
