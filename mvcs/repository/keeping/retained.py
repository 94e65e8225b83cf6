"""A store whose retention is shown or changed: this repository's own, or a remote's."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import NotFoundError
from mvcs.history import Graph, Revision
from mvcs.local import known_damaged
from mvcs.objects import ObjectId, short_id
from mvcs.refs import HEADS, GoingError, Moved, RefStore
from mvcs.reports import PinInfo, PlannedCommit, RetentionShown, RuleInfo, as_utc, of_remote
from mvcs.repository.session import Session, rule_source
from mvcs.repository.sharing.remote_stores import RemoteStore
from mvcs.retention import (
    GONE,
    Layer,
    Plan,
    Ruling,
    Source,
    commit_names,
    dropped_before,
    has_exact_layer,
)
from mvcs.store import DROPPED_DATA, ObjectStore, Placement, has_upgrade, value_packs

KEPT_NOW = ", are still there and are kept now"


@dataclass(frozen=True)
class Retained:
    """One store under retention.

    Attributes:
        session: the repository.
        store: the store in question.
        graph: its commits.
        refs: its branches, tags and notes.
        remote: the remote's name; None for the repository's own store.
    """

    session: Session
    store: ObjectStore
    graph: Graph
    refs: RefStore
    remote: str | None = None

    @classmethod
    def of(cls, session: Session, remote: str | None) -> "Retained":
        """Open the store of a remote, or take the repository's own.

        Raises:
            NotFoundError: there is no such remote, or no store where it should lie.
        """
        if remote is None:
            return cls(session, session.store, session.graph, session.refs)
        there = RemoteStore.named(session, remote).open(session, make=False)
        return cls(session, there.store, there.graph, there.refs, remote)

    @property
    def source(self) -> Source:
        """What facts are read from."""
        if self.remote is None:
            return self.session.retention_source
        tell = self.session.progress.note
        return rule_source(self.store.backend, self.graph, self.refs, lambda: None, tell)

    def revision(self, rev: str) -> Revision:
        """Return a commit as this store has it; what it is called, the repository tells.

        Raises:
            NotFoundError: there is no such commit, or the remote does not have it.
        """
        here = self.session.resolver.resolve(rev)
        if self.remote is None:
            return here
        try:
            return self.graph.load(here.id)
        except NotFoundError as error:
            raise NotFoundError(
                f"remote '{self.remote}' does not have commit {short_id(here.id)}",
                hint=f"'mvcs push {self.remote}' brings a branch's commits there",
            ) from error

    def plan(self, ruling: Ruling) -> Plan:
        """Judge every commit by rules.

        Raises:
            MvcsError: something cannot be read, or a rule cannot be applied: then nothing goes.
        """
        return Plan.of(self.source, ruling)

    def tried(self, ruling: Ruling, *, force: bool) -> list[str]:
        """Check rules against the history there is; return what a person should know of them.

        Raises:
            NotFoundError: nobody recorded the metric of a rule, which `force` allows.
            ConflictError: they keep nothing beyond what stays anyway, which `force` allows.
        """
        try:
            plan = self.plan(ruling)
            if not force:
                plan.refuse_everything()
        except NotFoundError as error:
            if not force and self.refs.listed(HEADS):
                raise type(error)(
                    error.message, hint=f"{error.hint}; --force sets the rule all the same"
                ) from error
            return [error.message]
        there = data_there(self.store, plan.dropped_and_kept())
        back = dropped_before(list(there), commit_names(plan.surveyed), self._still_there)
        return [*plan.unmatched(), *plan.missing(there), *back]

    @property
    def _still_there(self) -> str:
        apply = f"'mvcs retention apply{of_remote(self.remote)}'"
        return f", but are still there: gc keeps them, and the next {apply} takes the drop back"

    def take_back(self, there: Mapping[ObjectId, Placement]) -> None:
        """Have drops of data count no more; `there` says where the data lie. Raises as `duties.move` does."""
        manifests = self.store.manifests
        moves = [Moved(commit, where, manifests.placement(commit)) for commit, where in there.items()]
        self.refs.duties.move(manifests, moves, self.session.author)

    def bring_back(self, revision: Revision) -> list[str]:
        """Take the drop of a pinned commit back if its data are there; say what is gone of it."""
        gone, manifests = list[str](), self.store.manifests
        if manifests.dropped([revision.id]):
            with suppress(GoingError):  # a collector was first
                damaged = frozenset(known_damaged(self.session.place.local))
                self.take_back(data_there(self.store, [revision], damaged))
            now = GONE if manifests.dropped([revision.id]) else KEPT_NOW
            gone = dropped_before([revision.id], {}, now)
        bounded = bool(revision.written.exact_packs)
        lost = bounded and not has_exact_layer(self.store.backend, revision)
        return [*gone, *([f"the exact layer of {short_id(revision.id)} was dropped before"] if lost else [])]

    def shown(self, notes: list[str] | None = None) -> RetentionShown:
        """Return the rules and pins in force."""
        backend = self.store.backend
        ruling = Ruling.of(backend)
        record, manifests = ruling.rules, self.store.manifests
        dropped = manifests.dropped(manifests.listed()) if has_upgrade(backend, DROPPED_DATA) else {}
        return RetentionShown(
            [RuleInfo(layer.text, rule.text) for layer in Layer for rule in ruling.of_layer(layer)],
            [PinInfo(commit.hex(), reason) for commit, reason in ruling.pins.items()],
            self.session.place.config.integer("retention.exact_layers"),
            None if record is None else record.author,
            None if record is None else as_utc(record.time),
            len(dropped),
            notes or [],
            self.remote,
        )


def planned(
    plan: Plan, there: Collection[ObjectId] = (), branch: str | None = None
) -> Iterator[PlannedCommit]:
    """Yield what becomes of each commit that has something.

    Args:
        plan: what becomes of all.
        there: those whose data are back.
        branch: that names commits rather than others.
    """
    names = commit_names(plan.surveyed, [] if branch is None else [branch])
    for layer, verdicts in plan.verdicts.items():
        going = {revision.id for revision in plan.going(layer)}
        for key, revision in plan.surveyed.revisions.items():
            has = plan.has(layer, revision) or (layer is Layer.DATA and key in there)
            if key in going or (key in verdicts and verdicts[key].keeps and has):
                commit = revision.commit
                yield PlannedCommit(
                    names[key],
                    key.hex(),
                    commit.step,
                    layer.text,
                    key not in going,
                    list(verdicts[key].reasons),
                    commit.author,
                )


def data_there(
    store: ObjectStore, revisions: Collection[Revision], lost: Collection[str] = frozenset()
) -> dict[ObjectId, Placement]:
    """Return those of some commits with dropped data whose data are there all the same, and where they lie.

    Args:
        store: where they may lie.
        revisions: the commits.
        lost: packs that do not count.

    Raises:
        CorruptionError: a record is damaged, so that nobody can tell.
    """
    found: dict[ObjectId, Placement] = {}
    present = value_packs(store.backend).difference(lost) if revisions else frozenset()
    for revision in revisions:
        for number in store.manifests.numbers(revision.id):
            with suppress(NotFoundError):  # it was collected
                where = store.manifests.numbered(revision.id, number)
                if where.dropped is not None and where.dropped.is_loss:
                    break  # what its packs hold is damaged: a repair looks into them
                if where.packs and where.dropped is None and present >= {*where.packs}:
                    found[revision.id] = where
                    break
    return found
