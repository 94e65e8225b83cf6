"""Verbs that share: remotes, push, fetch, pull."""

from collections.abc import Mapping

from mvcs.reports.refs import FetchReport, PullReport, PushReport, RemoteInfo
from mvcs.repository.verbs.base import Verbs


class Sharing(Verbs):
    """Verbs that share."""

    def remotes(self) -> dict[str, str]:
        """Return name and URL of every remote."""
        from mvcs.repository import remote_names

        return remote_names.remotes(self._session)

    def add_remote(
        self, name: str, url: str, options: Mapping[str, object] | None = None, *, plain: bool = False
    ) -> None:
        """Remember a remote; `plain` writes options that are not known to be harmless."""
        from mvcs.repository import remote_names

        remote_names.add_remote(self._session, name, url, options or {}, plain=plain)

    def set_remote_url(
        self, name: str, url: str, options: Mapping[str, object] | None = None, *, plain: bool = False
    ) -> None:
        """Change where a remote lies; options that are not given stay as they are."""
        from mvcs.repository import remote_names

        remote_names.set_remote_url(self._session, name, url, options or {}, plain=plain)

    def rename_remote(self, old: str, new: str) -> None:
        """Give a remote another name; where its branches stood, and what follows them, goes along."""
        from mvcs.repository import remote_names

        remote_names.rename_remote(self._session, old, new)

    def remove_remote(self, name: str) -> None:
        """Forget a remote."""
        from mvcs.repository import remote_names

        remote_names.remove_remote(self._session, name)

    def remote(self, name: str, *, ask: bool = True) -> RemoteInfo:
        """Return what is known of a remote; with `ask` it is compared with what it has now."""
        from mvcs.repository import remote_names

        return remote_names.describe_remote(self._session, name, ask=ask)

    def remote_keeps_exact(self, name: str, rev: str = "HEAD") -> bool:
        """Tell whether a remote has the exact layer of a commit; False where it cannot be asked."""
        from mvcs.repository import remote_names

        return remote_names.keeps_exact(self._session, name, rev)

    def push(  # noqa: PLR0913 - the verb's own keywords
        self,
        remote: str | None = None,
        refs: list[str] | None = None,
        *,
        tags: bool = False,
        all_branches: bool = False,
        exact: bool = False,
        force: bool = False,
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
            verify: read every pack back in full before a ref moves, those sent before included, and send
                damaged ones again; otherwise the size and end of what is sent, and the sizes of all else.
            set_upstream: remember that these branches follow theirs over there.

        Raises:
            ConflictError: a branch over there has commits that ours lacks.
            CorruptionError: a pack does not hash to its name; no ref was moved.
        """
        from mvcs.repository import other_stores

        session = self._session
        return other_stores.push(
            session,
            remote,
            refs,
            tags=tags,
            all_branches=all_branches,
            exact=exact,
            force=force,
            verify=verify,
            set_upstream=set_upstream,
        )

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
        """
        from mvcs.repository import other_stores

        return other_stores.fetch(self._session, remote, verify=verify)

    def pull(self, remote: str | None = None, branch: str | None = None) -> PullReport:
        """Fetch, and move the current branch forward to what it follows, or to `branch` of `remote`."""
        from mvcs.repository import other_stores

        return other_stores.pull(self._session, remote, branch)
