"""Verbs that share: push, fetch, pull."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mvcs.errors import MvcsError, NotFoundError, UsageError
from mvcs.refs import HEADS, REMOTES
from mvcs.reports import FetchReport, PullReport, PushReport
from mvcs.repository.quota import FETCH, NoRoomError
from mvcs.repository.sharing.remote_stores import RemoteStore
from mvcs.repository.sharing.upstreams import Upstream, follow, remote_of, upstream_of
from mvcs.repository.verbs.room import Roomy

if TYPE_CHECKING:
    from mvcs.history import Revision
    from mvcs.remotes import FetchResult


class Sharing(Roomy):
    """Verbs that share."""

    def push(
        self,
        remote: str | None = None,
        refs: list[str] | None = None,
        *,
        tags: bool = False,
        all_branches: bool = False,
        exact: bool = False,
        force: bool = False,
        lease: bool = False,
        verify: bool = False,
        set_upstream: bool = False,
    ) -> PushReport:
        """Copy what refs need to a remote and move them there.

        Args:
            remote: its name; by default the one that the branch follows, `origin`, or the only one.
            refs: branches and tags; the current branch by default.
            tags: every tag as well.
            all_branches: every branch.
            exact: exact layers as well, where they are kept.
            force: move a branch there even when that leaves commits of others behind.
            lease: force, but refuse a branch over there that is not where it was last seen from here.
            verify: read every pack back in full before a ref moves, those sent before included, and send
                damaged ones again; otherwise the size and end of what is sent, and the sizes of all else.
            set_upstream: remember that these branches follow theirs over there.

        Raises:
            ConflictError: a branch over there has commits that ours lacks, or that were not seen.
            CorruptionError: a pack does not hash to its name; no ref was moved.
        """
        from mvcs.repository.sharing.exchange import PushUnderWay, RefsToPush, updates

        session = self._session
        remote = remote or self._usual_remote(*(refs or [])[:1])
        wanted = RefsToPush.chosen(session, refs or [], tags=tags, branches=all_branches)
        outgoing = PushUnderWay.begin(session, remote)
        done = outgoing.send(wanted.whole, exact=exact, force=force, read_back=verify, lease=lease)
        arrived = [ref for ref in wanted.whole if ref.kind == HEADS and ref not in done.refused]
        tracked = {ref.name: outgoing.track(ref) for ref in arrived}
        followed = tracked if set_upstream else {}
        for branch, name in followed.items():
            follow(session, branch, name)
        outgoing.end()
        damaged = wanted.damaged | {ref.name: error for ref, error in done.refused.items()}
        if damaged:
            raise _not_sent(remote, damaged, some=len(wanted.whole) > len(done.refused))
        sent, moved = done.sent, updates(done.moved)
        return PushReport(remote, moved, sent.packs, sent.bytes, sent.skipped, sent.mended, followed)

    def fetch(self, remote: str | None = None, *, verify: bool = False) -> FetchReport:
        """Copy everything a remote has, and what is missing or damaged here; no branch here moves.

        What comes is kept apart until all of it was read and hashed.

        Args:
            remote: its name, by default as for `push`.
            verify: hash every pack here; otherwise those that are missing, of another size than over there,
                or were found damaged before, are fetched again.

        Raises:
            CorruptionError: branches over there lead to what is missing or damaged, and were left out; or
                packs are missing or damaged here, and the remote has no whole copy.
            StorageError: what is missing here would pass `store.max_bytes`, also after old commits went that
                no rule keeps; none of it came.
        """
        source = RemoteStore.named(self._session, remote or self._usual_remote())
        report, received = self._incoming(source, read_back=verify)
        if received.problem is not None:
            raise received.problem
        return report

    def pull(self, remote: str | None = None, branch: str | None = None) -> PullReport:
        """Fetch, and move the current branch forward to what it follows, or to `branch` of `remote`.

        Raises:
            StorageError: what is missing here would pass `store.max_bytes`; see `fetch`.
        """
        from mvcs.repository.branch_moves import forward

        session, current = self._session, self._session.branch
        if current is None:
            raise UsageError("HEAD is detached", hint="switch to a branch first")
        wanted = self._pulled(current, remote, branch)
        report, received = self._incoming(RemoteStore.named(session, wanted.remote))
        theirs = self._taken_from(wanted, received)
        done = forward(session, current, wanted, theirs)
        if received.problem is not None:
            raise received.problem
        return PullReport(report, done.files, fast_forward=done.moved)

    def _incoming(
        self, source: RemoteStore, *, read_back: bool = False, attempts: int = 3
    ) -> tuple[FetchReport, "FetchResult"]:
        """Fetch; where there is no room, make some, and look at both stores once more.

        Then more may be missing: what went here is what commits over there still lean on.
        """
        from mvcs.repository.sharing.exchange import incoming

        session = self._session
        try:
            return incoming(session, source, read_back=read_back)
        except NoRoomError as error:
            made = self._made_room(error.more)
            if attempts == 1 or not made.suffices:
                quota, waiting = session.quota, made.waiting
                raise quota.refusal(session.graph, session.refs, error.more, waiting, FETCH) from error
        return self._incoming(source, read_back=read_back, attempts=attempts - 1)

    def _usual_remote(self, branch: str | None = None) -> str:
        """Return the remote that a branch, by default the current one, is shared with."""
        return remote_of(self._session, branch or self._session.branch)

    def _pulled(self, current: str, remote: str | None, branch: str | None) -> Upstream:
        """Return what the current branch is to be moved to."""
        upstream = upstream_of(self._session, current)
        if upstream is None or (remote is not None and remote != upstream.remote):
            upstream = Upstream(remote or self._usual_remote(), current)
        return upstream if branch is None else Upstream(upstream.remote, branch)

    def _taken_from(self, upstream: Upstream, received: "FetchResult") -> "Revision":
        """Return the commit of a branch over there.

        Raises:
            CorruptionError: it cannot be taken.
            NotFoundError: there is no such branch.
        """
        session = self._session
        theirs = session.refs.read(REMOTES, upstream.name)
        if received.problem is not None and (theirs is None or upstream.branch in received.refused):
            raise received.problem
        if theirs is None or theirs.target is None:
            start, seen = f"{upstream.remote}/", session.refs.survey(REMOTES).whole
            branches = ", ".join(name[len(start) :] for name in seen if name.startswith(start))
            raise NotFoundError(
                f"'{upstream.remote}' has no branch '{upstream.branch}'", hint=f"it has: {branches or 'none'}"
            )
        return session.graph.load(theirs.target, theirs.pack)


def _not_sent(remote: str, damaged: Mapping[str, MvcsError], *, some: bool) -> MvcsError:
    first, rest = next(iter(damaged.values())), "the others were" if some else "nothing was"
    names = ", ".join(f"'{name}'" for name in damaged)
    return type(first)(f"{names} was not sent to '{remote}'; {rest}: {first.message}", hint=first.hint)
