"""Verbs that make a commit of the last one: without some files, under other names, or said anew."""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from mvcs.errors import NotFoundError
from mvcs.reports import CommitInfo
from mvcs.repository.verbs.base import with_room
from mvcs.repository.verbs.recording import Recording

if TYPE_CHECKING:
    from mvcs.commits import CommitRequest
    from mvcs.quantize import QuantizerOptions
    from mvcs.repository.amending import Amendment


class Revising(Recording):
    """Verbs that make a commit of the last one."""

    @with_room
    def amend(
        self,
        paths: Sequence[str | pathlib.Path] = (),
        *,
        message: str | None = None,
        names: Mapping[str | pathlib.Path, str] | None = None,
        step: int | None = None,
        metrics: Mapping[str, float] | None = None,
        author: str | None = None,
        only: bool = False,
        replaces: bool = False,
        plain: bool = False,
        everything: bool = False,
        **quantizer: "Unpack[QuantizerOptions]",
    ) -> CommitInfo:
        """Put a commit in the place of the last one, which the reflog keeps.

        Without paths and a quantizer only what is said of it changes, of a state as of files. What is not
        said stays as it was, the metrics of later notes included.

        Args:
            paths: files and folders to record as they are now.
            message: what to say of it.
            names: as for `commit_files`, like `only`, `replaces` and `plain`.
            step: optimizer step.
            metrics: beside those it has.
            author: who commits.
            only: record exactly these files.
            replaces: what is new takes the place of what it is stored near.
            plain: keep files that are not what their suffixes say as they are, byte for byte.
            everything: without paths, record HEAD's files as they are now.
            quantizer: how the files are bounded; with no path HEAD's.

        Raises:
            NotFoundError: there is no commit yet.
            ConflictError: another writer moved the branch; the commit is kept on the branch the error names.
        """
        from mvcs.quantize import quantizer_config
        from mvcs.repository.amending import Amendment
        from mvcs.repository.worktree.files_to_commit import AskedFiles

        amendment = Amendment.of(self._session, self._position())
        config = quantizer_config(**quantizer)
        anew = bool(paths) or everything or config is not None
        asked = amendment.asked(message, author, step, anew=anew)
        request = amendment.with_metrics(asked, metrics or {})
        if not anew:
            info = self._reworded(amendment, request)
        else:
            files = AskedFiles.of(paths, names, only=only, replaces=replaces, plain=plain)
            taken = self._captured(files, amendment.old)
            taken = replace(taken, origin=amendment.carried(taken.origin))
            info = self._taken(taken, replace(request, quantizer=config), amendment.position)
        return replace(info, notes=[*info.notes, *amendment.notes()], amends=amendment.old.id.hex())

    def _reworded(self, amendment: "Amendment", request: "CommitRequest") -> CommitInfo:
        from mvcs.checkpoint import Captured

        asked, kept = amendment.reworded(request)
        if kept.tree.files is None or self._session.place.top is None:
            captured = Captured((), files=None if kept.tree.files is None else ())
            return self._finished(self._commit(captured, asked, amendment.position, kept))
        return replace(self._taken(amendment.taken(kept), asked, amendment.position), kept=[])

    @with_room
    def remove_files(
        self,
        paths: Sequence[str | pathlib.Path],
        *,
        message: str,
        author: str | None = None,
        cached: bool = False,
        force: bool = False,
    ) -> CommitInfo:
        """Make a commit without some of HEAD's files, and then remove them from the folder.

        Args:
            paths: files and folders of HEAD, by where they lie.
            message: why they leave.
            author: who commits; the configured name by default.
            cached: leave them in the folder.
            force: remove them also where their content is stored nowhere.

        Raises:
            NotFoundError: HEAD has no such file.
            ConflictError: a file would be lost; or another writer moved the branch, and nothing is removed.
            CorruptionError: the store has not all of a file that is to be kept.
        """
        from mvcs.commits import CommitRequest
        from mvcs.repository.amending import Removal

        position = self._position()
        if position.parent is None:
            raise NotFoundError("there is no commit yet, and so no file to leave out")
        named = [pathlib.Path(path) for path in paths]
        removal = Removal.of(self._session, named, position.parent, cached=cached, force=force)
        request = CommitRequest(message, author or self._session.author)
        info = self._taken(removal.taken, request, position)
        return replace(info, notes=[*info.notes, *removal.execute()])

    @with_room
    def move_files(
        self,
        sources: Sequence[str | pathlib.Path],
        target: str | pathlib.Path,
        *,
        message: str,
        author: str | None = None,
        force: bool = False,
    ) -> CommitInfo:
        """Make a commit with some of HEAD's files under other names, and then move them in the folder.

        A file that is not in the folder, or was moved there already, is renamed in the commit alone.

        Args:
            sources: files and folders of HEAD, by where they lie.
            target: the new name, or the folder they go into.
            message: why they move.
            author: who commits; the configured name by default.
            force: take the place of what has the new name, in the commit and in the folder.

        Raises:
            NotFoundError: HEAD has no such file.
            UsageError: no file can have the new name, or several cannot be one; or a file lies behind a link.
            ConflictError: something has the new name; or another writer moved the branch, and nothing moves.
            StorageError: the commit is made, and files could not be moved in the folder.
            CorruptionError: the store has not all of a file that is to be kept.
        """
        from mvcs.commits import CommitRequest
        from mvcs.repository.amending import Relocation

        position = self._position()
        if position.parent is None:
            raise NotFoundError("there is no commit yet, and so no file to move")
        moving = Relocation.of(self._session, sources, target, position.parent, force=force)
        request = CommitRequest(message, author or self._session.author)
        info = self._taken(moving.taken, request, position, moving.begin)
        kept = [path for path in info.kept if path not in set(moving.moved.values())]
        left = [path for path in info.left if path not in moving.moved]
        notes = [*info.notes, *moving.execute()]
        return replace(info, notes=notes, moved=moving.moved, kept=kept, left=left)
