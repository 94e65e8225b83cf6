"""Files that were written elsewhere than in place: what mvcs wrote it may write again, and nothing else."""

import pathlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from mvcs.errors import MvcsError
from mvcs.repository.local_records import LocalRecords

SUBJECT = "exports"
MOST = 4096


class Exports:
    """What this clone wrote where, by size and time; it forgets the oldest first."""

    def __init__(self, local: pathlib.Path | None) -> None:
        """Remember it in `local`, which is `.mvcs`; a bare store (None) remembers nothing."""
        self._records = LocalRecords(local)

    def is_own(self, path: pathlib.Path) -> bool:
        """Tell whether a file is as it was written from here."""
        return self._records.read(SUBJECT).get(_name(path)) == _stamp(path)

    def note(self, paths: Iterable[pathlib.Path]) -> None:
        """Take down files that were just written; that it fails costs a question later."""

        def change(record: dict[str, Any]) -> None:
            for path in paths:
                record.pop(_name(path), None)
                record[_name(path)] = _stamp(path)
            for name in list(record)[: len(record) - MOST]:
                del record[name]

        with suppress(MvcsError, OSError):
            self._records.update(SUBJECT, change)


def _name(path: pathlib.Path) -> str:
    return str(path.resolve())


def _stamp(path: pathlib.Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]
