"""Compactions of this clone: one at a time is at work, and a background one says how far it is."""

import pathlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from mvcs.errors import ConflictError, StorageError
from mvcs.local.records import RECORDS_FOLDER, LocalRecords
from mvcs.local_files import HeldError, locked
from mvcs.processes import Process
from mvcs.store import make_folder

_LOCK = "compaction.lock"
SUBJECT = "background"


@contextmanager
def compaction_lock(local: pathlib.Path | None) -> Iterator[None]:
    """Keep other compactions of a clone away; `local` is its `.mvcs`, and None that of a bare store.

    Raises:
        ConflictError: another compaction is at work.
        StorageError: the lock cannot be taken.
    """
    with ExitStack() as stack:
        if local is not None:
            folder = local / RECORDS_FOLDER
            if not folder.is_dir():
                make_folder(folder)
            try:
                stack.enter_context(locked(folder / _LOCK, patience=0))
            except HeldError as error:
                raise ConflictError(
                    f"{error.holder} is compacting this repository",
                    hint="run it again when that has ended; a kill ends it, and the next one continues there",
                ) from error
        yield


@dataclass(frozen=True)
class BackgroundCompaction:
    """A compaction that takes a share of a processor.

    Attributes:
        process: is at it.
        done: commits that were looked at.
        total: of so many.
        failure: why it ended; None where it did not fail.
    """

    process: Process
    done: int = 0
    total: int = 0
    failure: str | None = None

    @property
    def runs(self) -> bool:
        """Whether it is at work, as far as this machine can tell."""
        return self.failure is None and self.process.is_gone() is False

    def keep(self, records: LocalRecords) -> None:
        """Put it on record, as far as the disk lets us: nothing but `status` goes by it."""
        with suppress(StorageError), records.change(SUBJECT, durable=False) as record:
            record |= {
                "process": str(self.process),
                "done": self.done,
                "total": self.total,
                "failure": self.failure,
            }

    @classmethod
    def last(cls, records: LocalRecords) -> "BackgroundCompaction | None":
        """Return what is on record; None for nothing, or nothing whole."""
        record = records.read(SUBJECT)
        process, failure = Process.parse(str(record.get("process"))), record.get("failure")
        numbers = [record.get("done"), record.get("total")]
        if process is None or not all(isinstance(it, int) and 0 <= it < 1 << 62 for it in numbers):
            return None
        if failure is not None and not isinstance(failure, str):
            return None
        done, total = (int(it or 0) for it in numbers)
        return cls(process, done, total, failure)


def forget_background(records: LocalRecords) -> None:
    """Forget what is on record: a compaction ended well."""
    records.forget(SUBJECT)
