"""Copy the packs that commits need from one store to another; a pack is the unit of retry."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from mvcs.errors import ConflictError, CorruptionError, StorageError
from mvcs.history.graph import Graph, Revision
from mvcs.objects.ids import ObjectId, file_name
from mvcs.progress import Progress
from mvcs.store.backend import Backend
from mvcs.store.catalog import EXACT_FOLDER, VALUE_FOLDER, pack_name, pack_path
from mvcs.store.objects import ObjectStore

Answer = TypeVar("Answer")

STREAMS = 4
ATTEMPTS = 4
END_BYTES = 1 << 12


@dataclass(frozen=True)
class Sent:
    """What a transfer moved.

    Attributes:
        packs: number of packs copied.
        bytes: their bytes.
        skipped: packs that were there already.
        revisions: the commits that the other side lacked.
    """

    packs: int = 0
    bytes: int = 0
    skipped: int = 0
    revisions: tuple[Revision, ...] = ()

    def __add__(self, other: "Sent") -> "Sent":
        """Return the sums of both."""
        return Sent(
            self.packs + other.packs,
            self.bytes + other.bytes,
            self.skipped + other.skipped,
            (*self.revisions, *other.revisions),
        )


def needed_packs(store: ObjectStore, revisions: Iterable[Revision]) -> list[str]:
    """Return the packs that reading these commits' value layers needs, bases included, oldest first."""
    names: dict[str, None] = {}
    for revision in reversed(list(revisions)):
        footer = store.catalog.attach(revision.written.pack)
        for name in (*footer.needed, revision.written.pack):
            names.setdefault(name)
    return list(names)


@dataclass(frozen=True)
class Route:
    """From where to where packs are copied, and how far the copies are trusted.

    Attributes:
        source: where they lie.
        target: where they are needed.
        progress: is told the packs done.
        read_back: read every copy again in full, not only its size and end.
    """

    source: Backend
    target: Backend
    progress: Progress
    read_back: bool = False

    def copy(self, names: Iterable[str], *, exact: bool = False) -> Sent:
        """Copy packs side by side; each is hashed before it is written and checked again afterwards.

        Raises:
            CorruptionError: a pack does not hash to its name, here or after it arrived.
            StorageError: a pack could not be copied, or did not arrive whole.
        """
        wanted = [pack_path(name, exact=exact) for name in names]
        there = set(self.target.list(EXACT_FOLDER if exact else VALUE_FOLDER))
        owed = [path for path in wanted if path not in there or not self._same_size(path)]
        self.progress.start("copying packs", len(owed), "packs")
        with ThreadPoolExecutor(STREAMS) as pool:
            sizes = list(_bounded(pool, owed, self._copy))
        self.progress.finish()
        return Sent(len(owed), sum(sizes), len(wanted) - len(owed))

    def _same_size(self, path: str) -> bool:
        return self.source.size(path) == self.target.size(path)

    def _copy(self, path: str) -> int:
        data = _retried(lambda: self.source.read(path))
        _check_hash(path, data, self.source)
        _retried(lambda: self.target.put(path, data))
        self._check_arrival(path, data)
        self.progress.advance(1)
        return len(data)

    def _check_arrival(self, path: str, data: bytes) -> None:
        if self.read_back:
            _check_hash(path, _retried(lambda: self.target.read(path)), self.target)
        elif self.target.size(path) != len(data) or self.target.read(path, -END_BYTES) != data[-END_BYTES:]:
            raise StorageError(f"pack '{path}' did not arrive whole in '{self.target.url}'", hint="try again")


def _check_hash(path: str, data: bytes, backend: Backend) -> None:
    if file_name(data) != pack_name(path):
        raise CorruptionError(
            f"pack '{path}' in '{backend.url}' does not hash to its name",
            hint="run 'mvcs fsck' there; a clone or another remote may hold a whole copy",
        )


def _bounded(pool: ThreadPoolExecutor, paths: list[str], copy: Callable[[str], int]) -> Iterator[int]:
    """Run copies with only as many packs in memory as there are streams."""
    remaining = iter(paths)
    while batch := list(islice(remaining, STREAMS)):
        yield from pool.map(copy, batch)


def _retried(action: Callable[[], Answer], attempts: int = ATTEMPTS) -> Answer:
    try:
        return action()
    except StorageError:
        if attempts == 1:
            raise
    return _retried(action, attempts - 1)


def refuse_rewind(graph: Graph, name: str, theirs: ObjectId, ours: Revision) -> None:
    """Check that moving a branch from `theirs` to `ours` loses nothing.

    Raises:
        ConflictError: `ours` does not descend from `theirs`.
    """
    if not graph.is_ancestor(theirs, ours):
        raise ConflictError(
            f"'{name}' over there has commits that are not behind yours (not a fast-forward)",
            hint="run 'mvcs fetch', compare, and go on from theirs; or push under another name",
        )
