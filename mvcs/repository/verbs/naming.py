"""Verbs that name: branches, tags, notes, and the reflog."""

from collections.abc import Collection, Mapping

from mvcs.repository.infos import note_infos
from mvcs.repository.ref_reports import BranchInfo, NoteInfo, ReflogEntry, TagInfo
from mvcs.repository.reports import CommitInfo
from mvcs.repository.verbs.base import Verbs


class Naming(Verbs):
    """Verbs that name."""

    def branches(self) -> list[BranchInfo]:
        """Return all branches."""
        from mvcs.repository import naming

        return naming.branches(self._session)

    def create_branch(self, name: str, rev: str = "HEAD") -> None:
        """Make a branch at a revision."""
        from mvcs.repository import naming

        naming.create_branch(self._session, name, self._session.resolve(rev))

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Delete a branch; its reflog stays."""
        from mvcs.repository import naming

        naming.delete_branch(self._session, name, force=force)

    def rename_branch(self, old: str, new: str) -> None:
        """Give a branch another name."""
        from mvcs.repository import naming

        naming.rename_branch(self._session, old, new)

    def tags(self, patterns: Collection[str] = ()) -> list[TagInfo]:
        """Return all tags, or those whose names match one of the patterns, such as `v1.*`."""
        from mvcs.repository import naming

        return naming.tags(self._session, patterns)

    def create_tag(self, name: str, rev: str = "HEAD", message: str = "") -> None:
        """Name a commit for good."""
        from mvcs.repository import naming

        naming.create_tag(self._session, name, self._session.resolve(rev), message)

    def delete_tag(self, name: str) -> None:
        """Delete a tag."""
        from mvcs.repository import naming

        naming.delete_tag(self._session, name)

    def note(self, rev: str, metrics: Mapping[str, float]) -> CommitInfo:
        """Add metrics to a commit after it was made."""
        from mvcs.repository import naming

        revision = self._session.resolve(rev)
        naming.add_note(self._session, revision, metrics)
        self._session.indexing.record(revision)
        return self._session.info(revision)

    def notes(self, rev: str = "HEAD") -> list[NoteInfo]:
        """Return what was added to a commit later."""
        return note_infos(self._session.refs, self._session.resolve(rev).id)

    def reflog(self, name: str | None = None) -> list[ReflogEntry]:
        """Return the changes of a branch, newest first."""
        from mvcs.repository import naming

        return naming.reflog(self._session, name)
