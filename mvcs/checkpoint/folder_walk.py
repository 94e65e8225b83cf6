"""What lies in a folder for a commit of it: one walk, for who commits and who asks what would be."""

import errno
import json
import os
import pathlib
import stat
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property

from mvcs.checkpoint.ignore_rules import IgnoreRules
from mvcs.checkpoint.state.stamped import file_kind, storage_error
from mvcs.errors import StorageError, UsageError
from mvcs.local_files import normal_path, real_path
from mvcs.objects import MAX_PARTS, STORE_FOLDER, is_bare, is_tool_folder

_LONG = 200  # characters of a path in a message


class FoundKind(Enum):
    """What was found, and so what becomes of it."""

    FILE = auto()
    HIDDEN = auto()
    """A folder that was not looked into."""
    ACTING = auto()
    """What version control tools act on."""
    LINK = auto()
    """A link that is not followed: to a folder, or to nothing."""
    LINK_OUT = auto()
    """A link to a file outside the folder."""
    OTHER = auto()


@dataclass(frozen=True)
class Found:
    """Something in a folder.

    Attributes:
        name: its path in a commit.
        path: where it lies.
        kind: what becomes of it.
        what: what it is, where a message says so.
    """

    name: str
    path: pathlib.Path
    kind: FoundKind
    what: str = ""


@dataclass(frozen=True)
class KnownFiles:
    """The files that the commit before has.

    Attributes:
        names: their paths in it.
        places: where those lie that were committed under another name, with that.
        bytewise: those of `names` that no format holds, so that they are kept as they are; it was said once.
    """

    names: frozenset[str] = frozenset()
    places: Mapping[pathlib.Path, str] = field(default_factory=dict)
    bytewise: frozenset[str] = frozenset()

    @cached_property
    def folders(self) -> frozenset[str]:
        """The folders that they lie in, by the paths in the commit."""
        above = (pathlib.PurePosixPath(name).parents for name in self.names)
        return frozenset(str(parent) for parents in above for parent in parents)

    def __contains__(self, name: str) -> bool:
        """Tell whether a path is that of a file, or of a folder that one lies in."""
        return name in self.names or name in self.folders


NO_FILES = KnownFiles()


@dataclass(frozen=True)
class _Place:
    path: pathlib.Path
    name: pathlib.PurePosixPath
    ignored: bool = False


@dataclass(frozen=True)
class FolderWalk:
    """A walk through a folder; links are not followed.

    Attributes:
        folder: where it begins.
        name: what the folder is called in a commit.
        top: the folder of the repository, whose own files are passed over.
        rules: what is left out; not what the commit before has.
        known: the files of the commit before.
        glancing: what cannot be listed is passed over, and hidden folders are not looked into that the commit
            before has nothing of: they hold environments and caches, with more files than all the rest.
    """

    folder: pathlib.Path
    name: str
    top: pathlib.Path
    rules: IgnoreRules
    known: KnownFiles
    glancing: bool = False

    def found(self) -> Iterator[Found]:
        """Yield what lies there, each folder's in the order of its names.

        Raises:
            StorageError: the system refused to tell.
            UsageError: folders lie too deep in each other.
        """
        waiting = [_Place(self.folder, pathlib.PurePosixPath(self.name))]
        while waiting:
            place = waiting.pop()
            entries = self._listed(place)
            whole = self._as_a_whole(place, entries)
            if whole is not None:
                yield whole
                continue
            below: list[_Place] = []
            for entry in entries:
                yield from self._look(entry, place, below)
            waiting += reversed(below)

    def _look(self, entry: os.DirEntry[str], place: _Place, below: list[_Place]) -> Iterator[Found]:
        """Yield what an entry is; a folder to walk through goes to those `below`."""
        path, name = place.path / entry.name, place.name / entry.name
        is_folder, inner = entry.is_dir(follow_symlinks=False), str(name)
        ignored = self._is_ignored(inner, path, place, is_folder=is_folder)
        if ignored and inner not in self.known.folders:
            return
        if is_tool_folder(entry.name):
            if path.absolute() != (self.top / STORE_FOLDER).absolute():
                yield Found(inner, path, FoundKind.ACTING)
        elif is_folder:
            if self.glancing and entry.name.startswith(".") and inner not in self.known.folders:
                yield Found(inner, path, FoundKind.HIDDEN)
            else:
                below.append(_Place(path, name, ignored))
        elif not is_temporary(entry.name):
            with suppress(StorageError) if self.glancing else nullcontext():
                yield self._leaf(entry, inner, path)

    def _is_ignored(self, name: str, path: pathlib.Path, place: _Place, *, is_folder: bool) -> bool:
        if name in self.known.names or (self.known.places and normal_path(path) in self.known.places):
            return False
        return place.ignored or self.rules.ignores(name, folder=is_folder)

    def _leaf(self, entry: os.DirEntry[str], name: str, path: pathlib.Path) -> Found:
        if entry.is_file(follow_symlinks=False):
            return self._file(name, path)
        status = status_of(path)
        if status is None:
            return Found(name, path, FoundKind.LINK, "a link that leads nowhere")
        if stat.S_ISDIR(status.st_mode):
            return Found(name, path, FoundKind.LINK, "a link to a folder")
        if not stat.S_ISREG(status.st_mode):
            return Found(name, path, FoundKind.OTHER, file_kind(status))
        if not real_path(path).is_relative_to(self._real):
            return Found(name, path, FoundKind.LINK_OUT, f"a link that leaves the folder '{self.folder}'")
        return self._file(name, path)

    def _file(self, name: str, path: pathlib.Path) -> Found:
        places = self.known.places
        return Found((places and places.get(normal_path(path))) or name, path, FoundKind.FILE)

    @cached_property
    def _real(self) -> pathlib.Path:
        return real_path(self.folder)

    def _as_a_whole(self, place: _Place, entries: list[os.DirEntry[str]]) -> Found | None:
        """Return a folder that nothing is taken of, as what it is."""
        name, names = str(place.name), [entry.name for entry in entries]
        if normal_path(place.path) == normal_path(self.top):
            return None
        if DESCRIPTION_FILE in names and is_store(place.path):
            return Found(name, place.path, FoundKind.OTHER, "a store of mvcs")
        if place.path != self.folder and is_bare(names):
            return Found(name, place.path, FoundKind.ACTING)
        return None

    def _listed(self, place: _Place) -> list[os.DirEntry[str]]:
        if len(place.name.parts) >= MAX_PARTS:
            if self.glancing:
                return []
            raise UsageError(f"'{str(self.folder)[:_LONG]}' holds folders in more than {MAX_PARTS} others")
        try:
            with os.scandir(place.path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if self.glancing:
                return []
            raise storage_error("read", place.path, error) from error


def status_of(path: pathlib.Path) -> os.stat_result | None:
    """Return what a path leads to; None where it leads nowhere.

    Raises:
        StorageError: the system refused to tell.
    """
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise storage_error("read", path, error) from error


def is_temporary(name: str) -> bool:
    """Tell whether a file's name is that of a hidden temporary file, which no commit takes."""
    return name.startswith(".") and (".tmp" in name or name.endswith((".swp", ".part", "~")))


DESCRIPTION_FILE = "mvcs.json"
_BESIDE = ("packs", "refs")
_KEYS = frozenset({"format", "store", "project"})
_MAX_DESCRIPTION = 1 << 16


def is_store(folder: pathlib.Path) -> bool:
    """Tell whether a folder is a store, whatever its name: a new one holds its description and no more."""
    if not os.path.lexists(f"{folder}/{DESCRIPTION_FILE}"):
        return False  # so it is with nearly all
    description = folder / DESCRIPTION_FILE
    try:
        if description.is_symlink() or not description.is_file():
            return False
        return any((folder / name).is_dir() for name in _BESIDE) or _describes(description)
    except OSError:
        return False


def _describes(description: pathlib.Path) -> bool:
    with description.open("rb") as file:
        data = file.read(_MAX_DESCRIPTION)
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(values, dict) and values.keys() >= _KEYS


def store_around(path: pathlib.Path, top: pathlib.Path | None = None) -> pathlib.Path | None:
    """Return the store that a path lies in, or is, once links are followed; None where there is none.

    Args:
        path: a file or folder, which need not exist.
        top: a folder that counts as none itself, nor do those above it.
    """
    return next(filter(is_store, _up(real_path(path), None if top is None else real_path(top))), None)


def _up(path: pathlib.Path, top: pathlib.Path | None) -> Iterator[pathlib.Path]:
    for folder in (path, *path.parents):
        if folder == top:
            return
        yield folder
