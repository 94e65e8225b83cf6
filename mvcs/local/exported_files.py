"""Files that were written elsewhere than in place: what mvcs wrote it may write again, and nothing else."""

import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field

from mvcs.checkpoint import Stamp
from mvcs.errors import ConflictError, MvcsError
from mvcs.local.records import LocalRecords
from mvcs.local_files import real_path
from mvcs.objects import FileName

SUBJECT = "exports"
MOST = 4096
PIECE = 1 << 20


@dataclass(frozen=True)
class Written:
    """A file that was written aside, as it was before anybody knew of it.

    Attributes:
        stamp: what it was.
        digest: of its content, where the stamp may not last; empty otherwise.
    """

    stamp: Stamp
    digest: str

    @classmethod
    def at(cls, path: pathlib.Path) -> "Written":
        """Look at it."""
        stamp = Stamp.of(path.stat())
        return cls(stamp, "" if stamp.tells_renamed(time.time_ns()) else _digest(path))


@dataclass(frozen=True)
class ExportLanding:
    """Files on their way to where they are exported.

    Attributes:
        announce: is told of temporary files.
        before: what lay there when it was decided that they may come; None where all of it may be lost.
        written: what comes, by where it goes.
    """

    announce: Callable[[pathlib.Path], None]
    before: Mapping[pathlib.Path, Stamp] | None
    written: dict[pathlib.Path, Written] = field(default_factory=dict)

    def ready(self, staged: Sequence[tuple[pathlib.Path, pathlib.Path]]) -> None:
        """Look once more, just before temporary files are renamed to their targets.

        Raises:
            ConflictError: at one of the targets lies something else by now.
        """
        self.written.update((target, Written.at(temporary)) for temporary, target in staged)
        now = stamps_of_files([] if self.before is None else [target for _, target in staged])
        old = {} if self.before is None else {path: self.before.get(path) for _, path in staged}
        edited = next((path for path, stamp in old.items() if stamp != now.get(path)), None)
        if edited is not None:
            raise ConflictError(
                f"'{edited}' changed while the commit was restored",
                hint="choose another name, or overwrite it with --force",
            )


def stamps_of_files(paths: Iterable[pathlib.Path]) -> dict[pathlib.Path, Stamp]:
    """Return what each file is that is there; of a link, the link itself where it leads nowhere."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = Stamp.of(path.stat() if path.exists() else path.lstat())
    return found


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

    def note(self, files: Mapping[pathlib.Path, Written]) -> None:
        """Take down files that were just put in place; that it fails costs a question later."""
        with suppress(MvcsError, OSError), self._records.change(SUBJECT) as record:
            now = stamps_of_files(files)
            for path, written in files.items():
                record.pop(_name(path), None)
                if path in now:
                    told = written.stamp.renamed(now[path], time.time_ns())
                    record[_name(path)] = [*astuple(told), written.digest]
            for name in list(record)[: len(record) - MOST]:
                del record[name]


def _name(path: pathlib.Path) -> str:
    return str(real_path(path))


def _digest(path: pathlib.Path) -> str:
    digest = FileName()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.text
