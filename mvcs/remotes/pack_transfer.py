"""Copying packs from one store to another; a pack is the unit of retry."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from mvcs.errors import (
    ConflictError,
    CorruptionError,
    MvcsError,
    StorageError,
)
from mvcs.history import Graph, GraphNeeds, Revision
from mvcs.objects import ObjectId
from mvcs.progress import Progress
from mvcs.refs import HEADS, REMOTES, TAGS, RefRecord, RefStore
from mvcs.store import (
    EXACT_FOLDER,
    UNREADABLE_ERRORS,
    VALUE_FOLDER,
    Backend,
    ObjectStore,
    is_whole_pack,
    name_of,
    pack_name,
    pack_path,
)

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
        mended: those copied that should have been there already, and were missing or damaged.
        revisions: the commits that the other side lacked.
    """

    packs: int = 0
    bytes: int = 0
    skipped: int = 0
    mended: int = 0
    revisions: tuple[Revision, ...] = ()

    def __add__(self, other: "Sent") -> "Sent":
        """Return the sums of both."""
        return Sent(
            self.packs + other.packs,
            self.bytes + other.bytes,
            self.skipped + other.skipped,
            self.mended + other.mended,
            (*self.revisions, *other.revisions),
        )


@dataclass(frozen=True)
class Presence:
    """Which packs of one layer lie at both ends, from one listing each.

    Attributes:
        here: bytes of each pack at the near end, by name.
        there: the same at the far end.
    """

    here: Mapping[str, int]
    there: Mapping[str, int]

    @classmethod
    def of(cls, here: Backend, there: Backend, *, exact: bool = False) -> "Presence":
        """List both ends."""
        return cls(*(_pack_sizes(backend, exact=exact) for backend in (here, there)))


def _pack_sizes(backend: Backend, *, exact: bool) -> dict[str, int]:
    sizes = backend.sizes(EXACT_FOLDER if exact else VALUE_FOLDER)
    names = ((pack_name(path), path, size) for path, size in sizes.items())
    return {name: size for name, path, size in names if name and path == pack_path(name, exact=exact)}


def is_whole(backend: Backend, name: str, *, exact: bool = False) -> bool:
    """Tell whether a pack is there and hashes to its name.

    Raises:
        StorageError: it cannot be read.
    """
    return retried(lambda: is_whole_pack(backend, name, exact=exact))


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

    def damaged(self, names: Iterable[str], *, exact: bool = False) -> set[str]:
        """Return which packs do not hash to their names at the target; each is read in full."""
        wanted = list(names)
        self.progress.start("checking packs over there", len(wanted), "packs")
        with ThreadPoolExecutor(STREAMS) as pool:
            whole = list(_bounded(pool, wanted, lambda name: self._is_whole(name, exact=exact)))
        self.progress.finish()
        return {name for name, good in zip(wanted, whole, strict=True) if not good}

    def _is_whole(self, name: str, *, exact: bool) -> bool:
        good = is_whole(self.target, name, exact=exact)
        self.progress.advance(1)
        return good

    def copy(self, names: Collection[str], over: Collection[str] = (), *, exact: bool = False) -> Sent:
        """Copy packs side by side; each is hashed before it is written and checked again afterwards.

        Args:
            names: the packs, in the order in which they may be needed.
            over: under which of these names something else lies at the target, and is replaced.
            exact: whether they are packs of exact layers.

        Raises:
            CorruptionError: a pack does not hash to its name, here or after it arrived.
            StorageError: a pack could not be copied, or did not arrive whole.
        """
        paths = [pack_path(name, exact=exact) for name in names]
        replaced = {pack_path(name, exact=exact) for name in over}
        self.progress.start("copying packs", len(paths), "packs")
        with ThreadPoolExecutor(STREAMS) as pool:
            sizes = list(_bounded(pool, paths, lambda path: self._copy(path, path in replaced)))
        self.progress.finish()
        return Sent(len(names), sum(sizes))

    def _copy(self, path: str, over: bool) -> int:  # noqa: FBT001 - called by position alone
        data = retried(lambda: self.source.read(path))
        _check_hash(path, data, self.source)
        write = self.target.replace if over else self.target.put
        retried(lambda: write(path, data))
        self._check_arrival(path, data)
        self.progress.advance(1)
        return len(data)

    def _check_arrival(self, path: str, data: bytes) -> None:
        if self.read_back:
            _check_hash(path, retried(lambda: self.target.read(path)), self.target)
        elif self.target.size(path) != len(data) or self.target.read(path, -END_BYTES) != data[-END_BYTES:]:
            raise StorageError(f"pack '{path}' did not arrive whole in '{self.target.url}'", hint="try again")


def _check_hash(path: str, data: bytes, backend: Backend) -> None:
    if name_of(data) != pack_name(path):
        raise CorruptionError(
            f"pack '{path}' in '{backend.url}' does not hash to its name",
            hint="run 'mvcs fsck' there; a clone or another remote may hold a whole copy",
        )


def _bounded(
    pool: ThreadPoolExecutor, items: Iterable[str], action: Callable[[str], Answer]
) -> Iterator[Answer]:
    """Run actions with only as many packs in memory as there are streams."""
    remaining = iter(items)
    while batch := list(islice(remaining, STREAMS)):
        yield from pool.map(action, batch)


def each_of(items: Iterable[str], action: Callable[[str], Answer]) -> Iterator[Answer]:
    """Run an action on packs side by side, with only as many in memory as there are streams."""
    with ThreadPoolExecutor(STREAMS) as pool:
        yield from _bounded(pool, items, action)


def retried(action: Callable[[], Answer], attempts: int = ATTEMPTS) -> Answer:
    """Return what an action gives, which may fail a few times on the way.

    Raises:
        StorageError: it failed every time.
    """
    try:
        return action()
    except StorageError:
        if attempts == 1:
            raise
    return retried(action, attempts - 1)


def follows(graph: Graph, old: ObjectId, new: ObjectId | None) -> bool:
    """Tell whether a name that moves loses nothing by it; where nobody can tell, it may."""
    try:
        return new is not None and graph.is_ancestor(old, graph.load(new))
    except UNREADABLE_ERRORS:
        return False


def refuse_rewind(graph: Graph, name: str, theirs: ObjectId, ours: Revision) -> None:
    """Check that moving a branch from `theirs` to `ours` loses nothing.

    Raises:
        ConflictError: `ours` does not descend from `theirs`.
    """
    if not graph.is_ancestor(theirs, ours):
        raise ConflictError(
            f"'{name}' over there has commits that are not behind yours (not a fast-forward)",
            hint="run 'mvcs fetch', compare, and continue from theirs; or push under another name",
        )


def damaged_there(error: MvcsError) -> MvcsError:
    """Return an error about a ref of the far end, whose hint would speak of this one."""
    hint = "'mvcs reflog' over there shows older records; 'mvcs push --force' from a clone writes it again"
    return type(error)(error.message, hint=hint)


@dataclass(frozen=True)
class TransferSide:
    """One of the two stores of an exchange."""

    store: ObjectStore
    graph: Graph
    refs: RefStore

    @classmethod
    def of(cls, store: ObjectStore) -> "TransferSide":
        """Open refs and history of a store."""
        graph = Graph(store)
        return cls(store, graph, RefStore(store.backend, needs=GraphNeeds(store, graph)))

    def tips(self, *others: str) -> set[ObjectId]:
        """Return every commit that a branch or tag names, or a ref of one of the `others` of kinds.

        A damaged one names none.
        """
        return {record.target for record in self._named(*others) if record.target is not None}

    def _named(self, *others: str) -> list[RefRecord]:
        surveys = [self.refs.survey(kind) for kind in (HEADS, TAGS, *others)]
        return [record for survey in surveys for record in survey.whole.values()]

    def history(self) -> dict[ObjectId, Revision]:
        """Return every commit behind a branch, a tag or what is known of a remote, parents first.

        A ref that leads nowhere holds nothing, nor does one of whose history a part is lost. Of a damaged one
        its newest record counts that can be read.
        """
        found: dict[ObjectId, Revision] = {}
        for kind in (HEADS, TAGS, REMOTES):
            for record in self._newest(kind):
                if record.target is None or record.target in found:
                    continue
                with suppress(MvcsError):
                    walk = list(self.graph.walk([self.graph.load(record.target)], without=found))
                    found |= {revision.id: revision for revision in reversed(walk)}
        return found

    def _newest(self, kind: str) -> Iterator[RefRecord]:
        survey = self.refs.survey(kind)
        yield from survey.whole.values()
        for name in survey.damaged:
            record = self.refs.last_whole(kind, name)
            if record is not None:
                yield record

    def behind(self, tips: Iterable[Revision], known: Collection[ObjectId]) -> set[ObjectId]:
        """Return the `known` commits met behind `tips`, and everything behind those."""
        met = [revision for revision in self.graph.walk(tips) if revision.id in known]
        return {revision.id for revision in self.graph.walk(met)}
