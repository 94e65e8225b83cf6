"""Packs of this clone that were found damaged: what the next fetch hashes, and brings again.

`store_watch`, fsck, fetch and push add to them. What a commit must not lean on, entry by entry, it remembers.
"""

import pathlib
from collections.abc import Iterable
from contextlib import suppress

from mvcs.errors import MvcsError
from mvcs.local.records import LocalRecords
from mvcs.refs import now_microseconds
from mvcs.reports import FsckReport
from mvcs.store import VALUE_FOLDER, pack_name

SUBJECT = "damaged"


def known_damaged(local: pathlib.Path | None) -> set[str]:
    """Return the names of packs that were found damaged and not mended since."""
    return set(LocalRecords(local).read(SUBJECT))


def note_damaged(local: pathlib.Path | None, found: Iterable[str], mended: Iterable[str] = ()) -> None:
    """Remember when packs were found damaged, and forget those that are whole; it may fail."""
    with suppress(MvcsError), LocalRecords(local).change(SUBJECT) as record:
        for name in mended:
            record.pop(name, None)
        for name in found:
            record.setdefault(name, now_microseconds())


def note_checked(local: pathlib.Path | None, report: FsckReport) -> None:
    """Remember what a check of all packs found."""
    subjects = (problem.subject for problem in report.problems)
    paths = (path for path in subjects if path.startswith(f"{VALUE_FOLDER}/"))
    found = {name for path in paths if (name := pack_name(path))}
    note_damaged(local, found, known_damaged(local) - found)
