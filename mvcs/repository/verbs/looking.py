"""Verbs that only read: where the folder stands, which commits there are, and which files they have."""

import pathlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from mvcs.errors import CorruptionError, NotFoundError, StorageError, UsageError
from mvcs.refs import HEADS, TAGS
from mvcs.reports import (
    CommitInfo,
    FileInfo,
    FileStatus,
    Status,
)
from mvcs.repository.session import UNREADABLE
from mvcs.repository.sharing.upstreams import standing, upstream_of
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.history import Revision, When
    from mvcs.repository.worktree.file_index import FileHistory


class Looking(Verbs):
    """Verbs that only read."""

    def status(self) -> Status:
        """Return where the working folder stands."""
        from mvcs.local import Findings
        from mvcs.repository.worktree.status import (
            FolderFiles,
            HeadPosition,
            compaction_at_work,
            conflicts_of,
        )

        session = self._session
        stands = HeadPosition.of(session)
        files = FolderFiles.of(session, stands.last)
        info = None if stands.head is None else session.info(stands.head)
        branch = session.branch
        upstream = None if branch is None else upstream_of(session, branch)
        background = compaction_at_work(session)
        return Status(
            branch,
            info,
            list(files.entries),
            [*stands.problems, *files.problems, *filter(None, [Findings.load(session.place.local).told()])],
            standing(session, branch, stands.head)
            if branch is not None and stands.head is not None
            else None,
            None if upstream is None else upstream.name,
            stands.unreadable,
            files.parts,
            list(files.others),
            [] if branch is None else conflicts_of(session, branch),
            dict(files.refused),
            self._room(),
            None if background is None else (background.done, background.total),
            stands.unreadable or files.unread is not None,
        )

    def _room(self) -> tuple[int, int] | None:
        with suppress(StorageError):  # of a store that cannot be reached the rest is told all the same
            return self._session.quota.room
        return None

    def log(
        self,
        rev: str | Sequence[str] = "HEAD",
        *,
        limit: int | None = None,
        all_branches: bool = False,
        files: Sequence[str | pathlib.Path] = (),
        since: "When | None" = None,
        until: "When | None" = None,
        author: str | None = None,
        message: str | None = None,
        ignore_case: bool = False,
    ) -> Iterator[CommitInfo]:
        """Yield commits, newest first.

        Args:
            rev: where to begin; several are walked together.
            limit: at most so many.
            all_branches: from every branch and tag, and from HEAD, instead.
            files: only commits in which one of these files, or of the files in these folders, changed.
            since: made then or later: a time, or text such as "2026-01-31", "2 hours ago" or "yesterday".
            until: made then or earlier; a day ends at midnight.
            author: a regular expression, found in the author.
            message: a regular expression, found in the message.
            ignore_case: whether upper and lower case are alike in these.

        Raises:
            NotFoundError: nothing has that name.
            UsageError: a date or an expression cannot be read, or a file lies elsewhere.
        """
        from mvcs.history import CommitFilter

        session = self._session
        wanted = CommitFilter.of(since, until, author, message, ignore_case=ignore_case)
        history = self._history_of(files) if files else None
        revs = [rev] if isinstance(rev, str) else rev
        starts = self._all_tips() if all_branches else [session.resolver.resolve(one) for one in revs]
        found = (
            revision
            for revision in session.graph.walk(starts)
            if wanted.takes(revision.commit) and (history is None or history.changed(revision))
        )
        for revision in islice(found, limit):
            yield session.info(revision)

    def _history_of(self, files: Sequence[str | pathlib.Path]) -> "FileHistory":
        from mvcs.repository.worktree.file_index import FileHistory, names_of

        return FileHistory(self._session, names_of(self._session, files))

    def knows_file(self, path: str) -> bool:
        """Tell whether something of that name is in the folder, or in HEAD's commit."""
        from mvcs.repository.worktree.file_index import names_of

        if not path:
            return False
        if self._session.place.top is not None and pathlib.Path(path).exists():
            return True
        try:
            (name,) = names_of(self._session, [path])
            head = self._session.head()
        except (UsageError, *UNREADABLE):
            return False
        return head is not None and self._has(head, name)

    def _has(self, revision: "Revision", name: str) -> bool:
        """Tell whether a commit has a file or folder, or a part of a state, of a name."""
        from mvcs.objects import files_in
        from mvcs.restore import open_reading

        tree = open_reading(self._session.reader(), revision, self._session.progress).tree
        return bool(files_in(tree, [name])) or name in (tree.parts or ())

    def _all_tips(self) -> "list[Revision]":
        session = self._session
        tell = session.progress.note
        surveys = [session.refs.survey(kind) for kind in (HEADS, TAGS)]
        records = [record for survey in surveys for record in survey.told(tell).values()]
        tips = [
            session.graph.load(record.target, record.pack) for record in records if record.target is not None
        ]
        return [*tips, *self._off_branch()]

    def _off_branch(self) -> "list[Revision]":
        """Return HEAD's commit where it is on no branch."""
        session = self._session
        try:
            head = session.head() if session.branch is None else None
        except (CorruptionError, NotFoundError) as error:
            session.progress.note(f"HEAD is left out: {error.message}")
            head = None
        return [] if head is None else [head]

    def parts(self, rev: str = "HEAD") -> list[str] | None:
        """Return the names at the top of the state that a commit holds; None for one of files."""
        return self._reading(rev).tree.parts

    def list_files(self, rev: str = "HEAD", paths: Sequence[str | pathlib.Path] = ()) -> list[FileInfo]:
        """Return the files of a commit, or those of them that are named or lie in a folder that is."""
        from mvcs.objects import files_in
        from mvcs.repository.worktree.file_index import names_of
        from mvcs.restore import file_bytes

        tree = self._reading(rev).tree
        wanted = set(files_in(tree, names_of(self._session, paths) or ["."]))
        return [
            FileInfo(entry.path, entry.format.value, file_bytes(tree, [entry]))
            for entry in tree.files or ()
            if entry.path in wanted
        ]

    def file_states(self, paths: Sequence[str | pathlib.Path], states: Collection[str]) -> list[FileStatus]:
        """Return the files of the folder that are in one of some states, and named or in a folder that is."""
        from mvcs.objects import is_inside
        from mvcs.repository.worktree.file_index import names_of
        from mvcs.repository.worktree.status import FolderFiles
        from mvcs.repository.worktree.whereabouts import head_to_leave

        session = self._session
        files = FolderFiles.of(session, head_to_leave(session, forced=False))
        if files.unread is not None:
            raise files.unread
        names = names_of(session, paths)
        found = [entry for entry in files.entries if entry.state in states]
        return [entry for entry in found if any(is_inside(entry.path, name) for name in names)]
