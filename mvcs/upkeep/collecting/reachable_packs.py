"""Which packs commits need: every commit behind a ref, a record of its past, or HEAD."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from mvcs.errors import CorruptionError, MvcsError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.memory import NOTHING
from mvcs.objects import ObjectId
from mvcs.refs import (
    HEADS,
    REMOTES,
    TAGS,
    TAKEN_BACK,
    DamagedRecord,
    RefRecord,
    RefStore,
    how_to_give_up,
    lost_end_error,
    recordless_error,
)
from mvcs.remotes import Needs
from mvcs.store import (
    MOVED_BASES,
    PARALLEL_READERS,
    VALUE_FOLDER,
    Backend,
    ObjectStore,
    commit_footers,
    has_upgrade,
    pack_name,
    read_footer,
    refuse_changes,
)

_BATCH = 64
GivenUp = Callable[[str, str, RefRecord], bool]


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


@dataclass(frozen=True)
class Reach:
    """What commits need of some packs.

    Attributes:
        left: those that none needs; nothing while a commit cannot be read that only the past leads to.
        doubts: why any commit of the store may have been named.
        unread: why such a commit cannot be read.
    """

    left: set[str]
    doubts: list[str] = field(default_factory=list)
    unread: MvcsError | None = None


def unneeded(
    backend: Backend,
    packs: Iterable[str],
    head: Held | None = None,
) -> set[str]:
    """Return those of `packs`, by name, that no commit of a store needs for either of its layers.

    Raises:
        MvcsError: something on the way is damaged, so that nobody can tell.
    """
    found = survey(backend, packs, head)
    if found.unread is not None:
        raise found.unread
    return found.left


def survey(
    backend: Backend,
    packs: Iterable[str],
    head: Held | None = None,
    given_up: GivenUp | None = None,
    lines: dict[str, list[str]] | None = None,
) -> Reach:
    """Tell which packs no commit of a store needs for either of its layers.

    Commits count that a branch, a tag or what is known of a remote leads to, now or in a record that is kept
    of its past, and those that HEAD stands on or stood on. Where a record of the past is damaged or lost, or
    no ref is left, every commit of the store counts.

    Args:
        backend: the store.
        packs: names of packs.
        head: what HEAD needs; None for a store without one.
        given_up: tells of a ref, by its newest record, whether its past counts no more.
        lines: what is known of what commits need, as of `RememberedPacks.needs`; what is read is added.

    Raises:
        MvcsError: something is damaged that a branch, a tag or HEAD leads to now, so that nobody can tell.
        UnsupportedFormatError: a newer mvcs upgraded the store: it may need packs in other ways.
    """
    refuse_changes(backend)
    left = set(packs)
    if not left:
        return Reach(left)
    head = head or Held()
    named = Named.of(RefStore(backend), given_up)
    doubts = [*named.doubts, *filter(None, [head.doubt])]
    walk = _Walk(backend, {} if lines is None else lines)
    walk.strike(left, walk.now(named, head))
    try:
        walk.strike(left, walk.past(named, head, every=bool(doubts)))
    except (CorruptionError, NotFoundError) as error:
        return Reach(set(), doubts, error)
    return Reach(left, doubts)


def unneeded_now(backend: Backend, packs: Iterable[str], kind: str, start: str = "") -> set[str]:
    """Return those of `packs` that no commit needs behind refs of one kind whose names begin with `start`.

    Raises:
        MvcsError: something on the way is damaged, so that nobody can tell.
    """
    refuse_changes(backend)
    left, walk = set(packs), _Walk(backend, {})
    walk.strike(left, _tips(walk.graph, RefStore(backend), kind, start))
    return left


def has_refs(backend: Backend) -> bool:
    """Tell whether there is any record of a branch, a tag, or what is known of a remote, be it damaged."""
    refs = RefStore(backend)
    rows = (refs.row(kind, name) for kind in (HEADS, TAGS, REMOTES) for name in refs.listed(kind))
    return any(True for row in rows for _ in row)


class _Walk:
    """A walk over commits that meets each once."""

    def __init__(self, backend: Backend, lines: dict[str, list[str]]) -> None:
        self._backend = backend
        self._lines = lines
        self._needs = Needs(backend, lines)
        self._store = ObjectStore(backend, NOTHING)
        self._seen: set[ObjectId] = set()
        self.graph = Graph(self._store)
        self._all: dict[str, tuple[str, ...]] = {}
        # Only where commits are ended anew may a pack that is named be gone for a good reason.
        is_moved = has_upgrade(backend, MOVED_BASES)
        self._there = set(filter(None, map(pack_name, backend.list(VALUE_FOLDER)))) if is_moved else None

    def now(self, named: "Named", head: Held) -> Iterator[Revision]:
        """Yield what refs and HEAD lead to now."""
        yield from self._loaded(named.newest)
        if head.commit is not None:
            yield self.graph.load(head.commit, None)

    def past(self, named: "Named", head: Held, *, every: bool) -> Iterator[Revision]:
        """Yield what they led to before; with `every` all commits of the store."""
        yield from self._loaded(named.older)
        if every:
            for footer, _ in commit_footers(self._backend):
                self.graph.learn(footer)
                yield from map(Revision, footer.commits)
        for stood in head.past:
            with suppress(NotFoundError):
                yield self.graph.load(stood, None)

    def _loaded(self, records: Iterable[RefRecord]) -> Iterator[Revision]:
        for record in records:
            if record.target is not None:
                yield self.graph.load(record.target, record.pack)

    def strike(self, left: set[str], starts: Iterable[Revision]) -> None:
        """Remove from `left` the packs that these commits and their ancestors need."""
        if not left:
            return
        revisions = self.graph.walk(starts, without=frozenset(self._seen))
        with ThreadPoolExecutor(PARALLEL_READERS) as pool:
            while left and (some := list(islice(revisions, _BATCH))):
                self._seen.update(revision.id for revision in some)
                some = [self._ended(revision) for revision in some]
                self._read_ahead(pool, some)
                left.difference_update(*map(self._beyond, some))
                self._store.catalog.keep(())  # a long history's footers do not stay in memory

    def _read_ahead(self, pool: ThreadPoolExecutor, revisions: list[Revision]) -> None:
        names = [revision.written.pack for revision in revisions if revision.written.pack not in self._lines]
        footers = pool.map(partial(read_footer, self._backend), names)
        for name, footer in zip(names, footers, strict=True):
            self._needs.learn(name, footer.needed)

    def _ended(self, revision: Revision) -> Revision:
        """Return a commit as the pack ends it that counts: what was named may be gone for a good reason."""
        pack = revision.written.pack
        if self._there is None or (pack in self._there and self._there.issuperset(self._needed(pack))):
            return revision
        return self.graph.elsewhere(revision)

    def _needed(self, pack: str) -> tuple[str, ...]:
        if pack not in self._all:
            self._all[pack] = read_footer(self._backend, pack).needed
        return self._all[pack]

    def _beyond(self, revision: Revision) -> set[str]:
        """Return what a commit needs, but for what its first parent needs, which is walked as well."""
        written, parents = revision.written, revision.commit.parents
        if self._there is not None:  # the parent may be named by several packs
            return {written.pack, *self._needed(written.pack), *written.exact_packs}
        parent = self.graph.get(parents[0], revision).written.pack if parents else ""
        return {written.pack, *self._needs.beyond(written.pack, parent), *written.exact_packs}


def _tips(graph: Graph, refs: RefStore, kind: str, start: str) -> Iterator[Revision]:
    for name, record in refs.survey(kind).required().items():
        if name.startswith(start) and record.target is not None:
            yield graph.load(record.target, record.pack)


@dataclass
class Named:
    """What refs name, now or in a record that is kept of their past.

    Attributes:
        newest: where they stand.
        older: where they stood, as far as that can be read.
        doubts: why any commit of the store may have been named as well.
    """

    newest: list[RefRecord] = field(default_factory=list)
    older: list[RefRecord] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, refs: RefStore, given_up: GivenUp | None = None) -> "Named":
        """Read every record; of refs that are given up the newest alone.

        Raises:
            CorruptionError: the newest one of a ref is damaged, and nobody has decided on it yet.
            UnsupportedFormatError: another version wrote it.
        """
        found = cls()
        for kind in (HEADS, TAGS, REMOTES):
            names = refs.listed(kind)
            for name in names:
                row = list(refs.row(kind, name))
                is_past = given_up and row and isinstance(row[0], RefRecord) and given_up(kind, name, row[0])
                if not is_past:
                    found._take(kind, name, row)
            if not names and refs.is_begun(kind):
                found.doubts.append(f"'refs/{kind}' holds no names")
        if not found.newest and not found.older:
            found.doubts.append("no branch or tag is left")
        return found

    def _take(self, kind: str, name: str, row: Sequence[RefRecord | DamagedRecord]) -> None:
        for back, record in enumerate(row):
            above = row[back - 1] if back else None
            if isinstance(above, RefRecord) and above.action == TAKEN_BACK:
                continue
            if isinstance(record, RefRecord):
                (self.older if back else self.newest).append(record)
            elif back == 0:
                why = f"where '{name}' stands cannot be read, so nothing is deleted: {record.error.message}"
                raise type(record.error)(why, hint=how_to_give_up(kind, name))
            else:
                self.doubts.append(record.error.message)
        lost = lost_end_error(kind, name, row) if row else recordless_error(kind, name)
        if lost is not None:
            self.doubts.append(lost.message)
