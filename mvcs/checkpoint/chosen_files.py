"""Which files a commit takes when files and folders are named, what each is called in it; walking folders."""

import errno
import json
import os
import pathlib
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum, auto
from functools import cache, cached_property, partial

from mvcs.checkpoint.ignore_rules import IGNORE_FILE, IgnoreRules
from mvcs.checkpoint.state.stamped import file_kind, storage_error
from mvcs.errors import ConflictError, NotFoundError, StorageError, UsageError, some_of
from mvcs.local_files import normal_path, real_path
from mvcs.objects import (
    MAX_PARTS,
    STORE_FOLDER,
    UnfitPath,
    is_acting_name,
    is_bare,
    is_tool_folder,
    unfit_paths,
    unfit_text,
)

_SHOWN = 5
_HOW_TO_LEAVE_OUT = (
    f"rename what is named here, or leave it out of folders by a line in '{IGNORE_FILE}'; "
    "'mvcs commit FILE --as NAME' calls a file otherwise in the commit"
)
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
        elif not (  # a hidden temporary file, which no commit takes
            entry.name.startswith(".")
            and (".tmp" in entry.name or entry.name.endswith((".swp", ".part", "~")))
        ):
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


@dataclass(frozen=True, order=True)
class Chosen:
    """One file a commit takes.

    Attributes:
        name: its path in the commit.
        path: where it lies.
        named: False when it was found inside a named folder, now or for an earlier commit.
        found_before: it was for an earlier commit, which keeps it as it is.
    """

    name: str
    path: pathlib.Path
    named: bool
    found_before: bool = False


def choose(
    paths: Sequence[pathlib.Path],
    top: pathlib.Path,
    names: Mapping[pathlib.Path, str],
    found_before: Collection[pathlib.Path],
    known: KnownFiles = NO_FILES,
    *,
    any_names: bool = False,
) -> tuple[list[Chosen], list[str]]:
    """Return the files to take, sorted by their paths in the commit, and notes on what was left out.

    With `any_names` they are not committed, and may be called what no file of a commit may.

    Raises:
        NotFoundError: a named path does not exist.
        UsageError: a path lies outside `top` and has no name, names collide, a link leaves its folder, or a
            named path is no file or lies in a store; or paths could not be restored on every system.
        ConflictError: a link stands where the commit before has files.
    """
    found: list[Chosen] = []
    left_out, rules = LeftOut(), cache(partial(IgnoreRules.of, top))
    for path in paths:
        name = committed_name(path, top, names)
        status = status_of(path)
        if status is None:
            raise missing_error(path)
        if _is_stored(path, top, found_before):
            left_out.others.append(f"'{name}' was left out: it lies in a store of mvcs")
        elif stat.S_ISDIR(status.st_mode):
            found += _inside(FolderWalk(path, name, top, rules(), known), left_out)
        elif not stat.S_ISREG(status.st_mode):
            raise UsageError(f"'{path}' is {file_kind(status)}, not a file or a folder")
        elif path in found_before and any(map(is_acting_name, name.split("/"))):
            left_out.acting.append(name)
        else:
            found.append(Chosen(name, path, path not in found_before, path in found_before))
    if not any_names:
        refuse_unfit(unfit_paths(file.name for file in found), _HOW_TO_LEAVE_OUT)
    return _distinct(found), left_out.notes()


@dataclass
class LeftOut:
    """What a commit leaves out of the folders it is given.

    Attributes:
        acting: folders and files that version control tools act on.
        others: what is not a file, each with what it is.
    """

    acting: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return a line for all that acts, and one for each of the others."""
        if not self.acting:
            return self.others
        shown = some_of([f"'{name}'" for name in self.acting], _SHOWN)
        return [f"{shown} left out: version control tools would act on it", *self.others]


def missing_error(path: pathlib.Path) -> NotFoundError:
    """Return the error for a path that leads nowhere."""
    if path.is_symlink():
        return NotFoundError(
            f"'{path}' is a link that leads nowhere", hint="put back what it led to, or remove the link"
        )
    return NotFoundError(f"no such file: '{path}'", hint=_named_instead(path))


def _named_instead(path: pathlib.Path) -> str:
    """Return what to do about a path that is not there, with one beside it that is called nearly so."""
    near: list[str] = []
    with suppress(OSError):
        near = get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1)
    return f"did you mean '{path.with_name(near[0])}'?" if near else "name a file or a folder that is there"


def _is_stored(path: pathlib.Path, top: pathlib.Path, found_before: Collection[pathlib.Path]) -> bool:
    """Tell whether a path lies in a store, where an earlier commit may have found it.

    Raises:
        UsageError: it does, and somebody named it.
    """
    store = store_around(path, top)
    if store is not None and path not in found_before:
        raise UsageError(
            f"'{path}' lies in the store '{store}'", hint="a store is copied with 'mvcs push', not committed"
        )
    return store is not None


def _inside(walk: FolderWalk, left_out: LeftOut) -> Iterator[Chosen]:
    for found in walk.found():
        if found.kind is FoundKind.FILE:
            yield Chosen(found.name, found.path, named=False)
        elif found.kind is FoundKind.ACTING:
            left_out.acting.append(found.name)
        elif found.kind is FoundKind.LINK_OUT:
            raise UsageError(f"'{found.path}' is {found.what}", hint=_of_real_files(found.path))
        else:
            if found.kind is FoundKind.LINK and found.name in walk.known:
                raise link_instead_error(found.name, found.what)
            left_out.others.append(f"'{found.name}' was left out: it is {found.what}")


def link_instead_error(name: str, what: str) -> ConflictError:
    """Return the error for files that the commit before has, and that a link stands for by now."""
    return ConflictError(
        f"HEAD has files at '{name}', which is {what} now: a commit does not follow it",
        hint="put the files themselves in its place, or leave them out of the next commit: "
        f"mvcs rm --cached '{name}' -m MESSAGE",
    )


def _of_real_files(link: pathlib.Path) -> str:
    """Return what to commit instead of a folder with a link that leaves it."""
    if "blobs" not in real_path(link).parts:
        return f"commit what it points to with --as NAME, or leave it out by a line in '{IGNORE_FILE}'"
    return "this is a hub's cache: commit what save_pretrained writes, or a download with local_dir="


def _distinct(found: list[Chosen]) -> list[Chosen]:
    chosen: dict[str, Chosen] = {}
    for file in sorted(found):
        other = chosen.setdefault(file.name, file)
        if not other.path.samefile(file.path):
            raise UsageError(f"'{other.path}' and '{file.path}' would both be '{file.name}' in the commit")
        chosen[file.name] = Chosen(
            file.name, file.path, other.named or file.named, other.found_before and file.found_before
        )
    for name in chosen:
        parents = map(str, pathlib.PurePosixPath(name).parents)
        above = next((parent for parent in parents if parent in chosen), None)
        if above is not None:
            raise UsageError(f"'{above}' and '{name}' cannot both be files in one commit")
    return [chosen[name] for name in sorted(chosen)]


def committed_name(path: pathlib.Path, top: pathlib.Path, names: Mapping[pathlib.Path, str]) -> str:
    """Return the path in the commit of a file or folder that was named.

    Raises:
        UsageError: it lies outside `top` and has no name.
    """
    return names[path] if path in names else _relative(path, top)


def _relative(path: pathlib.Path, top: pathlib.Path) -> str:
    # A link in a path may lead into or out of the top folder: as written first, then as resolved.
    for mine, theirs in (
        (normal_path(path), normal_path(top)),
        (real_path(path.parent) / path.name, real_path(top)),
    ):
        if mine.is_relative_to(theirs):
            return mine.relative_to(theirs).as_posix()
    raise UsageError(f"'{path}' lies outside '{top}'", hint="give it a name in the commit: --as NAME")


def refuse_unfit(found: Sequence[UnfitPath], hint: str) -> None:
    """Refuse to make a commit whose files could not be brought into every folder.

    Raises:
        UsageError: something was found; the error names it by reasons.
    """
    if found:
        ends = "cannot be the path of a file in a commit", "cannot be paths of files in a commit"
        raise UsageError(unfit_text(found, *ends), hint=hint)
