"""What an operation has written and no ref names yet: on record, so that it is found if the process dies."""

import contextlib
import json
import pathlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.errors import StorageError
from mvcs.local.records import RECORDS_FOLDER
from mvcs.local_files import (
    JOURNAL,
    append_to,
    left_behind,
    maker_of,
    read_file,
    temporary_name,
)
from mvcs.store import make_folder

MAX_BYTES = 64 << 20
_PACK, _FILE, _PUBLISHES = "pack", "file", "publishes"


class Journal:
    """One operation's own record in `.mvcs/local`; it goes when the operation has ended.

    It outlives a killed process, and need not outlive a power cut: what is forgotten waits for `mvcs gc`. So
    it costs no wait for a disk, and an operation goes on where it cannot be written.
    """

    def __init__(self, local: pathlib.Path | None) -> None:
        """Keep the record below `local`, which is `.mvcs`; a bare store (None) keeps none."""
        self._path = None if local is None else local / RECORDS_FOLDER / temporary_name(JOURNAL)
        self.packs: list[str] = []
        self.published = False

    def pack(self, path: str) -> None:
        """Note a pack of the own store, before it gets its name."""
        self.packs.append(path)
        self._note([_PACK, path])

    def file(self, path: pathlib.Path) -> None:
        """Note a temporary file in somebody's folder, before it is made."""
        self._note([_FILE, str(path.absolute())])

    def publishes(self, *manifests: str) -> None:
        """Note that from now on a manifest may name what was written, so that only a collector deletes it.

        Paths of manifests that are to come keep collectors of this clone from these as well.
        """
        self.published = True
        self._note([_PUBLISHES, *manifests])

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
        files: temporary files in somebody's folders.
        manifests: paths of manifests that may name these packs.
    """

    path: pathlib.Path
    packs: set[str] = field(default_factory=set)
    files: set[pathlib.Path] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)

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

    def _take(self, words: list[str]) -> None:
        match words:
            case ["pack", path]:
                self.packs.add(path)
            case ["file", path]:
                self.files.add(pathlib.Path(path))
            case ["publishes", *manifests]:
                self.manifests.update(manifests)


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


def packs_at_work(local: pathlib.Path | None, *, killed: bool = False) -> set[str]:
    """Return the paths of files in the own store that running, or `killed`, operations have on record.

    Raises:
        StorageError: a record cannot be read.
    """
    if local is None:
        return set()
    folder = local / RECORDS_FOLDER
    dead = set() if killed else set(left_behind(folder, JOURNAL, GRACE_DAYS * DAY_SECONDS))
    found = set[str]()
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if maker_of(path.name, JOURNAL) is not None and path.name not in dead:
                remains = JournalRemains.load(path)
                found |= remains.packs | remains.manifests
    return found
