"""A folder held open: what is written, renamed and removed below it goes through no symbolic link.

Each time a path is walked anew from the open folder, a segment at a time, so that a folder that somebody
swaps for a link in between is not followed either.
"""

import errno
import os
import pathlib
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from mvcs.local_files import sweep_open

_HELD = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _HELD | os.O_NOFOLLOW
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Opener = Callable[[str, int], int]


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
