"""Drop records: which packs of exact layers were given up on purpose, so that dropped differs from lost."""

from collections.abc import Iterator
from dataclasses import dataclass

from mvcs.errors import ConflictError, CorruptionError
from mvcs.objects import cbor
from mvcs.objects.fields import as_integer, as_list
from mvcs.objects.ids import ObjectId, as_id, checksum
from mvcs.store.backend import Backend

FOLDER = "retention/drops"
FOLDED = 64
_MAGIC = b"MVCSDRP1"
_CHECKSUM = 16
_LAST = 99_999_999


@dataclass(frozen=True)
class Drop:
    """One commit's exact layer, given up.

    Attributes:
        commit: whose layer it was.
        packs: the names of its packs.
        time: microseconds since 1970-01-01 UTC.
    """

    commit: ObjectId
    packs: tuple[str, ...]
    time: int


@dataclass(frozen=True)
class DropRecord:
    """A numbered record of drops; every 64th takes over those of the records before it.

    Attributes:
        number: 0 for the first; never reused.
        drops: what was given up.
    """

    number: int
    drops: tuple[Drop, ...]

    @property
    def name(self) -> str:
        """Where the record lies; the newest is listed first."""
        return f"{FOLDER}/{_LAST - self.number:08d}"

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        drops: list[cbor.Value] = [
            [drop.commit, [bytes.fromhex(name) for name in drop.packs], drop.time] for drop in self.drops
        ]
        body = _MAGIC + cbor.dumps([self.number, drops])
        return body + checksum(body)

    @classmethod
    def decode(cls, data: bytes) -> "DropRecord":
        """Read the bytes of a record.

        Raises:
            CorruptionError: they are damaged.
        """
        body, stored = data[:-_CHECKSUM], data[-_CHECKSUM:]
        if not body.startswith(_MAGIC) or checksum(body) != stored:
            raise CorruptionError("a drop record does not match its checksum")
        number, drops = as_list(cbor.loads(body[len(_MAGIC) :]), "a drop record", 2)
        return cls(
            as_integer(number, "a record's number", 0, _LAST + 1), tuple(map(_drop, as_list(drops, "drops")))
        )


def _drop(value: cbor.Value) -> Drop:
    commit, packs, time = as_list(value, "a drop", 3)
    names = tuple(as_id(pack).hex() for pack in as_list(packs, "a drop's packs"))
    return Drop(as_id(commit), names, as_integer(time, "a drop's time", -(1 << 62), 1 << 62))


class DropLog:
    """The drop records of a store."""

    def __init__(self, backend: Backend) -> None:
        """Keep the records in `backend`."""
        self._backend = backend

    def append(self, drops: tuple[Drop, ...]) -> DropRecord:
        """Record drops durably; only then may their packs be deleted."""
        while True:
            newest = self._newest()
            number = 0 if newest is None else newest + 1
            folded = list(self._since(number - number % FOLDED)) if number % FOLDED == FOLDED - 1 else []
            record = DropRecord(number, (*(drop for old in folded for drop in old.drops), *drops))
            try:
                self._backend.create(record.name, record.encode())
            except ConflictError:
                continue
            for old in folded:
                self._backend.delete(old.name)
            return record

    def drops(self) -> Iterator[Drop]:
        """Yield everything that was given up, newest record first.

        Raises:
            CorruptionError: a record is damaged.
        """
        for record in self._since(0):
            yield from record.drops

    def _since(self, number: int) -> Iterator[DropRecord]:
        for path in self._backend.list(FOLDER):
            key = path.rpartition("/")[2]
            if key.isdigit() and _LAST - int(key) >= number:
                yield DropRecord.decode(self._backend.read(path))

    def _newest(self) -> int | None:
        path = self._backend.newest(FOLDER)
        return None if path is None else _LAST - int(path.rpartition("/")[2])
