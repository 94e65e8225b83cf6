"""Verbs that share: remotes, push, fetch, pull."""

from collections.abc import Mapping

from mvcs.repository.ref_reports import FetchReport, PullReport, PushReport
from mvcs.repository.verbs.base import Verbs

DEFAULT_REMOTE = "origin"


class Sharing(Verbs):
    """Verbs that share."""

    def remotes(self) -> dict[str, str]:
        """Return name and URL of every remote."""
        from mvcs.repository import sharing

        return sharing.remotes(self._session)

    def add_remote(
        self, name: str, url: str, options: Mapping[str, object] | None = None, *, plain: bool = False
    ) -> None:
        """Remember a remote; `plain` writes options that are not known to be harmless."""
        from mvcs.repository import sharing

        sharing.add_remote(self._session, name, url, options or {}, plain=plain)

    def remove_remote(self, name: str) -> None:
        """Forget a remote."""
        from mvcs.repository import sharing

        sharing.remove_remote(self._session, name)

    def push(
        self,
        remote: str = DEFAULT_REMOTE,
        refs: list[str] | None = None,
        *,
        tags: bool = False,
        all_branches: bool = False,
        exact: bool = False,
        force: bool = False,
        verify: bool = False,
    ) -> PushReport:
        """Copy what refs need to a remote and move them there.

        Args:
            remote: its name.
            refs: branches and tags; the current branch by default.
            tags: every tag as well.
            all_branches: every branch.
            exact: exact layers as well, where they are kept.
            force: move a branch there even when that leaves commits of others behind.
            verify: read every pack back in full before a ref moves, those sent before included, and send
                damaged ones again; otherwise the size and end of what is sent, and the sizes of all else.

        Raises:
            ConflictError: a branch over there has commits that ours lacks.
            CorruptionError: a pack does not hash to its name; no ref was moved.
        """
        from mvcs.repository import sharing

        session = self._session
        return sharing.push(
            session,
            remote,
            refs,
            tags=tags,
            all_branches=all_branches,
            exact=exact,
            force=force,
            verify=verify,
        )

    def fetch(self, remote: str = DEFAULT_REMOTE, *, verify: bool = False) -> FetchReport:
        """Copy everything a remote has, and what is missing or damaged here; no branch here moves.

        What comes is kept apart until all of it was read and hashed.

        Args:
            remote: its name.
            verify: hash every pack here; otherwise those that are missing, of another size than over there,
                or were found damaged before, are fetched again.

        Raises:
            CorruptionError: branches over there lead to what is missing or damaged, and were left out; or
                packs are missing or damaged here, and the remote has no whole copy.
        """
        from mvcs.repository import sharing

        return sharing.fetch(self._session, remote, verify=verify)

    def pull(self, remote: str = DEFAULT_REMOTE, branch: str | None = None) -> PullReport:
        """Fetch and move the current branch forward."""
        from mvcs.repository import sharing

        return sharing.pull(self._session, remote, branch)
