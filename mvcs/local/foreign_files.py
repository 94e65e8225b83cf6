"""What lies in the place of a store that mvcs did not make: it is named, and never touched."""

import re

from mvcs.errors import some_of
from mvcs.local_files import FOLDER, SCRATCH, maker_of
from mvcs.store import EXACT_FOLDER, TEMPORARY_FOLDER, VALUE_FOLDER, Backend

_STORE = r"mvcs\.json|packs|exact|refs|retention|merged|index|gc|format|tmp"
_LOCAL = r"HEAD|config\.toml|config\.lock|local|incoming|lineage\.sqlite.*|failures\.log|cache|\.mvcs"
_OURS = re.compile(f"{_STORE}|{_LOCAL}")
_PREFIX = re.compile("[0-9a-f]{2}")
_SHOWN = 3


def foreign_files_note(backend: Backend) -> str | None:
    """Return what to say of foreign files and folders where a store is made; None when there are none.

    Raises:
        StorageError: the place cannot be listed.
    """
    names = _foreign(backend)
    if not names:
        return None
    shown = some_of([f"'{name}'" for name in names], _SHOWN)
    noun = "file or folder" if len(names) == 1 else "files and folders"
    return f"'{backend.url}' holds {len(names)} {noun} that mvcs did not make ({shown}); they are left alone"


def _foreign(backend: Backend) -> list[str]:
    found = [name for name in backend.children("") if not _is_ours(name)]
    found += [f"{TEMPORARY_FOLDER}/{name}" for name in backend.children(TEMPORARY_FOLDER) if _is_odd(name)]
    for folder in (VALUE_FOLDER, EXACT_FOLDER):
        found += [f"{folder}/{name}" for name in backend.children(folder) if not _PREFIX.fullmatch(name)]
    return found


def _is_odd(name: str) -> bool:
    return maker_of(name) is None and maker_of(name, FOLDER) is None


def _is_ours(name: str) -> bool:
    return bool(_OURS.fullmatch(name) or maker_of(name) or maker_of(name, SCRATCH))
