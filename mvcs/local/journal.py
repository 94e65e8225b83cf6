"""What an operation has written and no ref names yet: on record, so that it is found if the process dies."""

import contextlib
import json
import pathlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.errors import StorageError
from mvcs.local.compactions import packs_to_go_on_with
from mvcs.local.records import RECORDS_FOLDER
from mvcs.local_files import (
    JOURNAL,
    append_to,
    left_behind,
    maker_of,
    read_file,
    replace_file,
    temporary_name,
)
from mvcs.store import make_folder

MAX_BYTES = 64 << 20
_PACK, _COPY, _FILE, _MOVES = "pack", "copy", "file", "moves"


class Journal:
    """One operation's own record in `.mvcs/local`; it goes when the operation has ended.

    It outlives a killed process, and need not outlive a power cut: what is forgotten waits for `mvcs gc`. So
    it costs no wait for a disk, and an operation goes on where it cannot be written.
    """

    def __init__(self, local: pathlib.Path | None) -> None:
        """Keep the record below `local`, which is `.mvcs`; a bare store (None) keeps none."""
        self._path = None if local is None else local / RECORDS_FOLDER / temporary_name(JOURNAL)
        self.packs: list[str] = []

    def pack(self, path: str) -> None:
        """Note a pack of the own store, before it gets its name."""
        self.packs.append(path)
        self._note([_PACK, path])

    def copies(self, remote: str, paths: Iterable[str]) -> None:
        """Note packs that a push brings to a remote, before the first of them is there."""
        self._note(*([_COPY, remote, path] for path in paths))

    def file(self, path: pathlib.Path) -> None:
        """Note a temporary file in somebody's folder, before it is made."""
        self._note([_FILE, str(path.absolute())])

    def moves(self) -> None:
        """Note that from now on a ref may name what was written."""
        self._note([_MOVES])

    def close(self) -> None:
        """Forget everything: it has its place, or is gone."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _note(self, *lines: list[str]) -> None:
        if self._path is None or not lines:
            return
        with contextlib.suppress(OSError):
            if not self._path.parent.is_dir():
                make_folder(self._path.parent)
            append_to(self._path, _encoded(lines))


@dataclass
class JournalRemains:
    """What the journal of a process that is gone says.

    Attributes:
        path: the journal.
        packs: paths of packs in the own store.
        copies: paths of packs by remote.
        files: temporary files in somebody's folders.
        moved: whether a ref may have been about to move.
    """

    path: pathlib.Path
    packs: set[str] = field(default_factory=set)
    copies: dict[str, set[str]] = field(default_factory=dict)
    files: set[pathlib.Path] = field(default_factory=set)
    moved: bool = False

    @classmethod
    def load(cls, path: pathlib.Path) -> "JournalRemains":
        """Read a journal; the last line may be cut.

        Raises:
            StorageError: it cannot be read.
        """
        found = cls(path)
        for line in (read_file(path, MAX_BYTES) or b"").splitlines():
            found._take(_words(line))
        return found

    def forget(self, remote: str, paths: set[str]) -> None:
        """Forget packs that were brought to a remote: a ref needs them there, or they are gone.

        Raises:
            StorageError: it cannot be written.
        """
        left = self.copies.get(remote, set()) - paths
        self.copies[remote] = left
        lines = [[_COPY, name, path] for name, found in self.copies.items() for path in sorted(found)]
        lines += [[_PACK, path] for path in sorted(self.packs)]
        if lines:
            replace_file(self.path, _encoded([*lines, *[[_MOVES]] * self.moved]))
        else:
            self.path.unlink(missing_ok=True)

    def _take(self, words: list[str]) -> None:
        match words:
            case ["pack", path]:
                self.packs.add(path)
            case ["copy", remote, path]:
                self.copies.setdefault(remote, set()).add(path)
            case ["file", path]:
                self.files.add(pathlib.Path(path))
            case ["moves"]:
                self.moved = True


def _encoded(lines: Iterable[list[str]]) -> bytes:
    return b"".join(json.dumps(words).encode() + b"\n" for words in lines)


def _words(line: bytes) -> list[str]:
    try:
        words = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else []


def journal_remains(local: pathlib.Path) -> Iterator[JournalRemains]:
    """Yield what processes left on record that are gone."""
    folder = local / RECORDS_FOLDER
    for name in left_behind(folder, JOURNAL, GRACE_DAYS * DAY_SECONDS):
        with contextlib.suppress(StorageError):
            yield JournalRemains.load(folder / name)


def packs_on_record(local: pathlib.Path | None) -> set[str]:
    """Return the paths of packs that any operation of this clone has on record, running or dead.

    Raises:
        StorageError: a record cannot be read.
    """
    dead = () if local is None else journal_remains(local)
    return packs_at_work(local).union(*(found.packs for found in dead))


def packs_at_work(local: pathlib.Path | None) -> set[str]:
    """Return the paths of packs in the own store that running operations have on record, or go on with.

    Raises:
        StorageError: a record cannot be read.
    """
    if local is None:
        return set()
    folder = local / RECORDS_FOLDER
    dead = set(left_behind(folder, JOURNAL, GRACE_DAYS * DAY_SECONDS))
    found = packs_to_go_on_with(local)
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if maker_of(path.name, JOURNAL) is not None and path.name not in dead:
                found |= JournalRemains.load(path).packs
    return found
