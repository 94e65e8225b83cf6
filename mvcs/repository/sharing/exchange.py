"""What goes to another store and what comes from it, with what this clone remembers of its packs."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mvcs.errors import MvcsError, NotFoundError, UsageError
from mvcs.history import GraphNeeds, Revision
from mvcs.local import INCOMING_FOLDER, Journal, LocalRecords, known_damaged, note_damaged
from mvcs.refs import (
    HEADS,
    REMOTES,
    TAGS,
    RefChange,
    RefRecord,
    RefStore,
    now_microseconds,
)
from mvcs.remotes import (
    Delivered,
    FetchResult,
    MovedRef,
    RefToPush,
    RememberedPacks,
    TransferSide,
    TransferTerms,
    fetch_refs,
    push_refs,
)
from mvcs.reports import FetchReport, RefUpdate
from mvcs.repository.session import Session
from mvcs.repository.sharing.remote_stores import RemoteStore
from mvcs.retention import DataDrops, carry_drops, record_absent
from mvcs.store import bring_upgrades, refuse_changes
from mvcs.upkeep import remove_copies, remove_leftovers

NEEDS = "needs"


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
        journal: tells what to remove over there where this process is killed.
    """

    session: Session
    remote: str
    there: TransferSide
    journal: Journal

    @classmethod
    def begin(cls, session: Session, remote: str) -> "PushUnderWay":
        """Open the other store, or make it.

        Raises:
            NotFoundError: there is no such remote.
        """
        there = RemoteStore.named(session, remote).open(session, make=True)
        remove_leftovers(session.place)
        return cls(session, remote, there, Journal(session.place.local))

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
        bring_upgrades(session.place.backend, self.there.store.backend, now_microseconds(), session.author)
        with remembered(session) as known:
            terms = TransferTerms(
                session.author,
                session.progress,
                self._arrived,
                exact=exact,
                force=force or lease,
                lease=seen if lease and not force else None,
                read_back=read_back,
                remembered=known,
                announce=partial(self.journal.copies, self.remote),
            )
            # What commits need over there is read here: the packs are the same.
            needs = GraphNeeds(session.store, session.graph)
            over = replace(self.there, refs=RefStore(self.there.store.backend, needs=needs))
            here = TransferSide(session.store, session.graph, session.refs)
            return push_refs(here, over, refs, terms)

    def _arrived(self, revisions: Iterable[Revision]) -> None:
        refuse_changes(self.session.place.backend)  # what an upgrade left has no place over there
        self.journal.moves()
        new, here, there = list(revisions), self.session.place.backend, self.there.store.backend
        record_absent(there, new)
        carry_drops(here, there, [revision.id for revision in new], self.session.author)

    def track(self, ref: RefToPush) -> str:
        """Note where a branch stands over there now, and return what that is called here."""
        name, refs = f"{self.remote}/{ref.name}", self.session.refs
        before = refs.top(REMOTES, name)
        if not isinstance(before, RefRecord) or before.target != ref.record.target:
            change = RefChange(ref.record.target, ref.record.pack, self.session.author, "push")
            refs.update(REMOTES, name, before, change)
        return name

    def end(self) -> None:
        """Remove what earlier pushes left over there that were killed."""
        self.journal.close()
        remove_copies(self.session.place, self.remote, self.there.store.backend)


@contextlib.contextmanager
def remembered(session: Session) -> Iterator[RememberedPacks]:
    """Give what this clone remembers of its packs, and keep what is learnt if that can be written."""
    records = LocalRecords(session.place.local)
    needs, damaged = records.read(NEEDS), known_damaged(session.place.local)
    lines = {
        pack: line for pack, line in needs.items() if isinstance(line, list) and line and _are_texts(line)
    }
    known = RememberedPacks(lines, set(damaged))
    before = len(lines)
    try:
        yield known
    finally:
        with contextlib.suppress(MvcsError):
            if len(known.needs) != before:
                with records.change(NEEDS) as record:
                    record.update(known.needs)
        if known.damaged != damaged:
            note_damaged(session.place.local, known.damaged, damaged - known.damaged)


def _are_texts(line: list[object]) -> bool:
    return all(isinstance(item, str) for item in line)


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
        new = list(revisions)
        record_absent(session.place.backend, new)
        names = [revision.id for revision in new]
        carry_drops(there.store.backend, session.place.backend, names, session.author)

    bring_upgrades(there.store.backend, session.place.backend, now_microseconds(), session.author)
    with remembered(session) as known:
        allow = partial(session.allowance.check_pack, folder=local)
        terms = TransferTerms(
            session.author,
            session.progress,
            arrived,
            read_back=read_back,
            remembered=known,
            allow=allow,
            dropped=DataDrops.of(there.store.backend).found.keys(),
            room=None if session.quota.limit is None else session.quota,
        )
        received = fetch_refs(here, there, remote.name, terms, local / INCOMING_FOLDER)
    sent = received.sent
    session.quota.note(sent.bytes)
    for revision in sent.revisions:
        session.indexing.record(session.graph.get(revision.id))
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
