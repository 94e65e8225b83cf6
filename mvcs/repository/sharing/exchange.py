"""What goes to another store and what comes from it, with what this clone remembers of its packs."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mvcs.errors import MvcsError, NotFoundError, UsageError
from mvcs.history import Revision
from mvcs.local import INCOMING_FOLDER, known_damaged, note_damaged
from mvcs.refs import HEADS, REMOTES, TAGS, RefChange, RefRecord
from mvcs.remotes import (
    Delivered,
    FetchResult,
    MovedRef,
    RefToPush,
    TransferSide,
    TransferTerms,
    fetch_refs,
    push_refs,
)
from mvcs.reports import FetchReport, RefUpdate
from mvcs.repository.session import Session
from mvcs.repository.sharing.remote_stores import RemoteStore
from mvcs.retention import dropped_why, record_absent
from mvcs.store import Backend, DataDrop, KnownManifests, refuse_changes
from mvcs.upkeep import remembered_history, remove_leftovers


@dataclass(frozen=True)
class RefsToPush:
    """What is to be sent.

    Attributes:
        whole: branches and tags.
        damaged: what is wrong with others, of which all were asked for.
    """

    whole: list[RefToPush]
    damaged: dict[str, MvcsError]

    @classmethod
    def chosen(
        cls, session: Session, names: Sequence[str], *, tags: bool = False, branches: bool = False
    ) -> "RefsToPush":
        """Return those of some names, by default the current branch, and all of the kinds that are asked for.

        Raises:
            NotFoundError: there is no branch or tag of a name.
            UsageError: nothing is named, and HEAD is on no branch.
        """
        if not names and not branches and session.branch is not None:
            names = [session.branch]
        found = [_named(session, name) for name in names]
        damaged: dict[str, MvcsError] = {}
        for kind in [HEADS] * branches + [TAGS] * tags:
            survey = session.refs.survey(kind)
            found += [RefToPush(kind, name, record) for name, record in survey.whole.items()]
            damaged |= survey.damaged
        if not found and not damaged:
            raise UsageError("HEAD is detached and no branch is named", hint="mvcs push REMOTE BRANCH")
        return cls(list({(ref.kind, ref.name): ref for ref in found}.values()), damaged)


def _named(session: Session, name: str) -> RefToPush:
    for kind in (HEADS, TAGS):
        record = session.refs.read(kind, name)
        if record is not None:
            return RefToPush(kind, name, record)
    raise session.refs.missing(HEADS, name)


@dataclass(frozen=True)
class PushUnderWay:
    """A push under way.

    Attributes:
        session: the repository.
        remote: name of the other store.
        there: that store.
    """

    session: Session
    remote: str
    there: TransferSide

    @classmethod
    def begin(cls, session: Session, remote: str) -> "PushUnderWay":
        """Open the other store, or make it.

        Raises:
            NotFoundError: there is no such remote.
        """
        there = RemoteStore.named(session, remote).open(session, make=True)
        remove_leftovers(session.place)
        there.store.backend.sweep()
        return cls(session, remote, there)

    def send(
        self, refs: list[RefToPush], *, exact: bool, force: bool, read_back: bool, lease: bool = False
    ) -> Delivered:
        """Copy what refs need, move them over there, and note here where branches stand now.

        Where it ends by an error, the packs that arrived are there for the next push.

        Raises:
            ConflictError: a branch over there has commits that ours lacks.
            CorruptionError: a pack that is owed is missing or damaged here; no ref was moved.
        """
        session = self.session
        seen = {
            name.removeprefix(f"{self.remote}/"): record.target
            for name, record in session.refs.survey(REMOTES).whole.items()
            if name.startswith(f"{self.remote}/")
        }
        with remembered(session) as (known, damaged):
            terms = TransferTerms(
                session.author,
                session.progress,
                self._arrived,
                exact=exact,
                force=force or lease,
                lease=seen if lease and not force else None,
                read_back=read_back,
                known=known,
                damaged=damaged,
                carried=partial(_carried, session.place.backend),
            )
            here = TransferSide(session.store, session.graph, session.refs)
            return push_refs(here, self.there, refs, terms)

    def _arrived(self, revisions: Iterable[Revision]) -> None:
        refuse_changes(self.session.place.backend)  # what an upgrade left has no place over there
        record_absent(self.there.store.backend, revisions)

    def track(self, ref: RefToPush) -> str:
        """Note where a branch stands over there now, and return what that is called here."""
        name, refs = f"{self.remote}/{ref.name}", self.session.refs
        before = refs.top(REMOTES, name)
        if not isinstance(before, RefRecord) or before.target != ref.record.target:
            change = RefChange(ref.record.target, self.session.author, "push")
            refs.update(REMOTES, name, before, change)
        return name


def _carried(backend: Backend, drop: DataDrop) -> DataDrop:
    """Return a drop as another store gets it: numbers of rules mean something in their own store alone."""
    return replace(drop, rules=None, why=dropped_why(backend, drop))


@contextlib.contextmanager
def remembered(session: Session) -> Iterator[tuple[KnownManifests, set[str]]]:
    """Give what this clone knows of manifests and of damaged packs, and keep what is learnt."""
    local = session.place.local
    damaged = known_damaged(local)
    found = set(damaged)
    try:
        with remembered_history(local, session.place.description.store_id) as known:
            yield known.manifests, found
    finally:
        if found != damaged:
            note_damaged(local, found, damaged - found)


def incoming(
    session: Session, remote: RemoteStore, *, read_back: bool = False
) -> tuple[FetchReport, FetchResult]:
    """Copy everything a remote has and note where its branches stand; no branch here moves.

    Args:
        session: the repository.
        remote: the other store.
        read_back: hash every pack here, and fetch damaged ones again.

    Raises:
        NotFoundError: no store is there, or this one is bare.
        NoRoomError: what is missing here would pass the quota; none of it came.
    """
    if (local := session.place.local) is None:
        raise NotFoundError("a bare store has no place for what is fetched", hint="clone it, and fetch there")
    there = remote.open(session, make=False, joins=True)
    here = TransferSide(session.store, session.graph, session.refs)

    def arrived(revisions: Iterable[Revision]) -> None:
        refuse_changes(there.store.backend)  # what an upgrade left has no place here
        record_absent(session.place.backend, revisions)

    with remembered(session) as (known, damaged):
        terms = TransferTerms(
            session.author,
            session.progress,
            arrived,
            read_back=read_back,
            known=known,
            damaged=damaged,
            carried=partial(_carried, there.store.backend),
            allow=partial(session.allowance.check_pack, folder=local),
            room=None if session.quota.limit is None else session.quota,
        )
        received = fetch_refs(here, there, remote.name, terms, local / INCOMING_FOLDER)
    sent = received.sent
    session.quota.note(sent.bytes)
    for revision in sent.revisions:
        session.indexing.record(session.graph.load(revision.id))
    return FetchReport(remote.name, updates(received.moved), sent.packs, sent.bytes, sent.mended), received


def updates(moved: Iterable[MovedRef]) -> list[RefUpdate]:
    """Return refs that moved, as reports name them."""
    return [
        RefUpdate(
            item.name,
            item.old.hex() if item.old else None,
            item.new.hex() if item.new else None,
            item.forced,
            "tag" if item.kind == TAGS else "branch",
        )
        for item in moved
    ]
