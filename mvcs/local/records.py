"""What this clone alone remembers: small JSON objects with checksums in `.mvcs/local`, one file a subject."""

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from mvcs.errors import CorruptionError, StorageError, raise_if_denied
from mvcs.local_files import locked, read_file, replace_file
from mvcs.objects import checksum
from mvcs.store import make_folder

RECORDS_FOLDER = "local"
MAX_BYTES = 16 << 20
_LOCK = "lock"


class LocalRecords:
    """Records by subject. No promise leans on one alone: a missing or damaged record is an empty one."""

    def __init__(self, local: pathlib.Path | None) -> None:
        """Keep records below `local`, which is `.mvcs`; a bare store (None) remembers nothing."""
        self._folder = None if local is None else local / RECORDS_FOLDER

    def read(self, subject: str) -> dict[str, Any]:
        """Return the record of a subject."""
        try:
            return self.look(subject) or {}
        except CorruptionError:
            return {}

    def look(self, subject: str) -> dict[str, Any] | None:
        """Return the record of a subject; None where there is none.

        Raises:
            CorruptionError: it is damaged.
            StorageError: it may not be read.
        """
        if self._folder is None:
            return None
        path = self._folder / f"{subject}.json"
        mend = "it is written again at the next change; move it away if it is no file"
        try:
            data = read_file(path, MAX_BYTES)
            value = None if data is None else json.loads(_whole(data))
        except (StorageError, ValueError, RecursionError) as error:
            raise_if_denied(error)
            raise CorruptionError(f"'{path}' is damaged: {error}", hint=mend) from error
        if data is not None and not isinstance(value, dict):
            raise CorruptionError(f"'{path}' is damaged: it holds no object", hint=mend)
        return value

    def damaged(self) -> Iterator[tuple[str, CorruptionError]]:
        """Yield the subjects of damaged records, and what is wrong with each."""
        for path in sorted(self._folder.glob("*.json")) if self._folder is not None else ():
            try:
                self.look(path.stem)
            except CorruptionError as error:
                yield path.stem, error

    def forget(self, subject: str) -> None:
        """Remove the record of a subject, as far as the disk lets us."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / f"{subject}.json").unlink(missing_ok=True)

    @contextlib.contextmanager
    def change(self, subject: str, *, durable: bool = True) -> Iterator[dict[str, Any]]:
        """Give the record of a subject, and write what became of it; other processes wait meanwhile.

        Args:
            subject: the record.
            durable: wait until the change outlives a power cut; without that one may cost the whole record.

        Raises:
            StorageError: it cannot be written; the old record stays.
        """
        if self._folder is None:
            yield {}
            return
        try:
            make_folder(self._folder)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StorageError(f"cannot make '{self._folder}': {reason}") from error
        with locked(self._folder / _LOCK):
            record = self.read(subject)
            before = json.dumps(record)
            yield record
            after = json.dumps(record)
            if after != before:
                data = after.encode() + b"\n" + _checksum(after.encode())
                replace_file(self._folder / f"{subject}.json", data, durable=durable)


def _whole(data: bytes) -> bytes:
    """Return the first line of a record; its checksum is the second, which earlier versions did not write.

    Raises:
        ValueError: it is damaged.
    """
    text, line_break, found = data.partition(b"\n")
    if line_break and found != _checksum(text):
        raise ValueError("the record does not match its checksum")
    return text


def _checksum(text: bytes) -> bytes:
    return checksum(text).hex().encode()
