"""Copy the packs that commits need from one store to another; a pack is the unit of retry."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from mvcs.errors import ConflictError, CorruptionError, NotFoundError, StorageError
from mvcs.history.graph import Graph, Revision
from mvcs.objects.ids import ObjectId, file_name
from mvcs.progress import Progress
from mvcs.store.backend import Backend
from mvcs.store.catalog import EXACT_FOLDER, VALUE_FOLDER, pack_name, pack_path
from mvcs.store.objects import ObjectStore

Answer = TypeVar("Answer")

STREAMS = 4
ATTEMPTS = 4


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


def missing_commits(graph: Graph, tips: Iterable[Revision], known: set[ObjectId]) -> Iterator[Revision]:
    """Yield the commits behind `tips`, newest first, without `known` ones and their ancestors."""
    behind = _closure(graph, known)
    return (revision for revision in graph.walk(tips) if revision.id not in behind)


def _closure(graph: Graph, known: set[ObjectId]) -> set[ObjectId]:
    """Add the ancestors of those known tips that this side has as well."""
    tips = []
    for identifier in known:
        try:
            tips.append(graph.get(identifier))
        except NotFoundError:
            continue
    return {revision.id for revision in graph.walk(tips)}


def needed_packs(store: ObjectStore, revisions: Iterable[Revision]) -> list[str]:
    """Return the packs that reading these commits' value layers needs, bases included, oldest first."""
    names: dict[str, None] = {}
    for revision in reversed(list(revisions)):
        footer = store.catalog.attach(revision.written.pack)
        for name in (*footer.needed, revision.written.pack):
            names.setdefault(name)
    return list(names)


def copy_packs(
    source: Backend, target: Backend, names: Iterable[str], progress: Progress, *, exact: bool = False
) -> Sent:
    """Copy packs side by side; each is hashed before it is written and looked at again afterwards.

    Raises:
        CorruptionError: a pack does not hash to its name.
        StorageError: a pack could not be copied, or arrived with another size.
    """
    wanted = list(names)
    there = {pack_name(path) for path in target.list(EXACT_FOLDER if exact else VALUE_FOLDER)}
    owed = [name for name in wanted if name not in there or not _whole(source, target, name, exact=exact)]
    progress.start("copying packs", len(owed), "packs")
    with ThreadPoolExecutor(STREAMS) as pool:
        sizes = list(
            _bounded(pool, owed, lambda name: _copy_pack(source, target, name, progress, exact=exact))
        )
    progress.finish()
    return Sent(len(owed), sum(sizes), len(wanted) - len(owed))


def _bounded(pool: ThreadPoolExecutor, names: list[str], copy: Callable[[str], int]) -> Iterator[int]:
    """Run copies with only as many packs in memory as there are streams."""
    remaining = iter(names)
    while batch := list(islice(remaining, STREAMS)):
        yield from pool.map(copy, batch)


def _whole(source: Backend, target: Backend, name: str, *, exact: bool) -> bool:
    path = pack_path(name, exact=exact)
    return source.size(path) == target.size(path)


def _copy_pack(source: Backend, target: Backend, name: str, progress: Progress, *, exact: bool) -> int:
    path = pack_path(name, exact=exact)
    data = _retried(lambda: source.read(path))
    if file_name(data) != name:
        raise CorruptionError(
            f"pack '{path}' in '{source.url}' does not hash to its name",
            hint="run 'mvcs fsck' there; a clone or another remote may hold a whole copy",
        )
    _retried(lambda: target.put(path, data))
    if target.size(path) != len(data):
        raise StorageError(
            f"pack '{path}' arrived in '{target.url}' with another size", hint="run the command again"
        )
    progress.advance(1)
    return len(data)


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
