"""Compactions of this clone: what one stored before it broke off, and how far a background one is."""

import contextlib
import json
import pathlib
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.errors import ConflictError, StorageError
from mvcs.local.records import RECORDS_FOLDER, LocalRecords
from mvcs.local_files import HeldError, append_to, locked, read_file
from mvcs.processes import Process
from mvcs.store import make_folder, pack_name, pack_path

STEPS_FILE, _LOCK = "compaction.steps", "compaction.lock"
MAX_BYTES = 256 << 20
SUBJECT = "background"


@dataclass(frozen=True)
class Step:
    """One commit that was stored anew.

    Attributes:
        commit: its id, in hexadecimal digits.
        was: name of the pack that ended it before.
        wrote: names of the packs that were written for it; where these end it anew, the last one does.
        own: names of all of its packs, where it hangs and is not ended yet; None where it is.
        leant_on: then, names of other packs that it leans on.
        chosen: whether it had to keep to the limits.
    """

    commit: str
    was: str
    wrote: tuple[str, ...]
    own: tuple[str, ...] | None = None
    leant_on: tuple[str, ...] = ()
    chosen: bool = True

    @property
    def ends(self) -> bool:
        """Whether it ends the commit anew."""
        return self.own is None

    @property
    def line(self) -> bytes:
        """Its line in the file."""
        own = None if self.own is None else list(self.own)
        words = [self.commit, self.was, list(self.wrote), own, list(self.leant_on), self.chosen]
        return json.dumps(words, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self | None:
        """Read a line; None where it was cut, or is no step."""
        try:
            commit, was, wrote, own, leant_on, chosen = json.loads(line)
            lists = [tuple(wrote), None if own is None else tuple(own), tuple(leant_on)]
        except (ValueError, TypeError, RecursionError):
            return None
        names = [commit, was, *(name for names in lists for name in names or ())]
        if not lists[0] or not isinstance(chosen, bool) or not all(map(_is_name, names)):
            return None
        return cls(commit, was, lists[0], lists[1], lists[2] or (), chosen)


@dataclass
class CompactionSteps:
    """The steps of one compaction, and those of one with the same terms that was broken off.

    Attributes:
        path: the file; None for a bare store, which keeps none.
        found: what was found there, by the ids of commits and whether they were ended anew.
        packs: names of all packs that are on record, in the order of writing.
        abandoned: names of packs of a compaction with other terms.
    """

    path: pathlib.Path | None = None
    found: dict[tuple[str, bool], Step] = field(default_factory=dict)
    packs: dict[str, None] = field(default_factory=dict)
    abandoned: dict[str, None] = field(default_factory=dict)

    @classmethod
    @contextlib.contextmanager
    def opened(cls, local: pathlib.Path | None, terms: str) -> Iterator[Self]:
        """Hold the record of a clone, so that one compaction at a time is at work there.

        Args:
            local: `.mvcs` of the clone; None for a bare store.
            terms: what is asked for: steps of the same terms alone can be gone on with.

        Raises:
            ConflictError: another compaction is at work.
            StorageError: the record cannot be locked or read.
        """
        if local is None:
            yield cls()
            return
        folder = local / RECORDS_FOLDER
        if not folder.is_dir():
            make_folder(folder)
        with _held(folder):
            yield cls._begun(folder / STEPS_FILE, terms)

    @classmethod
    def _begun(cls, path: pathlib.Path, terms: str) -> Self:
        first, steps = _read(path)
        same = first == terms
        packs = {name: None for step in steps for name in step.wrote}
        found = {(step.commit, step.ends): step for step in steps} if same else {}
        kept, abandoned = (packs, dict[str, None]()) if same else ({}, packs)
        record = cls(path, found, kept, abandoned)
        try:
            if not same:
                path.unlink(missing_ok=True)
            # A line may have been cut.
            append_to(path, b"\n" if same else json.dumps([terms]).encode() + b"\n")
        except OSError:
            record.path = None
        return record

    def note(self, step: Step) -> None:
        """Put a step on record, which was verified; where that fails, it is done again another time."""
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            append_to(self.path, step.line)
            self.packs |= dict.fromkeys(step.wrote)
            self.found[step.commit, step.ends] = step

    def forget(self) -> None:
        """Forget all steps: refs lead to what they made, or they are given up."""
        self.packs.clear()
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)


def packs_to_go_on_with(local: pathlib.Path | None) -> set[str]:
    """Return the paths of packs that the next compaction of this clone may go on with, for two weeks.

    Raises:
        StorageError: the record cannot be read.
    """
    if local is None:
        return set()
    path = local / RECORDS_FOLDER / STEPS_FILE
    try:
        if path.lstat().st_mtime < time.time() - GRACE_DAYS * DAY_SECONDS:
            return set()
    except OSError:
        return set()
    return {pack_path(name) for step in _read(path)[1] for name in step.wrote}


@contextlib.contextmanager
def _held(folder: pathlib.Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / _LOCK, patience=0))
        except HeldError as error:
            raise ConflictError(
                f"{error.holder} is compacting this repository",
                hint="run it again when that has ended; a kill ends it, and the next one continues behind it",
            ) from error
        yield


def _read(path: pathlib.Path) -> tuple[str | None, list[Step]]:
    lines = (read_file(path, MAX_BYTES) or b"").splitlines()
    try:
        [terms] = json.loads(lines[0])
    except (IndexError, ValueError, TypeError, RecursionError):
        terms = None
    return terms if isinstance(terms, str) else None, list(filter(None, map(Step.parse, lines[1:])))


def _is_name(name: object) -> bool:
    return isinstance(name, str) and pack_name(f"{name}.pack") == name


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
