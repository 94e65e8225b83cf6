"""Writing below a folder: which paths of a commit may lie there, and a folder that is held open.

Each time a path is walked anew from the open folder, a segment at a time, so that a folder that somebody
swaps for a link in between is not followed either.
"""

import errno
import os
import pathlib
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from mvcs.checkpoint import store_around
from mvcs.errors import CorruptionError, UsageError
from mvcs.local_files import real_path, sweep_open
from mvcs.objects import BARE_NAMES, Tree, UnfitReason, is_bare, unfit_text

_HELD = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _HELD | os.O_NOFOLLOW
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Opener = Callable[[str, int], int]
_ANOTHER_NAME = (
    "one file of the commit can be written under another name: mvcs checkout REV:FILE -o NAME; "
    "its tensors to one file: mvcs checkout REV -o FILE.safetensors"
)
LEFT_STORED_NOTE = "was left in the folder: it lies in a store of mvcs"


@dataclass(frozen=True)
class OpenFolder:
    """A folder, and paths below it as commits have them.

    Every method raises OSError with the path where it failed; of a link, ELOOP.

    Attributes:
        place: where it lay when it was opened.
        descriptor: what it is held by, wherever it goes.
    """

    place: pathlib.Path
    descriptor: int

    @classmethod
    @contextmanager
    def at(cls, place: pathlib.Path, *, make: bool = False) -> Iterator["OpenFolder"]:
        """Hold a folder open; links on the way to it are its user's own, and followed."""
        if make:
            place.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place, _HELD)
        try:
            yield cls(place, descriptor)
        finally:
            os.close(descriptor)

    def make_above(self, path: str) -> None:
        """Make the folders that a path lies in, as far as they are missing."""
        with self._above(path, make=True):
            pass

    def sweep_beside(self, path: str) -> None:
        """Remove the temporary files that killed processes left where a path lies."""
        with suppress(OSError), self._above(path) as (folder, _):
            sweep_open(folder)

    def opener(self, path: str) -> Opener:
        """Return what opens a new file for writing, in place of `os.open`."""

        def opened(_: str, __: int) -> int:
            with self._above(path) as (folder, name), self._telling(path):
                return os.open(name, _NEW, 0o666, dir_fd=folder)

        return opened

    def status(self, path: str) -> os.stat_result:
        """Return what is there; of a link, the link."""
        with self._above(path) as (folder, name), self._telling(path):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, in the place of any other."""
        with self._above(old) as (source, before), self._above(new) as (target, after), self._telling(new):
            os.rename(before, after, src_dir_fd=source, dst_dir_fd=target)

    def remove(self, path: str) -> None:
        """Remove a file or a link, if it is there."""
        with suppress(FileNotFoundError), self._above(path) as (folder, name), self._telling(path):
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, path: str) -> None:
        """Remove a folder, if it is there, that holds nothing but folders that do so too."""
        with suppress(FileNotFoundError), self._above(path) as (folder, name), self._telling(path):
            for _, inner, _, descriptor in os.fwalk(name, topdown=False, dir_fd=folder):
                for below in inner:
                    os.rmdir(below, dir_fd=descriptor)
            os.rmdir(name, dir_fd=folder)

    def remove_emptied(self, path: str) -> None:
        """Remove the folders that a path lay in, as far as they are empty, but not where the user stands."""
        above = path.split("/")[:-1]
        with suppress(OSError):
            here = pathlib.Path().stat()
            while above:
                with self._above("/".join(above)) as (folder, name):
                    if os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), here):
                        break
                    os.rmdir(name, dir_fd=folder)
                above.pop()

    @contextmanager
    def _above(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder that a path lies in; gives its descriptor, and the name in it."""
        *above, name = path.split("/")
        folder = self._opened(above, make=make)
        try:
            yield folder, name
        finally:
            os.close(folder)

    def _opened(self, above: list[str], *, make: bool) -> int:
        here = os.dup(self.descriptor)
        for depth, name in enumerate(above, 1):
            try:
                below = _made(here, name) if make else os.open(name, _FOLDER, dir_fd=here)
            except OSError as error:
                raise self._at(_of_link(here, name) or error, "/".join(above[:depth])) from error
            finally:
                os.close(here)
            here = below
        return here

    @contextmanager
    def _telling(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._at(error, path) from error

    def _at(self, error: OSError, path: str) -> OSError:
        """Return an error that names a path in full."""
        return OSError(error.errno, error.strerror, str(self.place / path))


def _made(folder: int, name: str) -> int:
    """Open a folder in a folder, and make it where there is none."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        with suppress(FileExistsError):  # somebody was quicker
            os.mkdir(name, dir_fd=folder)
        return os.open(name, _FOLDER, dir_fd=folder)


def _of_link(folder: int, name: str) -> OSError | None:
    """Return the error for what is a link in the place of a folder; systems say it in several ways."""
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return OSError(errno.ELOOP, "a symbolic link is there, which is not followed")
    return None


def lies_inside(folder: pathlib.Path, path: str) -> bool:
    """Tell whether a committed path stays inside a folder when symbolic links are followed."""
    return real_path((folder / path).parent).is_relative_to(real_path(folder))


def stored_among(folder: pathlib.Path, paths: Collection[str]) -> set[str]:
    """Return those of committed paths that lie in a store below a folder; each folder is asked once."""
    parents = {(folder / path).parent for path in paths}
    stored = {parent for parent in parents if store_around(parent, folder) is not None}
    return {path for path in paths if (folder / path).parent in stored} if stored else set()


def refuse_inside(local: pathlib.Path | None, top: pathlib.Path | None, target: pathlib.Path) -> None:
    """Refuse to write to `.mvcs`, which is `local`, or into another store.

    Raises:
        UsageError: `target` lies there.
    """
    if local is not None and real_path(target).is_relative_to(real_path(local)):
        raise UsageError(f"'{target}' lies inside the repository's own folder", hint="choose another place")
    store = store_around(target, top)
    if store is not None:
        raise UsageError(f"'{target}' lies inside the store '{store}'", hint="choose another place")


def link_on_the_way(folder: pathlib.Path, path: str) -> pathlib.Path | None:
    """Return the first link to a folder among the folders that a committed path lies in; None for none.

    Any other link is in the way like a file, and not followed either.
    """
    place = str(folder)
    for name in path.split("/")[:-1]:
        place = f"{place}/{name}"
        try:
            is_link = stat.S_ISLNK(os.lstat(place).st_mode)
        except OSError:
            break  # nor is anything below it
        if is_link:
            found = pathlib.Path(place)
            return found if found.is_dir() else None
    return None


def refuse_detours(folder: pathlib.Path, paths: Collection[str]) -> None:
    """Refuse to write committed paths elsewhere than where a folder has them.

    Raises:
        UsageError: one leads through a symbolic link below the folder, or into a store.
    """
    stored = min(stored_among(folder, paths), default=None)
    if stored is not None:
        raise UsageError(
            f"'{stored}' lies in a store of mvcs in '{folder}', and is not written there",
            hint="write the commit to another place: mvcs checkout REV -o FOLDER",
        )
    for path in {path.rpartition("/")[0]: path for path in paths}.values():
        link = link_on_the_way(folder, path)
        if link is not None:
            raise UsageError(
                f"'{path}' leads through the symbolic link '{link}', and is not written",
                hint="remove the link",
            )


def refuse_unfit_tree(tree: Tree) -> None:
    """Refuse to bring files of these names into a folder, before anything is written.

    Raises:
        CorruptionError: version control tools would obey one of them; the error names all that is unfit.
        UsageError: on some system they would not be what they are called, or two of them would be one.
    """
    if tree.unfit:
        acting = any(unfit.reason is UnfitReason.ACTING for unfit in tree.unfit)
        kind = CorruptionError if acting else UsageError
        raise kind(unfit_text(tree.unfit, "is not restored", "are not restored"), hint=_ANOTHER_NAME)


def refuse_bare(folder: pathlib.Path, paths: Iterable[str]) -> None:
    """Refuse to write files that, with what lies beside them, make a folder one of git's.

    Raises:
        CorruptionError: git would obey it; the error names the folder.
    """
    names: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            names["/".join(parts[:depth])].add(part)
    absent = set[str]()
    for inner, written in names.items():
        place = f"{folder}/{inner}" if inner else str(folder)
        # A folder comes after the one that it lies in.
        if inner and (inner.rpartition("/")[0] in absent or not os.path.lexists(place)):
            absent.add(inner)
        known = () if inner in absent else BARE_NAMES
        there = {name for name in known if os.path.lexists(f"{place}/{name}")}
        if is_bare(written | there):
            raise CorruptionError(
                f"nothing is written to '{place}': with what lies there git would take it for its own",
                hint="move 'HEAD', 'objects' and 'refs' there away, or choose an empty folder",
            )


def remove_file(top: pathlib.Path, path: str) -> None:
    """Remove a committed file, and folders below `top` that are empty then, but not where the user stands.

    Raises:
        OSError: the file cannot be removed, or lies behind a symbolic link.
    """
    with OpenFolder.at(top) as folder:
        folder.remove(path)
        folder.remove_emptied(path)
