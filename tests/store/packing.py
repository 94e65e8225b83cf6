"""Packs of entries that a test chooses, as bytes."""

from mvcs.delta.buffers import Buffer
from mvcs.objects.ids import ObjectId
from mvcs.store.backend.staged import StagedBytes
from mvcs.store.packs.entry import Entry
from mvcs.store.packs.footer import Placed
from mvcs.store.packs.pack import PackWriter
from mvcs.store.packs.written_commit import LastEntry
from mvcs.store.writing.writer import ObjectWriter


class PackBuilder:
    """A pack that is written into memory."""

    def __init__(self) -> None:
        self._data = b""
        self._file = StagedBytes(self._put)
        self._pack = PackWriter(self._file)

    @property
    def entries(self) -> list[Placed]:
        return self._pack.entries

    def fits(self, size: int) -> bool:
        return self._pack.fits(size)

    def add(self, entry: Entry, payload: Buffer, ids: tuple[ObjectId, ...]) -> None:
        self._pack.add(entry, payload, ids)

    def finish(self, last: LastEntry | None = None) -> bytes:
        name, _ = self._pack.finish(last)
        self._file.publish(name)
        return self._data

    def _put(self, name: str, data: bytes) -> None:  # noqa: ARG002 - the caller knows it
        self._data = data


def last_pack(writer: ObjectWriter) -> str | None:
    """Write what is left, and return the name of the last pack; None where none was written."""
    writer.finish()
    return writer.packs[-1] if writer.packs else None
