"""Verbs that only read: where the folder stands, commits listed, shown and compared, and single objects."""

import pathlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from mvcs.errors import CorruptionError, NotFoundError, StorageError, UsageError
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS
from mvcs.reports import CatFile, CommitDetails, CommitInfo, Diff, FileChange, FileInfo, FileStatus, Status
from mvcs.repository.sharing.upstreams import standing, upstream_of
from mvcs.repository.verbs.base import Verbs
from mvcs.store import UNREADABLE_ERRORS, exact_packs

if TYPE_CHECKING:
    from mvcs.history import Revision, When
    from mvcs.repository.worktree.file_index import FileHistory
    from mvcs.restore import ComparedSide, FileDetails


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
            all_branches: from every branch and tag, those seen at remotes too, and from HEAD, instead.
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
        session.look_for_drops()
        exact = exact_packs(session.store.backend)
        for revision in islice(found, limit):
            yield session.info(revision, exact=exact)

    def _history_of(self, files: Sequence[str | pathlib.Path]) -> "FileHistory":
        from mvcs.repository.worktree.file_index import FileHistory, names_of

        return FileHistory(self._session, names_of(self._session, files))

    def knows_file(self, path: str) -> bool:
        """Tell whether something of that name is in the folder, or in HEAD's commit if that can be read."""
        from mvcs.repository.worktree.file_index import names_of

        if not path:
            return False
        if self._session.place.top is not None and pathlib.Path(path).exists():
            return True
        try:
            (name,) = names_of(self._session, [path])
            head = self._session.head()
            return head is not None and self._has(head, name)
        except (UsageError, *UNREADABLE_ERRORS):  # who leaves a damaged commit names another one
            return False

    def _has(self, revision: "Revision", name: str) -> bool:
        """Tell whether a commit has a file or folder, or a part of a state, of a name."""
        from mvcs.objects import files_in
        from mvcs.restore import open_reading

        tree = open_reading(self._session.reader(), revision, self._session.progress).tree
        return bool(files_in(tree, [name])) or name in (tree.parts or ())

    def _all_tips(self) -> "list[Revision]":
        session = self._session
        tell = session.progress.note
        surveys = [session.refs.survey(kind) for kind in (HEADS, TAGS, REMOTES)]
        records = [record for survey in surveys for record in survey.told(tell).values()]
        return [*session.graph.tips(records), *self._off_branch()]

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

    def show(self, rev: str = "HEAD") -> CommitDetails:
        """Return everything about a commit that its tree and footers tell."""
        from mvcs.repository.opened_commit import looked_at
        from mvcs.repository.restore_budget import restore_figures
        from mvcs.restore import show

        reading = self._reading(rev, tell=False)
        info = looked_at(self._session, reading)
        try:
            found = show.details(reading, info)
        except NotFoundError:
            self._session.look_for_drops()
            again = self._session.info(reading.revision)
            if (again.exact_layer, again.data_dropped) == (info.exact_layer, info.data_dropped):
                raise
            found = show.details(reading, again)  # something of it was dropped while we looked
        with suppress(CorruptionError, NotFoundError):
            found = replace(found, restore=restore_figures(self._session.place, reading.revision))
        return replace(found, dropped=self._said_of_dropped(found.commit))

    def _said_of_dropped(self, info: CommitInfo) -> str:
        from mvcs.retention import said_of

        commit = ObjectId(bytes.fromhex(info.id))
        drop = self._session.data_drop(commit)
        backend = self._session.place.backend
        return "" if drop is None else said_of(backend, commit, drop, left=info.data_left)

    def show_file(self, name: str) -> "FileDetails":
        """Return what a commit tells of one of its files, of a folder, or of a part of a state: `REV:FILE`.

        Raises:
            NotFoundError: no such commit, or it has nothing of that name.
            UsageError: no file is named.
            LimitError: an opaque file is larger than what is allowed, or than this machine's memory.
        """
        from mvcs.restore import details_of_file

        revision, path = self._session.resolver.resolve_file(name)
        if path is None:
            raise UsageError(f"'{name}' names no file", hint="such as HEAD:model.safetensors")
        return details_of_file(self._reading(revision.id.hex()), self._session.info(revision), path)

    def diff(
        self,
        a: str | None = "HEAD",
        b: str | None = None,
        *,
        files: Sequence[str | pathlib.Path] = (),
        exact: bool | None = None,
    ) -> Diff:
        """Compare two commits, or one with the working files; the answer says which layers were compared.

        Args:
            a: a commit; None for nothing, which is what the first commit is compared with.
            b: a commit; None for the working files, or for HEAD where that holds a state.
            files: compare only these files, and those in these folders.
            exact: True for exact values alone, False for what a checkout restores. None for exact values
                where both sides have them; restored files are then compared with what was restored.

        Raises:
            NotFoundError: `exact` values are asked for that are not stored; or neither side has `files`.
            UsageError: HEAD is to be compared with the working files, and holds a state.
            LimitError: what differs is larger than what is allowed, or than memory and disk together.
        """
        from mvcs.restore import compare_sides

        session = self._session
        allow = partial(session.allowance.check_passing, folder=session.place.top or pathlib.Path())
        one, other = self._compared(a, b)
        infos = None if one is None else session.info(one), None if other is None else session.info(other)
        sides = self._sides(one, other, files, exact=exact)
        return compare_sides(*sides, infos, session.progress, allow)

    def changed_files(
        self, a: str | None = "HEAD", b: str | None = None, *, files: Sequence[str | pathlib.Path] = ()
    ) -> list[FileChange]:
        """Return the files that differ, as `diff` takes them; only ids of what is stored are compared.

        Raises:
            NotFoundError: neither side has any of `files`.
        """
        from mvcs.restore import summarize

        left, right = self._sides(*self._compared(a, b), files, exact=False)
        return summarize(left.tree, right.tree)

    def _compared(self, a: str | None, b: str | None) -> "tuple[Revision | None, Revision | None]":
        """Return two commits: None for nothing on the left, and for the working files on the right."""
        from mvcs.repository.worktree.compared_sides import instead_of_files

        one, other = (None if rev is None else self._session.resolver.resolve(rev) for rev in (a, b))
        return one, instead_of_files(self._session, one) if b is None else other

    def _sides(
        self,
        a: "Revision | None",
        b: "Revision | None",
        files: Sequence[str | pathlib.Path],
        *,
        exact: bool | None,
    ) -> "tuple[ComparedSide, ComparedSide]":
        from mvcs.repository.worktree.compared_sides import Sides
        from mvcs.repository.worktree.file_index import names_of

        return Sides(self._session, names_of(self._session, files), exact).between(a, b)

    def cat_file(self, name: str) -> CatFile:
        """Return the object that a revision or an id prefix names."""
        from mvcs.history import split_revision_file
        from mvcs.restore import show

        try:
            revision = self._session.resolver.resolve(name)
        except NotFoundError:
            revision = None
        except UsageError as error:
            if (found := split_revision_file(name)) is not None:
                error.hint = f"'mvcs show {name}' shows the file, 'mvcs cat-file {found[0]}' the commit"
            raise
        return show.cat(name, revision, self._session.store)
