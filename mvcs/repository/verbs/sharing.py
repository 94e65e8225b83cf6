"""Verbs that share: remotes, push, fetch, pull."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from mvcs.errors import MvcsError, UsageError, not_found
from mvcs.local import Description, shown_setting
from mvcs.refs import HEADS, REMOTES, RefChange, RefRecord
from mvcs.reports import FetchReport, PullReport, PushReport, RemoteBranch, RemoteInfo
from mvcs.repository.quota import FETCH, NoRoomError
from mvcs.repository.sharing.remote_stores import (
    RemoteStore,
    check_new,
    forget_settings,
    settings_of,
    shown_url,
)
from mvcs.repository.sharing.upstreams import Upstream, follow, remote_of, rename_followed, upstream_of
from mvcs.repository.verbs.base import Roomy, target_text
from mvcs.store import pack_path

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
            branches = [name[len(start) :] for name in seen if name.startswith(start)]
            message = f"'{upstream.remote}' has no branch '{upstream.branch}'"
            raise not_found(message, upstream.branch, branches, f"it has: {', '.join(branches) or 'none'}")
        return session.graph.load(theirs.target)

    def remotes(self) -> dict[str, str]:
        """Return name and URL of every remote."""
        names = self._session.place.config.names("remote")
        return {name: shown_url(self._session, name) for name in names}

    def add_remote(
        self, name: str, url: str, options: Mapping[str, object] | None = None, *, plain: bool = False
    ) -> None:
        """Remember a remote; `plain` writes options that are not known to be harmless."""
        check_new(self._session, name)
        RemoteStore(name, url, options or {}).connect(self._session, plain=plain)

    def set_remote_url(
        self, name: str, url: str, options: Mapping[str, object] | None = None, *, plain: bool = False
    ) -> None:
        """Change where a remote lies; options that are not given stay as they are."""
        settings_of(self._session, name)
        RemoteStore(name, url, options or {}).connect(self._session, plain=plain)

    def rename_remote(self, old: str, new: str) -> None:
        """Give a remote another name; where its branches stood, and what follows them, goes along."""
        session = self._session
        settings = settings_of(session, old)
        check_new(session, new)
        url = str(settings.pop("url", ""))
        session.place.config.connect(f"remote.{new}", url, settings, plain=True)
        for ref, record in self._last_seen(old).items():
            name = f"{new}/{Upstream.split(ref).branch}"
            change = RefChange(record.target, session.author, f"remote: renamed from {old}")
            session.refs.update(REMOTES, name, session.refs.top(REMOTES, name), change)
        rename_followed(session, old, new)
        self._forget(old, f"remote: renamed to {new}")

    def remove_remote(self, name: str) -> None:
        """Forget a remote."""
        settings_of(self._session, name)
        self._forget(name, "remote: removed")
        rename_followed(self._session, name, None)

    def remote(self, name: str, *, ask: bool = True) -> RemoteInfo:
        """Return what is known of a remote; with `ask` it is compared with what it has now."""
        settings = settings_of(self._session, name)
        seen = {
            Upstream.split(ref).branch: target_text(record) for ref, record in self._last_seen(name).items()
        }
        default, now = self._asked(name) if ask else (None, seen)
        return RemoteInfo(
            name,
            shown_url(self._session, name),
            {
                key: shown_setting(f"remote.{name}.{key}", value)
                for key, value in settings.items()
                if key != "url"
            },
            default,
            [_compared(branch, seen.get(branch), now.get(branch), ask=ask) for branch in sorted(seen | now)],
            self._followers(name),
        )

    def remote_keeps_exact(self, name: str, rev: str = "HEAD") -> bool:
        """Tell whether a remote has the exact layer of a commit; False where it cannot be asked."""
        names = self._session.resolver.resolve(rev).written.exact_packs
        with suppress(MvcsError):
            there = RemoteStore.named(self._session, name).open(self._session, make=False).store.backend
            return bool(names) and all(there.size(pack_path(pack, exact=True)) is not None for pack in names)
        return False

    def _asked(self, remote: str) -> tuple[str, dict[str, str]]:
        """Return what a remote says of itself: its default branch, and where its branches stand."""
        there = RemoteStore.named(self._session, remote).open(self._session, make=False)
        default = Description.read(there.store.backend, remote).default_branch
        heads = there.refs.survey(HEADS).told(self._session.progress.note)
        return default, {branch: target_text(record) for branch, record in heads.items()}

    def _last_seen(self, remote: str) -> dict[str, RefRecord]:
        found = self._session.refs.survey(REMOTES).told(self._session.progress.note)
        return {name: record for name, record in found.items() if Upstream.split(name).remote == remote}

    def _followers(self, remote: str) -> dict[str, str]:
        """Return which branches here follow one of a remote."""
        session = self._session
        pairs = ((branch, upstream_of(session, branch)) for branch in session.refs.survey(HEADS).whole)
        return {branch: found.name for branch, found in pairs if found is not None and found.remote == remote}

    def _forget(self, remote: str, action: str) -> None:
        session = self._session
        forget_settings(session, remote)
        survey = session.refs.survey(REMOTES)
        for name in (*survey.whole, *survey.damaged):
            if Upstream.split(name).remote == remote:
                change = RefChange(None, session.author, action)
                session.refs.update(REMOTES, name, session.refs.top(REMOTES, name), change)


def _not_sent(remote: str, damaged: Mapping[str, MvcsError], *, some: bool) -> MvcsError:
    first, rest = next(iter(damaged.values())), "the others were" if some else "nothing was"
    names = ", ".join(f"'{name}'" for name in damaged)
    return type(first)(f"{names} was not sent to '{remote}'; {rest}: {first.message}", hint=first.hint)


def _compared(name: str, seen: str | None, now: str | None, *, ask: bool) -> RemoteBranch:
    if not ask:
        return RemoteBranch(name, seen or "", "as last seen")
    if now is None:
        return RemoteBranch(name, seen or "", "gone over there; the next fetch forgets it")
    states = {None: "new; the next fetch brings it", now: "as last seen"}
    return RemoteBranch(name, now, states.get(seen, "moved on; the next fetch brings it"))
