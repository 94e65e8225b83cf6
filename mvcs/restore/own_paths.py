"""Where a commit's files may lie in a folder: what is written there, and what goes from it."""

import os
import pathlib
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable

from mvcs.checkpoint import store_around
from mvcs.errors import CorruptionError, UsageError
from mvcs.local_files import real_path
from mvcs.objects import BARE_NAMES, Tree, UnfitReason, is_bare, unfit_text
from mvcs.restore.open_folder import OpenFolder

_ANOTHER_NAME = (
    "one file of the commit can be written under another name: mvcs checkout REV:FILE -o NAME; "
    "its tensors to one file: mvcs checkout REV -o FILE.safetensors"
)
LEFT_STORED_NOTE = "was left in the folder: it lies in a store of mvcs"


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
