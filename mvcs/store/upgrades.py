"""Whether a store outgrew format 1: `mvcs.json` is never written again, upgrades are recorded beside it.

`docs/format/README.md` is the specification.
"""

from dataclasses import dataclass

from mvcs.errors import ConflictError, CorruptionError, NotFoundError, UnsupportedFormatError
from mvcs.objects import MAX_NUMBER, as_integer, as_list, as_text, record_name, seal, unseal
from mvcs.store.backend import Backend

FOLDER = "format"
READING, CHANGING = 0, 1
CONDEMNED_PACKS, DROPPED_DATA = "condemned-packs", "dropped-data"
KNOWN = frozenset({CONDEMNED_PACKS, DROPPED_DATA})
"""The upgrades that this version keeps to."""
MAX_RECORD = 1 << 16
_MAGIC = b"MVCSUPG1"
_TIME_LIMIT = 1 << 62


@dataclass(frozen=True)
class Upgrade:
    """What a store may hold since a newer version wrote to it.

    Attributes:
        number: 0 for the first of the store.
        name: what the pages call it.
        scope: `READING` where who does not know it reads wrongly, `CHANGING` where only changes harm.
        time: microseconds since 1970-01-01 UTC.
        author: who brought it.
    """

    number: int
    name: str
    scope: int
    time: int
    author: str

    @property
    def path(self) -> str:
        """Where the record lies."""
        return f"{FOLDER}/{record_name(self.number)}"

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return seal(_MAGIC, [self.number, self.name, self.scope, self.time, self.author])

    @classmethod
    def decode(cls, data: bytes) -> "Upgrade":
        """Read the bytes of a record.

        Raises:
            CorruptionError: they are damaged.
            UnsupportedFormatError: a later version wrote them.
        """
        what = "a record of an upgrade"
        number, name, scope, time, author = as_list(unseal(_MAGIC, data, what, MAX_RECORD), what, 5)
        if scope not in (READING, CHANGING):
            raise UnsupportedFormatError(f"an upgrade has the scope {scope!r}", hint="upgrade mvcs")
        return cls(
            as_integer(number, "a record's number", 0, MAX_NUMBER + 1),
            as_text(name, "an upgrade's name"),
            as_integer(scope, "an upgrade's scope"),
            as_integer(time, "an upgrade's time", -_TIME_LIMIT, _TIME_LIMIT),
            as_text(author, "an upgrade's author"),
        )


def refuse_upgraded(backend: Backend) -> None:
    """Check that a store can be read as format 1 has it; readers look when they open it.

    Raises:
        UnsupportedFormatError: a newer mvcs upgraded it so that this one would read it wrongly.
        StorageError: it cannot be listed.
    """
    read_upgrades(backend)


def read_upgrades(backend: Backend) -> list[Upgrade]:
    """Return the upgrades of a store, as far as this version can read on beside them.

    Raises:
        UnsupportedFormatError: a newer mvcs upgraded the store so that this one would read it wrongly.
        StorageError: the store cannot be listed.
    """
    if backend.newest(FOLDER) is None:
        return []
    names = [name for name in backend.children(FOLDER) if name[:1].isdigit()]
    found = [_readable(backend, f"{FOLDER}/{name}") for name in names]
    for number, each in enumerate(sorted(one.number for one in found)):
        if each != number:
            lost = f"{FOLDER}/{record_name(number)}"
            raise _outgrown(backend, f"record {number}, which is missing", lost)
    return found


def _readable(backend: Backend, path: str) -> Upgrade:
    found = _decoded(backend, path)
    if found is None:
        raise _outgrown(backend, f"'{path}'", path)
    if found.scope == READING:
        raise _outgrown(backend, f"'{found.name}'")
    return found


def _outgrown(backend: Backend, why: str, harmed: str | None = None) -> UnsupportedFormatError:
    """Return the error; `harmed` is a record that damage may have made look like a newer one's."""
    hint = "upgrade mvcs; nothing was changed"
    if harmed is not None:
        hint += (
            f". Where no newer mvcs ever wrote there, '{harmed}' may be damaged or lost: copy it from a "
            "backup, or from a clone or remote where a file of that name says the same upgrade"
        )
    return UnsupportedFormatError(f"'{backend.url}' was upgraded to a newer format ({why})", hint=hint)


def _decoded(backend: Backend, path: str) -> Upgrade | None:
    """Return what a record says; None where this version cannot tell what it asks for."""
    try:
        found = Upgrade.decode(backend.read_small(path, MAX_RECORD))
    except (CorruptionError, NotFoundError, UnsupportedFormatError):
        return None
    return found if found.path == path else None


def refuse_changes(backend: Backend) -> frozenset[str]:
    """Check that a store may be changed, or what it has be taken elsewhere; return the upgrades that it has.

    Writers look before each change of a ref, and once more behind it: a training run keeps a store open for
    weeks.

    Raises:
        UnsupportedFormatError: a newer mvcs upgraded the store.
        StorageError: the store cannot be listed.
    """
    names = frozenset(found.name for found in read_upgrades(backend))
    for name in sorted(names - KNOWN):
        raise UnsupportedFormatError(
            f"'{backend.url}' was upgraded for newer versions ('{name}'): this one may only read it",
            hint="upgrade mvcs; nothing was changed, and what is there can be shown and checked out",
        )
    return names


def upgrade(backend: Backend, name: str, time: int, author: str) -> None:
    """Record that a store may hold what older versions would harm; once is enough.

    Raises:
        UnsupportedFormatError: a newer mvcs upgraded the store.
        StorageError: it cannot be recorded.
    """
    while name not in refuse_changes(backend):
        number = len(read_upgrades(backend))
        record = Upgrade(number, name, CHANGING, time, author)
        try:
            backend.create(record.path, record.encode())
        except ConflictError:
            continue  # another upgrade was first; ours comes behind it


def has_upgrade(backend: Backend, name: str) -> bool:
    """Tell whether a store has an upgrade of a name."""
    return any(found.name == name for found in read_upgrades(backend))
