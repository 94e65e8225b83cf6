"""Verbs that only read: commits shown and compared, and single objects."""

import pathlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mvcs.errors import CorruptionError, NotFoundError, UsageError
from mvcs.objects import ObjectId
from mvcs.reports import CatFile, CommitDetails, CommitInfo, Diff, FileChange
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.history import Revision
    from mvcs.restore import ComparedSide, FileDetails


class Showing(Verbs):
    """Verbs that show and compare commits."""

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
            self._session.forget_dropped()
            again = self._session.info(reading.revision)
            if (again.exact_layer, again.data_dropped) == (info.exact_layer, info.data_dropped):
                raise
            found = show.details(reading, again)  # something of it was dropped while we looked
        with suppress(CorruptionError, NotFoundError):
            found = replace(found, restore=restore_figures(self._session.place, reading.revision))
        return replace(found, dropped=self._said_of_dropped(found.commit))

    def _said_of_dropped(self, info: CommitInfo) -> str:
        from mvcs.retention import said_of

        drop = self._session.dropped.get(ObjectId(bytes.fromhex(info.id)))
        return "" if drop is None else said_of(self._session.place.backend, drop, left=info.data_left)

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
