"""Verbs that only read: status, log, show, diff, single objects, and the check of everything.

Of these fsck alone *looks* at stored bytes, which means to compare them with their checksums.
"""

import pathlib
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from mvcs.errors import CorruptionError, NotFoundError, UsageError
from mvcs.refs import HEADS, TAGS
from mvcs.reports import (
    CatFile,
    CommitDetails,
    CommitInfo,
    Diff,
    FileChange,
    FileInfo,
    FileStatus,
    FsckReport,
    Status,
)
from mvcs.repository.session import UNREADABLE
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.history import Revision, When
    from mvcs.restore import ComparedSide, FileDetails
    from mvcs.upkeep import CheckedClone


class Looking(Verbs):
    """Verbs that only read."""

    def status(self) -> Status:
        """Return where the working folder stands."""
        from mvcs.repository.worktree.status import status

        return status(self._session)

    def log(  # noqa: PLR0913 - the verb's own keywords
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
        from mvcs.repository.worktree.file_history import FileHistory, names_of

        session = self._session
        wanted = CommitFilter.of(since, until, author, message, ignore_case=ignore_case)
        history = FileHistory(session, names_of(session, files)) if files else None
        revs = [rev] if isinstance(rev, str) else rev
        starts = self._all_tips() if all_branches else [session.resolve(one) for one in revs]
        found = (
            revision
            for revision in session.graph.walk(starts)
            if wanted.takes(revision.commit) and (history is None or history.changed(revision))
        )
        for revision in islice(found, limit):
            yield session.info(revision)

    def knows_file(self, path: str) -> bool:
        """Tell whether something of that name is in the folder, or in HEAD's commit."""
        from mvcs.repository.worktree.file_history import names_of

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

    def show(self, rev: str = "HEAD") -> CommitDetails:
        """Return everything about a commit that its tree and footers tell."""
        from mvcs.restore import show

        reading = self._reading(rev)
        info = self._session.info(reading.revision)
        try:
            return show.details(reading, info)
        except NotFoundError:
            again = self._session.info(reading.revision)
            if again.exact_layer == info.exact_layer:
                raise
            return show.details(reading, again)  # its exact layer was dropped while we looked

    def show_file(self, name: str) -> "FileDetails":
        """Return what a commit tells of one of its files, of a folder, or of a part of a state: `REV:FILE`.

        Raises:
            NotFoundError: no such commit, or it has nothing of that name.
            UsageError: no file is named.
            LimitError: an opaque file is larger than what is allowed, or than this machine's memory.
        """
        from mvcs.restore import details_of_file

        revision, path = self._session.resolve_file(name)
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
        from mvcs.repository.worktree.sides import instead_of_files

        one, other = (None if rev is None else self._session.resolve(rev) for rev in (a, b))
        return one, instead_of_files(self._session, one) if b is None else other

    def _sides(
        self,
        a: "Revision | None",
        b: "Revision | None",
        files: Sequence[str | pathlib.Path],
        *,
        exact: bool | None,
    ) -> "tuple[ComparedSide, ComparedSide]":
        from mvcs.repository.worktree.file_history import names_of
        from mvcs.repository.worktree.sides import Sides

        return Sides(self._session, names_of(self._session, files), exact).between(a, b)

    def parts(self, rev: str = "HEAD") -> list[str] | None:
        """Return the names at the top of the state that a commit holds; None for one of files."""
        return self._reading(rev).tree.parts

    def list_files(self, rev: str = "HEAD", paths: Sequence[str | pathlib.Path] = ()) -> list[FileInfo]:
        """Return the files of a commit, or those of them that are named or lie in a folder that is."""
        from mvcs.objects import files_in
        from mvcs.repository.worktree.file_history import names_of
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
        from mvcs.repository.worktree.file_history import names_of

        names = names_of(self._session, paths)
        found = [entry for entry in self.status().entries if entry.state in states]
        return [entry for entry in found if any(is_inside(entry.path, name) for name in names)]

    def cat_file(self, name: str) -> CatFile:
        """Return the object that a revision or an id prefix names."""
        from mvcs.restore import show

        try:
            revision = self._session.resolve(name)
        except NotFoundError:
            revision = None
        return show.cat(name, revision, self._session.store)

    def fsck(self, *, full: bool = True) -> FsckReport:
        """Check the whole store; it only reads, and the next fetch and commit mend what is damaged."""
        from mvcs.local import note_checked
        from mvcs.upkeep import fsck

        session = self._session
        report = fsck.check(session.place.backend, session.progress, full=full, clone=self._clone())
        if full:
            note_checked(session.place.local, report)
        return report

    def _clone(self) -> "CheckedClone | None":
        """Return what the clone knows that is open here; None for a bare store."""
        from mvcs.local import packs_on_record
        from mvcs.upkeep import CheckedClone

        session, local = self._session, self._session.place.local
        if local is None or session.seen is None:
            return None
        unpublished = partial(packs_on_record, local) if session.has_head else None
        return CheckedClone(local, session.seen, session.watch, session.check_head, unpublished)
