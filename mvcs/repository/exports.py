"""Files that were written elsewhere than in place: what mvcs wrote it may write again, and nothing else."""

import pathlib
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, replace
from typing import Any

from mvcs.checkpoint.stamped import Stamp
from mvcs.errors import MvcsError
from mvcs.local_files import real_path
from mvcs.objects.ids import FileName
from mvcs.repository.local_records import LocalRecords

SUBJECT = "exports"
MOST = 4096
PIECE = 1 << 20


class Exports:
    """What this clone wrote where, by what the file was then; it forgets the oldest first."""

    def __init__(self, local: pathlib.Path | None) -> None:
        """Remember it in `local`, which is `.mvcs`; a bare store (None) remembers nothing."""
        self._records = LocalRecords(local)

    def is_own(self, path: pathlib.Path) -> bool:
        """Tell whether a file is as it was written from here."""
        match self._records.read(SUBJECT).get(_name(path)):
            case [*stamp, str() as digest]:
                is_same = stamp == list(astuple(Stamp.of(path.stat())))
                return is_same or bool(digest and digest == _digest(path))
        return False

    def note(self, paths: Iterable[pathlib.Path]) -> None:
        """Take down files that were just written; that it fails costs a question later."""

        def change(record: dict[str, Any]) -> None:
            for path in paths:
                record.pop(_name(path), None)
                record[_name(path)] = _written(path)
            for name in list(record)[: len(record) - MOST]:
                del record[name]

        with suppress(MvcsError, OSError):
            self._records.update(SUBJECT, change)


def _name(path: pathlib.Path) -> str:
    return str(real_path(path))


def _written(path: pathlib.Path) -> list[int | str]:
    """Return what tells a file that was just written: its stamp, or its content where that need not last."""
    found = Stamp.of(path.stat())
    stamp = replace(found, ctime_ns=found.mtime_ns).renamed(found, time.time_ns())
    return [*astuple(stamp), "" if stamp == found else _digest(path)]


def _digest(path: pathlib.Path) -> str:
    digest = FileName()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.text
