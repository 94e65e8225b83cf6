"""Where a commit's files may lie in a folder: what is written there, and what goes from it."""

import contextlib
import os
import pathlib
from collections import defaultdict
from collections.abc import Iterable

from mvcs.checkpoint.store_folder import store_around
from mvcs.errors import CorruptionError, UsageError
from mvcs.objects.paths import BARE_NAMES, is_bare

LEFT_STORED = "was left in the folder: it lies in a store of mvcs"


def lies_inside(folder: pathlib.Path, path: str) -> bool:
    """Tell whether a committed path stays inside a folder when symbolic links are followed."""
    return (folder / path).parent.resolve().is_relative_to(folder.resolve())


def is_stored(folder: pathlib.Path, path: str) -> bool:
    """Tell whether a committed path lies in a store of mvcs below a folder."""
    return store_around((folder / path).parent, folder) is not None


def refuse_inside(local: pathlib.Path | None, top: pathlib.Path | None, target: pathlib.Path) -> None:
    """Refuse to write to `.mvcs`, which is `local`, or into another store.

    Raises:
        UsageError: `target` lies there.
    """
    if local is not None and target.resolve().is_relative_to(local.resolve()):
        raise UsageError(f"'{target}' lies inside the repository's own folder", hint="choose another place")
    store = store_around(target, top)
    if store is not None:
        raise UsageError(f"'{target}' lies inside the store '{store}'", hint="choose another place")


def target_of(folder: pathlib.Path, path: str) -> pathlib.Path:
    """Return where a committed path is written.

    Raises:
        UsageError: it leads out of the folder through a symbolic link, or into a store.
    """
    if not lies_inside(folder, path):
        raise UsageError(f"'{path}' leads out of '{folder}' through a symbolic link", hint="remove the link")
    if is_stored(folder, path):
        raise UsageError(
            f"'{path}' lies in a store of mvcs in '{folder}', and is not written there",
            hint="write the commit to another place: mvcs checkout REV -o FOLDER",
        )
    return folder / path


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
    for inner, written in names.items():
        place = folder / inner
        there = {name for name in BARE_NAMES if os.path.lexists(place / name)}
        if is_bare(written | there):
            raise CorruptionError(
                f"nothing is written to '{place}': with what lies there git would take it for its own",
                hint="move 'HEAD', 'objects' and 'refs' there away, or choose an empty folder",
            )


def remove_file(top: pathlib.Path, path: str) -> None:
    """Remove a committed file, and folders below `top` that are empty then, but not where the user stands.

    Raises:
        OSError: the file cannot be removed.
    """
    (top / path).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for folder in (top / path).parents[: path.count("/")]:
            if folder.samefile(pathlib.Path()):
                break
            folder.rmdir()
