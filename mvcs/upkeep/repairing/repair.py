"""Repair: what checks found damaged is made good again from other stores, or from what is left of it.

Everything is compared with the hash that names it before it takes the place of anything. What lay there is
kept aside. So a repair can be stopped anywhere, run again, and run beside writers.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from mvcs.errors import MvcsError
from mvcs.history import Graph, GraphNeeds, Revision
from mvcs.local import Findings, Place, known_damaged, note_damaged, packs_at_work, save_findings
from mvcs.local_files import scratch_folder
from mvcs.objects import (
    Blob,
    Kind,
    Leaf,
    ObjectId,
    QuantizedTensor,
    Tree,
    blob_reference,
    half,
    path_text,
    short_id,
)
from mvcs.progress import Progress
from mvcs.refs import HEADS, RefRecord, RefStore, now_microseconds
from mvcs.reports import FsckReport, Loss, Mended, NewestWhole, RepairReport
from mvcs.retention import Drop, DropLog
from mvcs.store import (
    DROPPED_DATA,
    EXACT_FOLDER,
    UNREADABLE_ERRORS,
    VALUE_FOLDER,
    Backend,
    ObjectStore,
    has_upgrade,
    pack_name,
    pack_path,
    refuse_changes,
)
from mvcs.upkeep.checking.fsck import CheckedClone, check_store
from mvcs.upkeep.checking.pack_check import FULL, Level
from mvcs.upkeep.collecting.leftovers import held
from mvcs.upkeep.collecting.marking import Held
from mvcs.upkeep.repairing.repair_commits import CommitRepair
from mvcs.upkeep.repairing.repair_packs import PackRepair
from mvcs.upkeep.repairing.repair_records import DropRepair, RefRepair, RuleRepair
from mvcs.upkeep.repairing.workspace import PackKey, Rehearsal, SetAside, Source, WantedPacks

PACK, COMMIT = "pack", "commit"
VALUE, EXACT = "value", "exact"
NAMED = 64  # tensors of a commit that a report names


@dataclass
class Repair:
    """One repair of a clone's store.

    Attributes:
        place: the clone.
        clone: what it knows of its store.
        sources: stores of the same project that may have good copies.
        author: who repairs.
        progress: is told the work.
        allow: is told what packs of other names unpack to, and raises where that is too much.
        all_asked: whether every remote is among the sources.
        give_up: record of commits of which something stays lost that their data are given up.
        notes: what is worth knowing.
    """

    place: Place
    clone: CheckedClone
    sources: Sequence[Source]
    author: str
    progress: Progress
    allow: Callable[[int], None] = lambda _: None
    all_asked: bool = True
    give_up: bool = False
    notes: list[str] = field(default_factory=list)
    _doubted: set[str] = field(default_factory=set)

    def run(self, *, execute: bool) -> RepairReport:
        """Mend what is wrong; without `execute` say what that would come to, and change nothing.

        Raises:
            UnsupportedFormatError: a newer mvcs upgraded the store.
            StorageError: the store cannot be read or written.
        """
        refuse_changes(self.place.backend)
        suspects = self._suspects()
        with self._backend(execute=execute) as backend:
            aside = SetAside(self.clone.local, backend) if execute else None
            store = self._fresh(backend)
            packs = self._packs(store, aside)
            packs.commits.records()  # they name the packs
            lost = packs.run(suspects)
            if execute:
                self._remember(packs, lost)
            refs = self._refs(store, aside)
            refs.run()
            # Records and packs that came again may name more.
            packs.commits.records()
            lost |= packs.run(())
            drops = DropRepair(self._wanted(store), aside, self.notes.append)
            drops.run()
            rules = RuleRepair(backend, aside, self.author, self.notes.append)
            rules.run()

            def told() -> RepairReport:
                mended = [*packs.mended, *packs.commits.mended, *refs.mended, *drops.mended, *rules.mended]
                return self._told(backend, mended, lost - packs.commits.needless, aside)

            report = told()
            given_up = _give_up(packs.commits, report.losses, aside) if self.give_up else []
            self.notes += packs.commits.hopeless.values()
            if not given_up:
                return replace(report, notes=list(dict.fromkeys([*self.notes, *report.notes])))
            after = told()
            return replace(report, problems=after.problems, notes=after.notes, given_up=given_up)

    def _packs(self, store: ObjectStore, aside: SetAside | None) -> PackRepair:
        wanted, note = self._wanted(store), self.notes.append
        at_work = frozenset(filter(None, map(pack_name, packs_at_work(self.place.local))))
        commits = CommitRepair(
            wanted,
            self.sources,
            aside,
            self.author,
            self.progress,
            self.allow,
            note,
            at_work,
            all_asked=self.all_asked,
        )
        return PackRepair(store, wanted, self.sources, aside, self.progress, note, commits)

    def _refs(self, store: ObjectStore, aside: SetAside | None) -> RefRepair:
        unpublished = set() if self.clone.unpublished is None else self.clone.unpublished()
        memory = None if aside is None else self.clone.seen
        refs = RefStore(store.backend, memory=memory, needs=GraphNeeds(store, Graph(store)))
        return RefRepair(store, refs, self.sources, aside, self.author, unpublished, self.notes.append)

    def _fresh(self, backend: Backend) -> ObjectStore:
        return ObjectStore(backend, self.place.memory)

    def _wanted(self, store: ObjectStore) -> WantedPacks:
        head = Held()
        with contextlib.suppress(MvcsError):
            head = held(self.place)
        return WantedPacks(store, RefStore(store.backend), head)

    @contextlib.contextmanager
    def _backend(self, *, execute: bool) -> Iterator[Backend]:
        if execute:
            yield self.place.backend
            return
        with scratch_folder(self.place.local) as folder:
            yield Rehearsal(self.place.backend, folder)

    def _suspects(self) -> set[PackKey]:
        """Return the packs that checks found damaged; where none found any, everything is checked first."""
        local = self.clone.local
        found = Findings.load(local).problems
        if not found:
            report = check_store(self._fresh(self.place.backend), self.progress, FULL, self.clone)
            save_findings(local, report)
            found = tuple(report.problems)
        self._doubted = {problem.subject for problem in found if problem.kind == COMMIT}
        keys = {key for problem in found if problem.kind == PACK and (key := _key(problem.subject))}
        return keys | set(map(PackKey, known_damaged(local))) | self._given_up_before()

    def _given_up_before(self) -> set[PackKey]:
        """Return the packs of data that were given up: nobody trusts what is left of them."""
        store, found = self._fresh(self.place.backend), set[PackKey]()
        if not self.sources or not has_upgrade(store.backend, DROPPED_DATA):
            return found
        for revision in self._wanted(store).revisions():
            with suppress(MvcsError):
                drop = store.manifests.placement(revision.id).dropped
                for number in store.manifests.numbers(revision.id) if drop and drop.is_loss else ():
                    found.update(map(PackKey, store.manifests.numbered(revision.id, number).packs))
        return found

    def _remember(self, packs: PackRepair, lost: set[PackKey]) -> None:
        mended = {key for one in packs.mended if one.whole and (key := _key(one.path))}
        self.clone.watch.mended((key.name, key.exact) for key in mended)
        damaged = {key.name for key in lost if not key.exact and self.place.backend.size(key.path)}
        note_damaged(self.clone.local, damaged, {key.name for key in mended if not key.exact})

    def _told(
        self, backend: Backend, mended: list[Mended], lost: set[PackKey], aside: SetAside | None
    ) -> RepairReport:
        """Look at what is left: names, footers, and all that could not be mended."""
        store = self._fresh(backend)
        wanted = self._wanted(store)
        report = self._checked(wanted, lost)
        if aside is not None:
            save_findings(self.clone.local, report, lambda _: True)
        revisions = [one for one in wanted.revisions() if not _is_dropped(store, one)]
        unrestorable = {name for one in report.problems if one.kind == COMMIT for name in one.objects}
        losses = self._losses(store, revisions, unrestorable) if report.problems else []
        unread = [commit for commit, found in wanted.commits() if isinstance(found, MvcsError)]
        losses += (Loss(commit.hex(), "", VALUE, [], None) for commit in unread)
        restorable = Restorable(revisions, losses)
        newest = restorable.newest(store, wanted.refs) if losses else ()
        return RepairReport(
            aside is not None,
            mended,
            [] if aside is None else aside.kept,
            report.problems,
            losses,
            len(revisions) + len(unread),
            list(dict.fromkeys([*self.notes, *report.notes])),
            restorable.whole,
            list(newest),
        )

    def _checked(self, wanted: WantedPacks, lost: set[PackKey]) -> FsckReport:
        """Check what is lost, and the packs with the trees of commits of which more was found wrong."""
        paths = {key.path for key in lost}
        view = wanted.store.apart()
        for revision in wanted.revisions() if self._doubted else ():
            if f"commit {short_id(revision.id)}" in self._doubted:
                with suppress(MvcsError):
                    view.catalog.attach_commit(revision.id)
                    paths.add(pack_path(view.catalog.locate(revision.commit.tree).pack))
        return check_store(wanted.store, self.progress, Level(paths), self.clone)

    @staticmethod
    def _losses(
        store: ObjectStore, revisions: Iterable[Revision], unrestorable: Collection[str]
    ) -> list[Loss]:
        given_up = set[str]()
        with contextlib.suppress(MvcsError):  # it was told what is wrong with them
            given_up = {name for drop in DropLog(store.backend).survey()[0] for name in drop.packs}
        return list(Losses(store, given_up, unrestorable).of(revisions))


def _give_up(commits: CommitRepair, losses: Sequence[Loss], aside: SetAside | None) -> list[str]:
    """Record what was lost, so that collecting, moving and sending all else goes on; return whose it was."""
    lost = {ObjectId(bytes.fromhex(loss.commit)): loss.layer for loss in losses[::-1]}
    values, heads = {commit for commit, layer in lost.items() if layer == VALUE}, commits.wanted.heads()
    for commit in sorted(heads & lost.keys()):
        commits.note(
            f"commit {short_id(commit)} was not given up, since a branch or HEAD stands on it: "
            "move that to another commit first"
        )
    given_up = commits.give_up(values, heads)
    layers = {commit for commit, layer in lost.items() if layer == EXACT} - heads
    return [commit.hex() for commit in {*given_up, *_give_up_layers(commits.wanted, layers, aside)}]


def _give_up_layers(
    wanted: WantedPacks, lost: Collection[ObjectId], aside: SetAside | None
) -> list[ObjectId]:
    """Drop exact layers that are lost, or whose values are: they are stored near these."""
    backend, log = wanted.store.backend, DropLog(wanted.store.backend)
    recorded = {name for drop in log.survey()[0] for name in drop.packs}
    due = dict[ObjectId, tuple[str, ...]]()
    for one in wanted.ever():
        names, drop = one.written.exact_packs, wanted.store.manifests.placement(one.id).dropped
        if not names or not (one.id in lost or (drop is not None and drop.is_loss)):
            continue
        if any(name not in recorded or backend.size(pack_path(name, exact=True)) for name in names):
            due[one.id] = names
    if due:
        time = now_microseconds()
        log.append(tuple(Drop(commit, names, time) for commit, names in due.items()))
    for path in (pack_path(name, exact=True) for names in due.values() for name in names):
        if aside is not None:
            aside.keep(path)
        backend.delete(path)
    return list(due)


def _key(path: str) -> PackKey | None:
    name = pack_name(path)
    folder = path.partition("/")[0]
    if name is None or folder not in (VALUE_FOLDER, EXACT_FOLDER):
        return None
    return PackKey(name, exact=folder == EXACT_FOLDER)


def _is_dropped(store: ObjectStore, revision: Revision) -> bool:
    """Tell whether the data of a commit were given up on purpose."""
    with suppress(MvcsError):
        return store.manifests.placement(revision.id).dropped is not None
    return False


@dataclass
class Losses:
    """Looks through commits of a store whose damage is known: its catalog distrusts what is damaged.

    Attributes:
        store: the store.
        given_up: packs of exact layers that were dropped on purpose.
        unrestorable: ids of tensors that cannot be restored though all of them is there.
    """

    store: ObjectStore
    given_up: Collection[str]
    unrestorable: Collection[str] = ()
    _lost: dict[tuple[ObjectId, bool], bool] = field(default_factory=dict)

    def of(self, revisions: Iterable[Revision]) -> Iterator[Loss]:
        """Yield what each commit has lost, of both layers."""
        for revision in revisions:
            try:
                self.store.catalog.attach_commit(revision.id)
                tree = self.store.tree(revision.commit.tree)
            except UNREADABLE_ERRORS:
                yield _loss(revision, VALUE, None)
                continue
            values = [self._has_lost_value(leaf) for leaf in tree.leaves]
            paths = [path for path, lost in zip(tree.leaf_paths(), values, strict=True) if lost]
            paths += self._files(tree)
            if paths:
                yield _loss(revision, VALUE, [path_text(path) or "the value itself" for path in paths])
            exact = list(self._exact(revision, tree, values))
            if exact:
                yield _loss(revision, EXACT, exact)

    def _has_lost_value(self, leaf: Leaf) -> bool:
        return leaf.tensor.id.hex() in self.unrestorable or any(map(self._is_lost, leaf.value_chunks()))

    def _files(self, tree: Tree) -> Iterator[tuple[str | int | bool, ...]]:
        for path, node in tree.nodes() if tree.blobs() else ():
            found = blob_reference(node) if isinstance(node, list) else None
            if found is not None and self._is_lost_blob(found[0]):
                yield path

    def _is_lost_blob(self, identifier: ObjectId) -> bool:
        if self._is_lost(identifier):
            return True
        try:
            blob = Blob.decode(self.store.read(Kind.BLOB, identifier))
        except UNREADABLE_ERRORS:
            return True
        return any(map(self._is_lost, blob.chunks))

    def _exact(self, revision: Revision, tree: Tree, values: list[bool]) -> Iterator[str]:
        """Yield the paths of tensors whose exact values are lost; a layer that was given up has lost none."""
        names = revision.written.exact_packs
        if not names or self._is_given_up(names):
            return
        self.store.catalog.attach_layer(names)
        without = {
            half(leaf.tensor.id)
            for leaf, lost in zip(tree.leaves, values, strict=True)
            if lost and isinstance(leaf.tensor, QuantizedTensor)
        }
        for path, leaf in zip(tree.leaf_paths(), tree.leaves, strict=True):
            chunks = () if leaf.original is None else leaf.original.chunks
            if any(self._is_lost_layer(chunk, without) for chunk in chunks):
                yield path_text(path) or "the value itself"

    def _is_given_up(self, names: Iterable[str]) -> bool:
        size = self.store.backend.size
        return any(name in self.given_up and size(pack_path(name, exact=True)) is None for name in names)

    def _is_lost_layer(self, chunk: ObjectId, without: Collection[ObjectId]) -> bool:
        """Tell whether an exact chunk is lost, be it that the values are which it is stored near."""
        if self._is_lost(chunk, exact=True):
            return True
        links = self.store.catalog.chain_of(self.store.catalog.locate(chunk, exact=True)).links
        bases = (base for link in links for base in link.placed.entry.bases if base.chunk is not None)
        return any(base.id in without for base in bases)

    def _is_lost(self, identifier: ObjectId, *, exact: bool = False) -> bool:
        known = self._lost.get((identifier, exact))
        if known is None:
            known = self._lost[identifier, exact] = self._is_unreadable(identifier, exact=exact)
        return known

    def _is_unreadable(self, identifier: ObjectId, *, exact: bool) -> bool:
        catalog = self.store.catalog
        try:
            links = catalog.chain_of(catalog.locate(identifier, exact=exact)).links
        except UNREADABLE_ERRORS:
            return True
        return any(link.place in catalog.damaged for link in links)


def _loss(revision: Revision, layer: str, paths: list[str] | None) -> Loss:
    message = revision.commit.message.partition("\n")[0]
    count = None if paths is None else len(paths)
    return Loss(revision.id.hex(), message, layer, (paths or [])[:NAMED], count)


class Restorable:
    """Tells of commits whose data were not dropped which of them restore.

    Attributes:
        whole: the ids of those that have lost nothing, as they were given.
    """

    def __init__(self, revisions: Sequence[Revision], losses: Collection[Loss]) -> None:
        lossy = {loss.commit for loss in losses}
        without_values = {loss.commit for loss in losses if loss.layer == VALUE}
        self.whole = [one.id.hex() for one in revisions if one.id.hex() not in lossy]
        self._with_values = {one.id for one in revisions if one.id.hex() not in without_values}

    def newest(self, store: ObjectStore, refs: RefStore) -> Iterator[NewestWhole]:
        """Yield the newest commit of each branch whose values restore; a branch may have none."""
        graph = Graph(store)
        for name in refs.listed(HEADS):
            with suppress(MvcsError):  # it was told what is wrong with the branch
                yield self._newest(graph, name, _targets(refs, name))

    def _newest(self, graph: Graph, name: str, targets: Iterable[ObjectId]) -> NewestWhole:
        for back, target in enumerate(targets):
            with suppress(MvcsError):
                for revision in graph.walk([graph.load(target)]):
                    if revision.id in self._with_values:
                        return self._told(name, revision, is_tip=not back and revision.id == target)
                return NewestWhole(name)
        return NewestWhole(name)

    def _told(self, name: str, revision: Revision, *, is_tip: bool) -> NewestWhole:
        identifier, commit = revision.id.hex(), revision.commit
        exact = identifier in set(self.whole)
        message = commit.message.partition("\n")[0]
        return NewestWhole(name, identifier, commit.step, message, exact, is_tip)


def _targets(refs: RefStore, name: str) -> Iterator[ObjectId]:
    """Yield where a branch stands, and where it stood before; nothing of one that was deleted."""
    for record in refs.row(HEADS, name):
        if isinstance(record, RefRecord):
            if record.target is None:
                return
            yield record.target
