"""Which packs commits need: every commit behind a ref, a record of its past, or HEAD."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from mvcs.errors import NotFoundError
from mvcs.history.graph import Graph, Revision
from mvcs.objects.ids import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, DamagedRecord, RefRecord, RefStore
from mvcs.refs.damage import giving_up, lost_end, recordless
from mvcs.store.backend import Backend
from mvcs.store.catalog import READERS, commit_footers, read_footer
from mvcs.store.objects import ObjectStore

_BATCH = 64


@dataclass(frozen=True)
class Held:
    """What one clone's HEAD needs, and no ref may name.

    Attributes:
        commit: where HEAD stands without a branch.
        past: where it stood so before; what is no longer stored of that counts for nothing.
        doubt: why it may have stood on any commit of the store; None where its past is known.
    """

    commit: ObjectId | None = None
    past: frozenset[ObjectId] = frozenset()
    doubt: str | None = None


def unneeded(
    backend: Backend,
    packs: Iterable[str],
    head: Held | None = None,
) -> set[str]:
    """Return those of `packs`, by name, that no commit of a store needs for either of its layers.

    Commits count that a branch, a tag or what is known of a remote leads to, now or in a record that is kept
    of its past, and those that HEAD stands on or stood on. Where a record of the past is damaged or lost, or
    no ref is left, every commit of the store counts.

    Args:
        backend: the store.
        packs: names of packs.
        head: what HEAD needs; None for a store without one.

    Raises:
        MvcsError: something on the way is damaged, so that nobody can tell.
    """
    return _left(backend, packs, lambda graph: _everything(backend, graph, head or Held()))


def unneeded_now(backend: Backend, packs: Iterable[str], kind: str, start: str = "") -> set[str]:
    """Return those of `packs` that no commit needs behind refs of one kind whose names begin with `start`.

    Raises:
        MvcsError: something on the way is damaged, so that nobody can tell.
    """
    return _left(backend, packs, lambda graph: _tips(graph, RefStore(backend), kind, start))


def _left(backend: Backend, packs: Iterable[str], starts: Callable[[Graph], Iterator[Revision]]) -> set[str]:
    left = set(packs)
    if left:
        for needed in _needs(backend, starts):
            left -= needed
            if not left:
                break
    return left


def _needs(backend: Backend, starts: Callable[[Graph], Iterator[Revision]]) -> Iterator[set[str]]:
    store = ObjectStore(backend)
    graph = Graph(store)
    with ThreadPoolExecutor(READERS) as pool:
        walk = graph.walk(starts(graph))
        while revisions := list(islice(walk, _BATCH)):
            yield from pool.map(lambda revision: _needed(backend, revision), revisions)
            store.catalog.keep(())  # a long history's footers do not stay in memory


def _needed(backend: Backend, revision: Revision) -> set[str]:
    written = revision.written
    return {written.pack, *read_footer(backend, written.pack).needed, *written.exact_packs}


def _tips(graph: Graph, refs: RefStore, kind: str, start: str) -> Iterator[Revision]:
    for name, record in refs.survey(kind).required().items():
        if name.startswith(start) and record.target is not None:
            yield graph.load(record.target, record.pack)


@dataclass
class Named:
    """What refs name, now or in a record that is kept of their past.

    Attributes:
        records: the records that can be read.
        doubts: why any commit of the store may have been named as well.
    """

    records: list[RefRecord] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, refs: RefStore) -> "Named":
        """Read every record.

        Raises:
            CorruptionError: the newest one of a ref is damaged, and nobody has decided on it yet.
            UnsupportedFormatError: another version wrote it.
        """
        found = cls()
        for kind in (HEADS, TAGS, REMOTES):
            names = refs.listed(kind)
            for name in names:
                found._take(kind, name, list(refs.row(kind, name)))
            if not names and refs.is_begun(kind):
                found.doubts.append(f"'refs/{kind}' holds no names")
        if not found.records:
            found.doubts.append("no branch or tag is left")
        return found

    def _take(self, kind: str, name: str, row: Sequence[RefRecord | DamagedRecord]) -> None:
        for back, record in enumerate(row):
            if isinstance(record, RefRecord):
                self.records.append(record)
            elif back == 0:
                message = f"where '{name}' stands cannot be read, so nothing is deleted"
                raise type(record.error)(f"{message}: {record.error.message}", hint=giving_up(kind, name))
            else:
                self.doubts.append(record.error.message)
        lost = lost_end(kind, name, row) if row else recordless(kind, name)
        if lost is not None:
            self.doubts.append(lost.message)


def _everything(backend: Backend, graph: Graph, head: Held) -> Iterator[Revision]:
    named = Named.of(RefStore(backend))
    for record in named.records:
        if record.target is not None:
            yield graph.load(record.target, record.pack)
    if named.doubts or head.doubt is not None:
        for footer, _ in commit_footers(backend):
            graph.learn(footer)
            yield from map(Revision, footer.commits)
    if head.commit is not None:
        yield graph.load(head.commit, None)
    for left in head.past:
        with suppress(NotFoundError):
            yield graph.load(left, None)
