"""What the verbs share while a repository is open: store, history, refs, HEAD, settings, index."""

import contextlib
import getpass
import pathlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

from mvcs.commits import FIRST_MOMENT, NAMED_CLASSES, WORST_CLASS, WORST_MOMENT_CLASS
from mvcs.errors import CorruptionError, MvcsError, NotFoundError, StorageError
from mvcs.history import Graph, GraphNeeds, Resolver, Revision
from mvcs.local import HEAD, Head, Place, SeenRefs, keep_described, mend_advice, read_head, write_head
from mvcs.machine import processors
from mvcs.objects import BOUNDED, NOT_EVALUATED, RUN_KEY, Commit, ObjectId, Tree
from mvcs.progress import SILENT, Progress
from mvcs.quantize import LEFT_OUT
from mvcs.refs import HEADS, GoingError, RefRecord, RefStore, later_metrics, notes_of
from mvcs.reports import DROPPED, KEPT, NOT_MEASURED, SAME, CommitInfo, NoteInfo, TensorError, as_utc
from mvcs.repository.branch_tip import load_head, load_tip
from mvcs.repository.head_moves import note_move, trail
from mvcs.repository.quota import Quota
from mvcs.restore import HANDED_OUT, UNLIMITED, Allowance, GivenStates
from mvcs.retention import Source, has_exact_layer, try_drop_old_layers
from mvcs.store import DROPPED_DATA, UNREADABLE_ERRORS, Backend, DataDrop, ObjectStore, has_upgrade

INDEX = "index"
CLONING = "clone: "  # how the actions of records begin that a clone writes
WARNINGS = 100
MOST_THREADS = 8  # by itself; more do not help one disk
UNKNOWN_AUTHOR = "unknown"


if TYPE_CHECKING:
    from mvcs.commits import Committer, LayerWriters, Mechanisms
    from mvcs.delta import CodeCoder
    from mvcs.local import StoreWatch
    from mvcs.repository.index_update import Indexing
    from mvcs.store import CodingWorth, RestoreRates


@dataclass
class Session:
    """An open repository.

    Attributes:
        place: where it lies.
        progress: is told of long work.
        warnings: what a person should hear once.
        published: the commit that was made last while this is open.
        allowance: how much may be restored.
        mechanisms: of bounded commits, that are at work; None for all, as of users.
        unbounded: commits that were seen to be exact; None once one was seen that is not.
    """

    place: Place
    progress: Progress
    warnings: list[str] = field(default_factory=list)
    published: ObjectId | None = None
    allowance: Allowance = UNLIMITED
    mechanisms: "Mechanisms | None" = None
    unbounded: set[ObjectId] | None = field(default_factory=set)

    def warn(self, text: str) -> None:
        """Keep something that a person should hear once."""
        if text not in self.warnings:
            self.warnings.append(text)
        del self.warnings[:-WARNINGS]

    def __post_init__(self) -> None:
        """Open store, history and refs; nothing is read yet."""
        self.store = ObjectStore(self.place.backend, self.place.memory)
        self.graph = Graph(self.store)
        self.seen = self._memory()
        needs = GraphNeeds(self.store, self.graph)
        self.refs = RefStore(self.place.backend, memory=self.seen, needs=needs)
        if not self.place.backend.exclusive:
            self.warn(f"'{self.place.backend.url}' does not refuse a second writer: use one writer at a time")

    @cached_property
    def indexing(self) -> "Indexing":
        """The lineage index beside the repository; made when first needed."""
        from mvcs.repository.index_update import Indexing

        local = self.place.local
        path = None if local is None else local / "lineage.sqlite"
        return Indexing(path, self.store, self.graph, self.refs, self.warn)

    def _memory(self) -> SeenRefs | None:
        local = self.place.local
        return None if local is None else SeenRefs(local, self.place.description.store_id, self.progress.note)

    @cached_property
    def watch(self) -> "StoreWatch":
        """What this clone remembers of looking at the store."""
        from mvcs.local import StoreWatch

        return StoreWatch(self.store, self.place.local)

    @property
    def given(self) -> GivenStates:
        """What this process was given of the project, and which commits it made."""
        return HANDED_OUT.projects[self.place.description.project_id]

    @property
    def threads(self) -> int:
        """How many threads store or read leaves side by side."""
        return self.place.config.integer("commit.threads") or min(processors(), MOST_THREADS)

    def reader(self) -> ObjectStore:
        """Return a view of the store for one reading.

        Commits made meanwhile forget the packs they need no longer; a reading keeps those it has attached.
        """
        memory = replace(self.store.memory, threads=self.threads)
        return ObjectStore(self.place.backend, memory, self.store.manifests)

    def close(self) -> None:
        """Remember what was seen of refs; nothing is held."""
        if self.seen is not None:
            self.seen.flush()

    @cached_property
    def committer(self) -> "Committer":
        """What makes commits here; made when first needed."""
        from mvcs.commits import Committer
        from mvcs.store import CodingWorth

        config = self.place.config
        keeps = config.integer("retention.exact_layers") > 0
        worth = CodingWorth() if config.get("retention.exact_coding") == "auto" else None
        writers = self._layer_writers(self.store, worth, self.watch, keeps_exact=keeps)
        return Committer(writers, self.graph, self.threads, self.progress)

    def dry_run(self) -> "Committer":
        """Return what makes commits that are kept nowhere, without exact layers, to learn what they take."""
        from mvcs.commits import Committer
        from mvcs.store import DryRun

        dry = ObjectStore(DryRun(self.store.backend), self.store.memory)
        writers = self._layer_writers(dry, None, None, keeps_exact=False)
        return Committer(writers, Graph(dry), threads=1, progress=SILENT)

    def _layer_writers(
        self,
        store: ObjectStore,
        worth: "CodingWorth | None",
        watch: "StoreWatch | None",
        *,
        keeps_exact: bool,
    ) -> "LayerWriters":
        """Return what writes the layers of commits, as the settings have it."""
        from mvcs.commits import LayerWriters, Mechanisms
        from mvcs.repository.restore_budget import configured_limits

        config = self.place.config
        return LayerWriters(
            store,
            configured_limits(config, self.rates),
            worth,
            keeps_exact=keeps_exact,
            max_tensor_error=config.number("commit.max_tensor_error"),
            watch=watch,
            mechanisms=self.mechanisms or Mechanisms(),
            coder=cast("CodeCoder", config.get("delta.coder")),
        )

    def rates(self) -> "RestoreRates":
        """Return how quick this machine is; measured now where it was not yet."""
        from mvcs.repository.restore_budget import rates_of

        head = None
        with contextlib.suppress(*UNREADABLE_ERRORS):
            head = self.head()
        return rates_of(self.place, head, anew=False).rates

    @property
    def head_text(self) -> str:
        """What HEAD says; a bare store stands on its default branch."""
        return self._stand().text

    def _stand(self) -> Head:
        local = self.place.local
        return Head(self.place.description.default_branch, None) if local is None else read_head(local)

    @property
    def branch(self) -> str | None:
        """The branch HEAD is on; None when it is detached."""
        return self._stand().branch

    def branch_record(self, branch: str) -> RefRecord | None:
        """Return the newest record of a branch, deletions included."""
        return self.refs.newest(HEADS, branch)

    def head(self) -> Revision | None:
        """Return the commit HEAD stands on; None before the first commit.

        Raises:
            RolledBackError: the branch has no records any more, and this clone has seen some.
        """
        stand = self._stand()
        if stand.branch is None:
            return self._detached(stand)
        record = self.head_record(stand.branch)
        if record is None:
            self.refs.refuse_rolled_back(HEADS, stand.branch, None)
        return None if record is None or record.target is None else self.tip(stand.branch, record)

    def _detached(self, stand: Head) -> Revision:
        default = self.place.description.default_branch
        return load_head(self.graph, self.refs, stand.commit or ObjectId(b""), default)

    def head_record(self, branch: str) -> RefRecord | None:
        """Return the newest record of the branch HEAD is on, and say when it is gone.

        Raises:
            CorruptionError: HEAD, which carries no checksum, names a branch that there never was.
        """
        record = self.branch_record(branch)
        if record is None:
            self._refuse_unheard_of(branch)
        else:
            self._note_deleted(branch, record)
        return record

    def _refuse_unheard_of(self, branch: str) -> None:
        """A bit of HEAD may have rotted: then nothing is created under the wrong name."""
        others = [] if self._stand().checked else self.refs.listed(HEADS)
        if others:
            raise CorruptionError(
                f"HEAD names the branch '{branch}', which has no commits, and carries no checksum",
                hint=f"the branches are {', '.join(others[:8])}; {mend_advice(self.place.local)}",
            )

    def _note_deleted(self, branch: str, record: RefRecord) -> None:
        """Say that the branch HEAD is on is gone, which only another writer can have done."""
        if record.target is None:
            self.progress.note(
                f"branch '{branch}' was deleted by another writer; "
                f"'mvcs reflog {branch}' names the commits it had"
            )

    def tip(self, branch: str, record: RefRecord) -> Revision:
        """Return the commit that a record of a branch names.

        Raises:
            NotFoundError: it is not in the store; the hint tells a way back.
            CorruptionError: it is damaged; likewise.
        """
        return load_tip(self.graph, self.refs, branch, record, stands=branch == self.branch)

    @property
    def has_head(self) -> bool:
        """Whether this is a clone that was made to its end, and no bare store."""
        return self.place.local is not None and (self.place.local / HEAD).exists()

    def check_head(self) -> Revision | None:
        """Check that HEAD is whole and leads to something that is, or may be, there.

        Returns:
            The commit that it stands on without a branch.

        Raises:
            CorruptionError: it is missing or damaged, or names a branch that never was.
            NotFoundError: it names a commit that is not here.
        """
        if self.place.local is None or self._is_begun(self.place.local):
            return None  # every other command says so
        stand = self._stand()
        if stand.commit is not None:
            return self._detached(stand)
        if stand.branch not in self.refs.listed(HEADS):
            self._refuse_unheard_of(stand.branch or "")
        return None

    def _is_begun(self, local: pathlib.Path) -> bool:
        """Tell whether this is an interrupted init or clone: HEAD comes last, and then the files."""
        if self.has_head or (local / INDEX).exists():
            return False
        heads = self.refs.survey(HEADS)
        return not heads.damaged and all(record.action.startswith(CLONING) for record in heads.whole.values())

    def _give_head_its_checksum(self) -> None:
        stand = self._stand()
        if not stand.checked:
            with contextlib.suppress(GoingError, NotFoundError):  # what reads the commit says so
                self.set_head(stand.text)

    def set_head(self, text: str, action: str = "") -> None:
        """Point HEAD at `ref: BRANCH` or at a commit's id; a bare store has no HEAD to move.

        Args:
            text: where to.
            action: what the reflog says, if it is no checkout.

        Raises:
            GoingError: a collector deletes what the commit needs; HEAD is where it was.
        """
        local, head = self.place.local, Head.parse(text)
        if local is None:
            return
        with contextlib.ExitStack() as stack:
            if head.commit is not None:
                before = self._stand().text if self.has_head else None
                undo = partial(write_head, local, before) if before is not None else lambda: None
                stack.enter_context(self.refs.naming(head.commit, self.author, undo))
            note_move(self, head, action)
            write_head(local, text)

    @property
    def goals(self) -> dict[str, str]:
        """Which way metrics are better, `min` or `max`, as far as this clone's settings tell."""
        config = self.place.config
        return {name: str(config.get(f"metric.{name}.goal")) for name in config.names("metric")}

    @property
    def resolver(self) -> Resolver:
        """What resolves revisions from here."""
        try:
            branch = self.branch
        except CorruptionError:
            branch = None  # a damaged HEAD is reported by what asks for HEAD
        tell = self.progress.note
        return Resolver(
            self.graph,
            self.refs,
            self.head,
            branch,
            self.goals,
            self.later,
            tell,
            lambda: trail(self),
        )

    def later(self, commit: ObjectId) -> Mapping[str, float]:
        """Return the metrics that notes add to a commit."""
        return later_metrics(self.refs, commit, self.progress.note)

    def info(
        self,
        revision: Revision,
        notes: Iterable[str] = (),
        timings: dict[str, float] | None = None,
        exact: Collection[str] | None = None,
    ) -> CommitInfo:
        """Return a commit as people and scripts see it; `exact` names packs of exact layers, as listed."""
        info = commit_info(revision, self.store, self.later(revision.id), notes, timings, exact)
        return replace(info, data_dropped=True) if self.data_drop(revision.id) else info

    @cached_property
    def quota(self) -> Quota:
        """How much the store may hold."""
        return Quota.of(self.place.backend, self.place.config)

    @property
    def retention_source(self) -> Source:
        """What rules of retention go by here."""
        return rule_source(self.place.backend, self.graph, self.refs, self.head, self.progress.note)

    @cached_property
    def _may_be_dropped(self) -> bool:
        """Whether data of any commit were given up in this store, as of the first look."""
        return has_upgrade(self.place.backend, DROPPED_DATA)

    def look_for_drops(self) -> None:
        """Look again whether data were given up, when that is asked for next."""
        self.__dict__.pop("_may_be_dropped", None)

    def data_drop(self, commit: ObjectId) -> DataDrop | None:
        """Return that the data of a commit were given up; None where they were not, or nobody can tell."""
        try:
            return self.store.manifests.dropped([commit]).get(commit) if self._may_be_dropped else None
        except MvcsError as error:
            self.warn(f"whether the data of a commit were dropped cannot be told: {error.message}")
            return None

    @property
    def author(self) -> str:
        """Who commits: `user.name`, else the name of the account."""
        name = self.place.config.get("user.name")
        if not name:
            # No commit is lost for the name of its author.
            with contextlib.suppress(CorruptionError, StorageError):
                name = self.place.trust.config.get("user.name")
        if name:
            return str(name)
        try:
            return getpass.getuser()
        except (KeyError, OSError, ImportError):
            return UNKNOWN_AUTHOR

    def after_commit(self, revision: Revision, before: Tree | None) -> list[str]:
        """Do what follows a durable commit; nothing here can undo it, so problems become notes.

        Args:
            revision: the commit.
            before: what its first parent holds, as far as that was read.
        """
        kept = self.place.config.integer("retention.exact_layers")
        problem = try_drop_old_layers(self.retention_source, kept)
        notes = [] if problem is None else [f"older exact layers were not dropped: {problem.message}"]
        self._give_head_its_checksum()
        keep_described(self.place)
        problem_of_index = self.indexing.record(revision, before)
        try:
            self.watch.end()
        except StorageError as error:
            notes.append(f"what was looked at was not remembered: {error.message}")
        return [*notes, *([problem_of_index] if problem_of_index else [])]

    def require_top(self) -> pathlib.Path:
        """Return the working folder.

        Raises:
            NotFoundError: this is a bare store.
        """
        if self.place.top is None:
            raise NotFoundError(
                "a bare store has no working folder", hint="clone it, or use 'checkout REV -o PATH'"
            )
        return self.place.top


def note_infos(
    refs: RefStore, commit: ObjectId, tell: Callable[[str], None] = lambda _: None
) -> list[NoteInfo]:
    """Return the notes of a commit as reports."""
    return [
        NoteInfo(note.author, as_utc(note.time), dict(note.metrics)) for note in notes_of(refs, commit, tell)
    ]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def commit_info(
    revision: Revision,
    store: ObjectStore,
    later: Mapping[str, float],
    notes: Iterable[str] = (),
    timings: dict[str, float] | None = None,
    exact: Collection[str] | None = None,
) -> CommitInfo:
    """Return a commit as people and scripts see it, with the metrics that notes add `later`."""
    commit, written = revision.commit, revision.written
    bounded = commit.exactness == BOUNDED
    measured: float | str = NOT_MEASURED if commit.degradation is None else commit.degradation
    kept = KEPT if bounded and has_exact_layer(store.backend, revision, exact) else DROPPED
    return CommitInfo(
        id=revision.id.hex(),
        parents=[parent.hex() for parent in commit.parents],
        step=commit.step,
        metrics={**dict(commit.metrics), **later},
        exactness=commit.exactness,
        degradation=measured if bounded else None,
        raw_bytes=written.raw_bytes,
        stored_bytes=written.stored_bytes,
        exact_bytes=written.exact_bytes,
        message=commit.message,
        author=commit.author,
        time=as_utc(commit.time),
        lineage_exact=commit.lineage_exact,
        restored_from=commit.restored_from.hex() if commit.restored_from else None,
        exact_layer=kept if bounded else SAME,
        errors={name: dict(sums) for name, sums in commit.errors if name not in NAMED_CLASSES},
        worst=_worst(commit, WORST_CLASS),
        worst_moment=_worst(commit, WORST_MOMENT_CLASS),
        left_out=_left_out(commit),
        notes=list(notes),
        timings=timings or {},
        weights_only=commit.weights_only,
        run=_text(dict(commit.provenance).get(RUN_KEY)),
        not_evaluated=_text(dict(commit.provenance).get(NOT_EVALUATED)),
    )


def _worst(commit: Commit, kind: str) -> TensorError | None:
    found = dict(commit.errors).get(kind)
    return TensorError(*found[0]) if found else None


def _left_out(commit: Commit) -> list[str]:
    """Return the classes whose values are left out on purpose."""
    shared = dict(commit.quantizer or ()).get("first") in tuple(LEFT_OUT)
    left_out = shared or "light" in commit.moment_tiers.values()
    return [FIRST_MOMENT] if left_out and FIRST_MOMENT in dict(commit.errors) else []


def rule_source(
    backend: Backend,
    graph: Graph,
    refs: RefStore,
    head: Callable[[], Revision | None],
    tell: Callable[[str], None],
) -> Source:
    """Return what facts are read from.

    Args:
        backend: the store.
        graph: its commits.
        refs: its branches, tags and notes.
        head: gives where HEAD stands; that of a store which others work in, nobody here knows.
        tell: hears of notes that are damaged.
    """

    def heads() -> tuple[Revision, ...]:
        found = head()
        return () if found is None else (found,)

    return Source(backend, graph, refs, heads=heads, later=lambda commit: later_metrics(refs, commit, tell))
