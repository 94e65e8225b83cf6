"""Verbs about remotes: what they are called, where they lie, and what they were last seen to have."""

from collections.abc import Mapping
from contextlib import suppress

from mvcs.errors import MvcsError
from mvcs.local import Description, shown_setting
from mvcs.refs import HEADS, REMOTES, RefChange, RefRecord
from mvcs.reports import RemoteBranch, RemoteInfo
from mvcs.repository.sharing.remote_stores import (
    RemoteStore,
    check_new,
    forget_settings,
    settings_of,
    shown_url,
)
from mvcs.repository.sharing.upstreams import Upstream, rename_followed, upstream_of
from mvcs.repository.verbs.base import Verbs, target_text
from mvcs.store import pack_path


class Remotes(Verbs):
    """Verbs about remotes."""

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
            change = RefChange(record.target, record.pack, session.author, f"remote: renamed from {old}")
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
                change = RefChange(None, None, session.author, action)
                session.refs.update(REMOTES, name, session.refs.top(REMOTES, name), change)


def _compared(name: str, seen: str | None, now: str | None, *, ask: bool) -> RemoteBranch:
    if not ask:
        return RemoteBranch(name, seen or "", "as last seen")
    if now is None:
        return RemoteBranch(name, seen or "", "gone over there; the next fetch forgets it")
    states = {None: "new; the next fetch brings it", now: "as last seen"}
    return RemoteBranch(name, now, states.get(seen, "moved on; the next fetch brings it"))
