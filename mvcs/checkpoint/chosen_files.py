"""Which files a commit takes when files and folders are named, and what each is called in it."""

import errno
import os
import pathlib
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches

from mvcs.checkpoint.commit_names import committed_name, refuse_unfit
from mvcs.checkpoint.state.stamped import file_kind, storage_error
from mvcs.checkpoint.store_folder import DESCRIPTION_FILE, is_store, store_around
from mvcs.errors import NotFoundError, UsageError, some_of
from mvcs.local_files import real_path
from mvcs.objects import MAX_PARTS, STORE_FOLDER, is_acting_name, is_bare, is_tool_folder, unfit_paths

_SHOWN = 5
_LONG = 200  # characters of a path in a message
_HOW_TO_LEAVE_OUT = (
    "rename what is named here, or name the other files and folders alone; "
    "'mvcs commit FILE --as NAME' calls a file otherwise in the commit"
)


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


def is_temporary(name: str) -> bool:
    """Tell whether a file's name is that of a hidden temporary file, which no commit takes."""
    return name.startswith(".") and (".tmp" in name or name.endswith((".swp", ".part", "~")))


def choose(
    paths: Sequence[pathlib.Path],
    top: pathlib.Path,
    names: Mapping[pathlib.Path, str],
    found_before: Collection[pathlib.Path],
    *,
    any_names: bool = False,
) -> tuple[list[Chosen], list[str]]:
    """Return the files to take, sorted by their paths in the commit, and notes on what was left out.

    With `any_names` they are not committed, and may be called what no file of a commit may.

    Raises:
        NotFoundError: a named path does not exist.
        UsageError: a path lies outside `top` and has no name, names collide, a link leaves its folder, or a
            named path is no file or lies in a store; or paths could not be restored on every system.
    """
    found: list[Chosen] = []
    left_out = LeftOut(top / STORE_FOLDER)
    for path in paths:
        name = committed_name(path, top, names)
        status = _status(path)
        if status is None:
            raise NotFoundError(f"no such file: '{path}'", hint=_named_instead(path))
        if _is_stored(path, top, found_before):
            left_out.others.append(f"'{name}' was left out: it lies in a store of mvcs")
        elif stat.S_ISDIR(status.st_mode):
            found += _inside(path, name, left_out)
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
        own: the repository's own folder, of which nobody needs to hear.
        acting: folders and files that version control tools act on.
        others: what is not a file, each with what it is.
    """

    own: pathlib.Path
    acting: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return a line for all that acts, and one for each of the others."""
        if not self.acting:
            return self.others
        shown = some_of([f"'{name}'" for name in self.acting], _SHOWN)
        return [f"{shown} left out: version control tools would act on it", *self.others]


def _status(path: pathlib.Path) -> os.stat_result | None:
    """Return what a path leads to; None where it leads nowhere."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise storage_error("read", path, error) from error


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


def _inside(folder: pathlib.Path, name: str, left_out: LeftOut) -> Iterator[Chosen]:
    prefix, real = pathlib.PurePosixPath(name), real_path(folder)
    for path in _walk(folder, prefix, left_out):
        inner = str(prefix / path.relative_to(folder))
        status = _status(path)
        if status is None:
            left_out.others.append(f"'{inner}' was left out: it is a link that leads nowhere")
        elif not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            left_out.others.append(f"'{inner}' was left out: it is {file_kind(status)}")
        elif path.is_symlink() and not real_path(path).is_relative_to(real):
            raise UsageError(f"the link '{path}' leaves the folder '{folder}'", hint=_of_real_files(path))
        elif stat.S_ISDIR(status.st_mode):
            left_out.others.append(f"'{inner}' was left out: it is a link to a folder")
        else:
            yield Chosen(inner, path, named=False)


def _of_real_files(link: pathlib.Path) -> str:
    """Return what to commit instead of a folder with a link that leaves it."""
    if "blobs" not in real_path(link).parts:
        return "commit what it points to by name"
    return "this is a hub's cache: commit what save_pretrained writes, or a download with local_dir="


def _walk(folder: pathlib.Path, prefix: pathlib.PurePath, left_out: LeftOut) -> Iterator[pathlib.Path]:
    """Yield all that lies below a folder and is no folder itself; links are not followed."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        if len((prefix / here.relative_to(folder)).parts) >= MAX_PARTS:
            raise UsageError(f"'{str(folder)[:_LONG]}' holds folders in more than {MAX_PARTS} others")
        entries = _listed(here)
        described = any(entry.name == DESCRIPTION_FILE for entry in entries)
        if described and here.absolute() != left_out.own.parent.absolute() and is_store(here):
            left_out.others.append(
                f"'{prefix / here.relative_to(folder)}' was left out: it is a store of mvcs"
            )
            continue
        if here != folder and is_bare(entry.name for entry in entries):
            left_out.acting.append(str(prefix / here.relative_to(folder)))
            continue
        below = []
        for entry in entries:
            path = here / entry.name
            if is_tool_folder(entry.name):
                if path.absolute() != left_out.own.absolute():
                    left_out.acting.append(str(prefix / path.relative_to(folder)))
            elif entry.is_dir(follow_symlinks=False):
                below.append(path)
            elif not is_temporary(entry.name):
                yield path
        waiting += reversed(below)


def _listed(folder: pathlib.Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise storage_error("read", folder, error) from error


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
