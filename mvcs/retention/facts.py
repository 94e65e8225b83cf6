"""What a policy goes by, read from a store: its commits, branches, tags, and how old files are."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, NOTES, REMOTES, TAGS, RefStore
from mvcs.retention.policy import Facts, History
from mvcs.retention.rules import MICROSECONDS, Keeps, Rule
from mvcs.store import PARALLEL_READERS, Backend, manifest_path, store_time

Later = Callable[[ObjectId], Mapping[str, float]]


@dataclass(frozen=True)
class Named:
    """What branches and tags of a store name.

    Attributes:
        branches: their tips by name; those known of remotes are called `REMOTE/BRANCH`.
        tags: the commits of tags by name.
    """

    branches: Mapping[str, Revision]
    tags: Mapping[str, Revision]

    @classmethod
    def of(cls, graph: Graph, refs: RefStore) -> "Named":
        """Read them.

        Raises:
            CorruptionError: the newest record of one is damaged, so that nobody can tell what it keeps.
            UnsupportedFormatError: another version wrote it.
        """
        heads = dict(_loaded(graph, refs, HEADS))
        others = {name: tip for name, tip in _loaded(graph, refs, REMOTES) if name not in heads}
        return cls(heads | others, dict(_loaded(graph, refs, TAGS)))

    @property
    def tips(self) -> list[Revision]:
        """All of the commits."""
        return [*self.branches.values(), *self.tags.values()]


def _loaded(graph: Graph, refs: RefStore, kind: str) -> Iterator[tuple[str, Revision]]:
    for name, record in refs.survey(kind).required().items():
        if record.target is not None:
            yield name, graph.load(record.target)


@dataclass(frozen=True)
class Survey:
    """The commits of a store, and what rules go by.

    Attributes:
        revisions: the commits that branches, tags and HEADs lead to, the newest first.
        named: what branches and tags name.
        history: the facts.
        pointed: the commits of tags, of HEADs, and of branches as far as rules count, however old they are.
        complete: whether `revisions` are all that there are.
    """

    revisions: Mapping[ObjectId, Revision]
    named: Named
    history: History
    pointed: Mapping[ObjectId, Revision]
    complete: bool


@dataclass(frozen=True)
class Source:
    """What facts are read from.

    Attributes:
        backend: the store.
        graph: its commits.
        refs: its branches, tags and notes.
        pins: why commits are pinned.
        heads: gives where HEADs stand.
        later: gives the metrics that notes add.
    """

    backend: Backend
    graph: Graph
    refs: RefStore
    pins: Mapping[ObjectId, str] = field(default_factory=dict)
    heads: Callable[[], Sequence[Revision]] = tuple
    later: Later = lambda _: {}


def survey(source: Source, rules: Sequence[Rule], limit: int | None = None) -> Survey:
    """Read what some rules go by, of so many of the newest commits; None for all.

    Raises:
        CorruptionError: a branch, a tag or a commit cannot be read.
    """
    graph, refs = source.graph, source.refs
    named, standing = Named.of(graph, refs), source.heads()
    walk = graph.walk([*named.tips, *standing])
    revisions = {revision.id: revision for revision in islice(walk, limit)}
    complete = next(walk, None) is None
    kinds = {rule.kind for rule in rules}
    noted = frozenset(refs.listed(NOTES)) if Keeps.BEST in kinds else frozenset()
    ages = _ages(source.backend, revisions) if Keeps.NEWER in kinds else {}
    before = _steps_before(graph, revisions.values()) if Keeps.EVERY in kinds else {}
    commits = [
        replace(
            _facts(revision, source.later(key) if key.hex() in noted else {}, ages.get(key)),
            before=before.get(key),
        )
        for key, revision in revisions.items()
    ]
    reach = max((rule.count for rule in rules if rule.kind == Keeps.LAST), default=1)
    lines = {name: list(islice(graph.first_parents(tip), reach)) for name, tip in named.branches.items()}
    pointed = {it.id: it for it in chain(named.tips, standing, *lines.values())}
    history = History(
        commits,
        {name: [revision.id for revision in line] for name, line in lines.items()},
        {tip.id: name for name, tip in named.tags.items()},
        source.pins,
        frozenset(head.id for head in standing),
    )
    return Survey(revisions, named, history, pointed, complete)


def _facts(revision: Revision, later: Mapping[str, float], age: int | None) -> Facts:
    commit = revision.commit
    metrics = {**dict(commit.metrics), **later}
    goals = {name: goal for name in metrics if (goal := commit.goal(name))}
    return Facts(revision.id, commit.step, metrics, goals, age)


def _steps_before(graph: Graph, revisions: Iterable[Revision]) -> dict[ObjectId, int | None]:
    """Return the step of the nearest first parent that has one, for each commit with a step."""
    return {
        revision.id: next(
            (
                it.commit.step
                for it in islice(graph.first_parents(revision), 1, None)
                if it.commit.step is not None
            ),
            None,
        )
        for revision in revisions
        if revision.commit.step is not None
    }


def _ages(backend: Backend, revisions: Mapping[ObjectId, Revision]) -> dict[ObjectId, int | None]:
    """Return how old commits are in microseconds by the store's clock; the newest come first."""
    now, found = store_time(backend), list(revisions.values())
    if now is None:
        return {}
    with ThreadPoolExecutor(PARALLEL_READERS) as pool:
        written = list(pool.map(lambda item: backend.modified(manifest_path(item.id, 0)), found))
    return {
        item.id: None if time is None else int(max(0.0, now - time) * MICROSECONDS)
        for item, time in zip(found, written, strict=True)
    }
