"""Feeding the lineage index, and asking it; whatever happens to it, no command fails or waits."""

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, islice, repeat

from mvcs.checkpoint import roles_of
from mvcs.errors import MvcsError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.lineage import (
    CommitRecord,
    EncodingRecord,
    Lineage,
    NoteRecord,
    RebuildReport,
    RefRecord,
    TensorRecord,
)
from mvcs.objects import Leaf, ObjectId, Tree, path_text
from mvcs.refs import HEADS, NOTES, TAGS, RefStore, notes_of
from mvcs.restore import located_chunks, stored_share
from mvcs.store import UNREADABLE_ERRORS, ObjectStore, Run

CAUGHT_UP = 256


class Indexing:
    """The lineage index of one repository, or none for a bare store."""

    def __init__(
        self,
        path: pathlib.Path | None,
        store: ObjectStore,
        graph: Graph,
        refs: RefStore,
        warn: Callable[[str], None],
    ) -> None:
        """Use the index at `path`, opened when first needed; `warn` hears of a damaged one put aside."""
        self._path = path
        self._warn = warn
        self._damage: str | None = None
        self._store = store
        self._graph = graph
        self._refs = refs

    @cached_property
    def lineage(self) -> Lineage:
        """The index.

        Raises:
            NotFoundError: a bare store has none.
        """
        if self._path is None:
            raise NotFoundError("a bare store has no lineage index", hint="clone it; the clone has one")
        return Lineage.open(self._path, self._put_aside)

    def record(self, revision: Revision, before: Tree | None = None) -> str | None:
        """Tell the index of a commit, of those before it that it missed, and of where the refs stand.

        Args:
            revision: the commit.
            before: what its first parent holds; rows of tensors that are the same there are copied.

        Returns:
            What a person should hear, once, when the index could not be used, or was damaged and begun anew.
        """
        if self._path is None:
            return None
        try:
            revisions = list(self._unknown(revision))
            notes = [note for item in revisions for note in self._notes(item.id)]
            # Of several, none has a parent whose rows are there already.
            commits = [self._commit(item, before if len(revisions) == 1 else None) for item in revisions]
            refs = list(self._ref_records())
            written = self.lineage.record(commits, refs, notes)
        except MvcsError as error:
            return f"the lineage index was not brought up to date: {error.message}"
        damage, self._damage = self._damage, None
        return damage if written else self.lineage.problem

    def _put_aside(self, problem: str) -> None:
        self._damage = problem
        self._warn(problem)

    def _unknown(self, revision: Revision) -> Iterator[Revision]:
        """Yield the commit, then its first parents up to one that the index knows."""
        yield revision
        for ancestor in islice(self._graph.first_parents(revision), 1, CAUGHT_UP):
            if self.lineage.has([ancestor.id]):
                return
            yield ancestor

    def status(self) -> dict[str, object]:
        """Return where the index lies, whether it is usable, and what it holds."""
        lineage = self.lineage
        count = lineage.count()
        return {
            "path": str(lineage.path),
            "usable": lineage.usable,
            "commits": count,
            "problem": lineage.problem,
        }

    def mend(self) -> str | None:
        """Make the index anew where it is damaged, or lacks commits that it should have; say so then."""
        if self._path is None or not self._path.exists():
            return None  # no commit asked for it yet
        try:
            if self.lineage.is_whole() and self.lineage.count() >= sum(1 for _ in self._all()):
                return None
            return f"the lineage index was rebuilt: it knows {self.rebuild().commits} commits"
        except MvcsError as error:
            return f"the lineage index was not rebuilt: {error.message}"

    def rebuild(self) -> RebuildReport:
        """Make the index anew from the store."""
        commits = map(self._commit, self._all())
        refs = list(self._ref_records())
        notes = [
            note for name in self._refs.listed(NOTES) for note in self._notes(ObjectId(bytes.fromhex(name)))
        ]
        return self.lineage.rebuild(commits, refs, notes, self._store.memory)

    def _all(self) -> Iterator[Revision]:
        records = [*self._refs.survey(HEADS).whole.values(), *self._refs.survey(TAGS).whole.values()]
        return self._graph.walk(self._graph.tips(records))

    def _commit(self, revision: Revision, before: Tree | None = None) -> CommitRecord:
        written = revision.written
        sizes = (written.raw_bytes, written.stored_bytes, written.exact_bytes, written.depth)
        if before is None:  # else the commit was made just now, and what it needs is known
            self._store.catalog.attach_commit(revision.id)
        try:
            tree = self._store.tree(revision.commit.tree)
        except UNREADABLE_ERRORS:  # the commits behind one that lost its tree are listed all the same
            return CommitRecord(revision.id, revision.commit, *sizes, ())
        old = before if before is not None and tree.is_like(before) else None
        kept = frozenset[int]() if old is None else self._kept(tree, revision, old)
        told = [index for index in range(len(tree.leaves)) if index not in kept]
        leaves = [tree.leaves[index] for index in told]
        names: Iterable[tuple[str | None, str | None]] = repeat((None, None), len(told))
        if old is None or any(_form(tree.leaves[one]) != _form(old.leaves[one]) for one in told):
            paths, roles = tree.leaf_paths(), roles_of(tree)
            names = [(path_text(paths[index]), roles[index].value) for index in told]
        encodings = self._encodings({leaf.value: leaf for leaf in leaves}, revision.id)
        tensors = tuple(
            TensorRecord(
                path, leaf.dtype.name, leaf.shape, role, leaf.value, leaf.exact, encodings[leaf.value]
            )
            for (path, role), leaf in zip(names, leaves, strict=True)
        )
        return CommitRecord(revision.id, revision.commit, *sizes, tensors, kept)

    def _kept(self, tree: Tree, revision: Revision, before: Tree) -> frozenset[int]:
        """Return the leaves of which nothing is new, and which the index has where they lie now."""
        pairs = enumerate(zip(tree.leaves, before.leaves, strict=True))
        same = {index: leaf.tensor.chunk_ids() for index, (leaf, old) in pairs if leaf == old}
        known = self.lineage.places(revision.commit.parents[0]) if same else []
        if len(known) != len(tree.leaves):
            return frozenset()
        catalog = self._store.catalog
        runs = catalog.runs(chain.from_iterable(same.values()))
        if runs is None:
            return frozenset()
        places = chain.from_iterable(
            repeat((run.first.pack, catalog.depth_of(run.first)), run.count) for run in runs
        )
        return frozenset(index for index, ids in same.items() if [*islice(places, len(ids))] == known[index])

    def _encodings(
        self, leaves: Mapping[ObjectId, Leaf], commit: ObjectId
    ) -> dict[ObjectId, tuple[EncodingRecord, ...]]:
        chunks = {value: leaf.tensor.chunk_ids() for value, leaf in leaves.items()}
        runs = self._store.catalog.runs(chain.from_iterable(chunks.values()))
        if runs is None:
            return {value: tuple(self._singly(leaf, commit)) for value, leaf in leaves.items()}
        each = chain.from_iterable(map(self._each, runs))
        return {value: tuple(islice(each, len(ids))) for value, ids in chunks.items()}

    def _singly(self, leaf: Leaf, commit: ObjectId) -> Iterator[EncodingRecord]:
        links = [self._store.catalog.find(chunk) for chunk in leaf.tensor.chunk_ids()]
        if None in links and self._store.manifests.dropped([commit]):
            return
        for link in located_chunks(self._store, leaf) if None in links else filter(None, links):
            yield from self._each(Run(link))

    def _each(self, run: Run) -> Iterator[EncodingRecord]:
        name, depth = run.first.placed.entry.encoding.name.lower(), self._store.catalog.depth_of(run.first)
        for link in run.members():
            yield EncodingRecord(link.id, name, stored_share(link), link.length, depth, link.pack)

    def _ref_records(self) -> Iterator[RefRecord]:
        for name, record in self._refs.survey(HEADS).whole.items():
            yield RefRecord("heads", name, record.target, record.number)
        for name, record in self._refs.survey(TAGS).whole.items():
            yield RefRecord("tags", name, record.target, record.number)

    def _notes(self, commit: ObjectId) -> Iterator[NoteRecord]:
        for note in notes_of(self._refs, commit):
            yield NoteRecord(note.id, note.target, note.metrics, note.author, note.time)


def _form(leaf: Leaf) -> tuple[object, ...]:
    return leaf.dtype, leaf.shape
