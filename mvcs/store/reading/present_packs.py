"""Which packs a store has, and whether one is whole."""

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.store.backend import Backend
from mvcs.store.backend.odd_files import odd_is_damage
from mvcs.store.packs.pack import MAX_FILE, name_of
from mvcs.store.reading.pack_files import EXACT_FOLDER, VALUE_FOLDER, pack_name, pack_path


def value_packs(backend: Backend) -> set[str]:
    """Return the names of all packs of value layers."""
    return set(filter(None, map(pack_name, backend.list(VALUE_FOLDER))))


def exact_packs(backend: Backend) -> set[str]:
    """Return the names of all packs of exact layers."""
    return set(filter(None, map(pack_name, backend.list(EXACT_FOLDER))))


def is_whole_pack(backend: Backend, name: str, *, exact: bool = False) -> bool:
    """Tell whether a pack is there and hashes to its name.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        with odd_is_damage():
            return name_of(backend.read_small(pack_path(name, exact=exact), MAX_FILE)) == name
    except (CorruptionError, NotFoundError):
        return False
