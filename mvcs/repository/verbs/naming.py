"""Verbs that name: branches, tags, notes, and the reflog."""

from collections.abc import Collection, Mapping

from mvcs.reports.refs import BranchInfo, NoteInfo, ReflogEntry, TagInfo
from mvcs.reports.values import CommitInfo
from mvcs.repository.commit_info import note_infos
from mvcs.repository.verbs.base import Verbs


class Naming(Verbs):
    """Verbs that name."""

    def branches(
        self,
        patterns: Collection[str] = (),
        *,
        local: bool = True,
        remote: bool = False,
        details: bool = False,
    ) -> list[BranchInfo]:
        """Return branches.

        Args:
            patterns: only those whose names match one, such as `run-*`.
            local: those of this repository.
            remote: those of remotes, as last seen.
            details: with what their commits say, what they follow, and how far both are apart.
        """
        from mvcs.repository.naming import names

        return names.branches(self._session, patterns, local=local, remote=remote, details=details)

    def create_branch(self, name: str, rev: str = "HEAD") -> None:
        """Make a branch at a revision; where that is a branch of a remote, it follows it."""
        from mvcs.repository.naming import names

        names.start_branch(self._session, name, rev)
        names.note_dropped(self._session, name, self._session.resolve(rev))

    def is_only_remote(self, name: str) -> bool:
        """Tell whether a name is that of a branch of remotes, and means nothing here."""
        from mvcs.repository.naming.branch_switch import is_only_remote

        return is_only_remote(self._session, name)

    def upstream(self, branch: str | None = None) -> str | None:
        """Return what a branch, by default the current one, follows: "origin/main"; None for nothing."""
        from mvcs.repository.upstreams import upstream_of

        name = branch or self._session.branch
        found = None if name is None else upstream_of(self._session, name)
        return None if found is None else found.name

    def set_upstream(self, branch: str, upstream: str | None) -> None:
        """Have a branch follow one of a remote, such as "origin/main"; None for nothing that was said.

        Raises:
            NotFoundError: there is no such branch, or no such remote.
        """
        from mvcs.repository.naming import names

        names.set_upstream(self._session, branch, upstream)

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Delete a branch; its reflog stays."""
        from mvcs.repository.naming import names

        names.delete_branch(self._session, name, force=force)

    def rename_branch(self, old: str, new: str) -> None:
        """Give a branch another name."""
        from mvcs.repository.naming import names

        names.rename_branch(self._session, old, new)

    def tags(self, patterns: Collection[str] = ()) -> list[TagInfo]:
        """Return all tags, or those whose names match one of the patterns, such as `v1.*`."""
        from mvcs.repository.naming import names

        return names.tags(self._session, patterns)

    def create_tag(self, name: str, rev: str = "HEAD", message: str = "") -> None:
        """Name a commit for good."""
        from mvcs.repository.naming import names

        revision = self._session.resolve(rev)
        names.create_tag(self._session, name, revision, message)
        names.note_dropped(self._session, name, revision)

    def delete_tag(self, name: str) -> None:
        """Delete a tag."""
        from mvcs.repository.naming import names

        names.delete_tag(self._session, name)

    def note(self, rev: str, metrics: Mapping[str, float]) -> CommitInfo:
        """Add metrics to a commit after it was made."""
        from mvcs.repository.naming import names

        revision = self._session.resolve(rev)
        names.add_note(self._session, revision, metrics)
        self._session.indexing.record(revision)
        return self._session.info(revision)

    def notes(self, rev: str = "HEAD") -> list[NoteInfo]:
        """Return what was added to a commit later."""
        session = self._session
        return note_infos(session.refs, session.resolve(rev).id, session.progress.note)

    def reflog(self, name: str | None = None) -> list[ReflogEntry]:
        """Return the changes of a branch, newest first."""
        from mvcs.repository.naming import names

        return names.reflog(self._session, name)
