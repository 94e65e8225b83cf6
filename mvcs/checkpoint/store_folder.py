"""Stores of mvcs in a user's folders: what is in them is nobody's file to commit, write or remove."""

import json
import os
import pathlib
from collections.abc import Iterator

from mvcs.local_files import real_path

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
