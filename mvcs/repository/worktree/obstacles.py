"""Files where a commit needs a folder, and folders where it has a file."""

import os
import pathlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mvcs.errors import ConflictError
from mvcs.restore import OpenFolder


@dataclass(frozen=True)
class Obstacles:
    """What goes from a folder before files can come.

    Attributes:
        top: the folder.
        files: what goes, in the place of folders and inside those in the place of files.
        folders: folders in the place of files.
    """

    top: pathlib.Path
    files: tuple[str, ...]
    folders: tuple[str, ...]

    @classmethod
    def of(
        cls, top: pathlib.Path, paths: Sequence[str], stale: Collection[str], *, force: bool
    ) -> "Obstacles":
        """Look for what stands where files come.

        Args:
            top: the folder.
            paths: the files that come.
            stale: those that go, since the commit does not have them.
            force: whether any other file may go that stands where a folder comes.

        Raises:
            ConflictError: it would not go otherwise. All that a folder holds never goes.
        """
        above = {str(parent) for path in paths for parent in pathlib.PurePosixPath(path).parents}
        files = list(_no_folders(top, above))
        stay = next((path for path in files if path not in stale), None)
        if stay is not None and not force:
            kind = "a file" if (top / stay).exists() else "a link that leads nowhere"
            raise ConflictError(
                f"'{stay}' is {kind}, and a folder comes in its place",
                hint="move it away; with --force it is lost",
            )
        folders = [path for path in paths if (top / path).is_dir() and not (top / path).is_symlink()]
        for folder in folders:
            inside = list(_inside(top, folder))
            stay = next((path for path in inside if path not in stale), None)
            if stay is not None:
                raise ConflictError(
                    f"'{folder}' is a folder with '{stay}' in it, and a file comes in its place",
                    hint="move the folder away",
                )
            files += inside
        return cls(top, tuple(files), tuple(folders))

    def clear(self) -> None:
        """Remove them.

        Raises:
            OSError: one cannot be removed, or something came into a folder meanwhile.
        """
        if not self.files and not self.folders:
            return
        with OpenFolder.at(self.top) as top:
            for path in self.files:
                top.remove(path)
            for path in self.folders:
                top.remove_folder(path)


def _no_folders(top: pathlib.Path, paths: Collection[str]) -> Iterator[str]:
    """Yield those of some paths, each with all above it, where something is that is no folder, sorted."""
    absent = set[str]()
    for path in sorted(paths):
        if path.rpartition("/")[0] in absent or not os.path.lexists(top / path):
            absent.add(path)
        elif is_no_folder(top / path):
            yield path


def is_no_folder(path: pathlib.Path) -> bool:
    """Tell whether something is there that is no folder."""
    return not path.is_dir() and os.path.lexists(path)


def _inside(top: pathlib.Path, folder: str) -> Iterator[str]:
    """Yield the paths of all below a folder that is no folder itself."""
    for place, folders, files in os.walk(top / folder):
        there = pathlib.Path(place)
        links = [name for name in folders if (there / name).is_symlink()]
        yield from ((there / name).relative_to(top).as_posix() for name in (*files, *links))
