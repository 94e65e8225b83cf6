"""Verbs that record: states and files."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from mvcs.errors import FileFormatError, MvcsError, StateError, UsageError, text
from mvcs.refs import UNREADABLE, check_name
from mvcs.reports import CommitInfo
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from mvcs.checkpoint import Captured
    from mvcs.commits import (
        BranchPosition,
        CommitRequest,
        FilesTrial,
        KeptFiles,
        LatticeTrial,
        MadeCommit,
        TableTrial,
    )
    from mvcs.history import Revision
    from mvcs.objects import Path
    from mvcs.quantize import LatticeConfig, QuantizerConfig, QuantizerOptions
    from mvcs.repository.worktree.files_to_commit import Taken
    from mvcs.search import Evaluation

_PLAIN = "with --plain what cannot be read is kept as it is, byte for byte"
_ANEW = f"write it anew or move it away first; {_PLAIN}"


class Recording(Verbs):
    """Verbs that record."""

    def commit(  # noqa: PLR0913 - flat keywords are what a training script wants to write
        self,
        state: object,
        *,
        message: str = "",
        step: int | None = None,
        metrics: Mapping[str, float] | None = None,
        author: str | None = None,
        restored_from: str | None = None,
        branch: str | None = None,
        continues: str | None = None,
        provenance: Mapping[str, str] | None = None,
        replaces: str | None = None,
        weights_only: bool = False,
        importance: "Mapping[str, ArrayLike] | None" = None,
        evaluation: "Evaluation | None" = None,
        **quantizer: "Unpack[QuantizerOptions]",
    ) -> CommitInfo:
        """Record a state: a nested dict of tensors, arrays, numbers and text.

        Args:
            state: what to record; it must not change until this returns.
            message: what to say of it.
            step: optimizer step.
            metrics: numbers by name; NaN is one, and so is a tensor of one element.
            author: who commits; the configured name by default.
            restored_from: the bounded commit whose values this state continued from; "" for none.
            branch: commit there instead of on HEAD's branch.
            continues: the parent, or "" for none; a branch that moved on is a lost race; by default its tip.
            provenance: versions and settings worth keeping.
            replaces: with `continues`: a branch that stands here was not moved on; it gets a second parent.
            weights_only: the state is a model alone: there is no exact layer, and others keep theirs.
            importance: with `metric="sensitivity"`: scores of weights by name, floats of the weights' shapes.
            evaluation: how the quality of what will be restored was measured.
            quantizer: how it is bounded (`mvcs.quantize.QuantizerOptions`), as `step_size=0.5`; else exact.

        Raises:
            UsageError: an argument is of another type than this.
            StateError: something in the state cannot be stored; the message names its path.
            ConflictError: another writer moved the branch; the error names the one that keeps the commit.
            StorageError: the store cannot be written.
        """
        from mvcs.checkpoint import capture_state
        from mvcs.commits import CommitRequest
        from mvcs.objects import HOLDS_KEY, ONLY_WEIGHTS
        from mvcs.quantize import quantizer_config
        from mvcs.repository.worktree.origins import Origins

        _check_texts(branch=branch, restored_from=restored_from, continues=continues, replaces=replaces)
        position, captured = self._position(branch, continues, replaces), capture_state(state)
        origin = Origins(self._session).of_state(state, captured, restored_from, position.parent)
        said = (message, author or self._session.author, step, metrics or {})
        request = CommitRequest(
            *said,
            quantizer_config(**quantizer),
            provenance=dict(provenance or {}) | ({HOLDS_KEY: ONLY_WEIGHTS} if weights_only else {}),
            importance=importance or {},
            evaluation=evaluation,
        )
        return self._finished(self._commit(captured, origin.asked(request), position))

    def trial(
        self,
        state: object,
        quantizer: "LatticeConfig",
        *,
        restored_from: str | None = None,
        branch: str | None = None,
        continues: str | None = None,
        replaces: str | None = None,
        gradients: "Mapping[Path, float] | None" = None,
    ) -> "LatticeTrial":
        """Try what a bounded commit of a state would take and restore; nothing is stored.

        Args:
            state: as for `commit`, like the names below; it must not change while the trial is used.
            quantizer: settings to begin with; the trial tries other steps.
            restored_from: the bounded commit whose values this state continued from.
            branch: where the commit would go.
            continues: the commit that the state continued from.
            replaces: where the branch may stand.
            gradients: mean squared gradients of weights by path, where the state has no optimizer that knows.

        Raises:
            StateError: something in the state cannot be stored; the message names its path.
            UsageError: the settings are not those of steps that layer types share.
        """
        from mvcs.checkpoint import capture_state
        from mvcs.commits import CommitRequest

        origin = self._session.resolve(restored_from) if restored_from else None
        request = CommitRequest("", "", quantizer=quantizer, restored_from=origin)
        captured, position = capture_state(state), self._position(branch, continues, replaces)
        return self._trial(captured, request, position, quantizer, gradients or {})

    def table_trial(
        self,
        state: object,
        *,
        importance: "Mapping[str, ArrayLike] | None" = None,
        restored_from: str | None = None,
        branch: str | None = None,
        continues: str | None = None,
        replaces: str | None = None,
    ) -> "TableTrial":
        """Try what code tables would make of the weights of a state, as `trial` does for steps.

        Raises:
            StateError: something in the state cannot be stored; the message names its path.
        """
        from mvcs.checkpoint import capture_state
        from mvcs.commits import CommitRequest, TableTrial, table_settings

        origin = self._session.resolve(restored_from) if restored_from else None
        request = CommitRequest("", "", restored_from=origin, importance=importance or {})
        captured, position = capture_state(state), self._position(branch, continues, replaces)
        tried = self._session.committer.tried(captured, request, position)
        return TableTrial(captured, tried, table_settings(position.parent))

    def trial_files(self, paths: Sequence[str | pathlib.Path], quantizer: "LatticeConfig") -> "FilesTrial":
        """Try what a bounded commit of files would take and restore, as `trial` does for a state.

        Args:
            paths: files and folders, as for `commit_files`; they must not change while the trial is used.
            quantizer: settings to begin with; the trial tries other steps.

        Raises:
            FileFormatError: a file is not a checkpoint.
            UsageError: the settings are not those of steps that layer types share.
        """
        from mvcs.commits import CommitRequest, FilesTrial
        from mvcs.local import Journal
        from mvcs.repository.worktree import files_to_commit

        position = self._position()
        taken = files_to_commit.capture(
            self._session, [pathlib.Path(path) for path in paths], {}, position.parent
        )
        captured, origin = taken.captured, taken.origin
        request = origin.asked(CommitRequest("", self._session.author, quantizer=quantizer))
        parent = position.parent.id.hex() if position.parent else ""
        trial = self._trial(captured, request, position, quantizer, {})

        def stored(config: "QuantizerConfig", evaluation: "Evaluation") -> int:
            asked = replace(request, quantizer=config, evaluation=evaluation)
            made = self._session.dry_run().make(captured, asked, position, Journal(None), taken.kept)
            return made.revision.written.stored_bytes

        return FilesTrial(trial, parent, stored)

    def _trial(
        self,
        captured: "Captured",
        request: "CommitRequest",
        position: "BranchPosition",
        quantizer: "LatticeConfig",
        gradients: "Mapping[Path, float]",
    ) -> "LatticeTrial":
        from mvcs.commits import LatticeTrial

        if quantizer.method != "lattice" or quantizer.share != "type":
            raise UsageError("only steps that layer types share can be tried")
        quantizing = self._session.committer.tried(captured, request, position)
        return LatticeTrial(captured, quantizing, quantizer, gradients)

    def commit_files(  # noqa: PLR0913 - see commit
        self,
        paths: Sequence[str | pathlib.Path] = (),
        *,
        message: str,
        names: Mapping[str | pathlib.Path, str] | None = None,
        step: int | None = None,
        metrics: Mapping[str, float] | None = None,
        author: str | None = None,
        evaluation: "Evaluation | None" = None,
        tried: "FilesTrial | None" = None,
        only: bool = False,
        replaces: bool = False,
        plain: bool = False,
        allow_empty: bool = True,
        **quantizer: "Unpack[QuantizerOptions]",
    ) -> CommitInfo:
        """Record these files and folders, and keep HEAD's other files as HEAD has them.

        None named means HEAD's. Bounded as in `commit` when a quantizer is given. What is gone from a folder
        that is named leaves the commit, and so does what a later step takes the place of; the answer tells.

        Args:
            paths: files and folders.
            message: what to say of them.
            names: the path in the commit of some of `paths`, instead of where they lie.
            step: optimizer step.
            metrics: by name.
            author: who commits; the configured name by default.
            evaluation: how the quality of what will be restored was measured.
            tried: what was measured: the commit continues the same commit, and records the same files.
            only: record exactly these.
            replaces: what is new takes the place of what it is stored near.
            plain: keep files that cannot be read as checkpoints as they are, byte for byte.
            allow_empty: commit also where content, step and metrics are those of the commit before.
            quantizer: how it is bounded; else exact.

        Raises:
            FileFormatError: files are no checkpoints, and `plain` is false; the error names each.
            ConflictError: another writer moved the branch; the commit is kept on the branch the error names.
                Or a file is not the one that was tried.
            CorruptionError: the store has not all of a file that is to be kept.
            UsageError: `replaces`, and HEAD has nothing like it.
            NothingToCommitError: there is nothing new, and `allow_empty` is false.
        """
        from mvcs.commits import CommitRequest
        from mvcs.quantize import quantizer_config

        position = self._position(continues=tried.parent if tried else None)
        taken = self._captured(paths, names, position.parent, only=only, replaces=replaces, plain=plain)
        if tried is not None:
            tried.require_same(taken.captured)
        who, config = author or self._session.author, quantizer_config(**quantizer)
        request = CommitRequest(
            message, who, step, metrics or {}, config, evaluation=evaluation, allow_empty=allow_empty
        )
        return self._taken(taken, request, position)

    def _captured(
        self,
        paths: Sequence[str | pathlib.Path],
        names: Mapping[str | pathlib.Path, str] | None,
        parent: "Revision | None",
        *,
        only: bool,
        replaces: bool,
        plain: bool,
    ) -> "Taken":
        from mvcs.repository.worktree import files_to_commit

        chosen = [pathlib.Path(path) for path in paths]
        named = {pathlib.Path(path): name for path, name in (names or {}).items()}
        try:
            return files_to_commit.capture(
                self._session, chosen, named, parent, only=only, replaces=replaces, plain=plain
            )
        except (FileFormatError, StateError) as error:
            error.hint = _ANEW if error.hint is None else f"{error.hint}; {_PLAIN}"
            raise

    def _taken(
        self,
        taken: "Taken",
        request: "CommitRequest",
        position: "BranchPosition",
        ready: Callable[["Revision"], None] = lambda _: None,
    ) -> CommitInfo:
        from mvcs.repository.worktree import files_to_commit
        from mvcs.repository.worktree.unchanged_files import refuse_unchanged

        refuse_unchanged(self._session, taken, request, position.parent)
        origin = taken.origin
        asked = replace(origin.asked(request), notes=taken.captured.notes)
        made = self._commit(taken.captured, asked, position, taken.kept, ready)
        files_to_commit.remember(self._session, taken, made)
        kept = [entry.path for entry in taken.kept.tree.files or ()] if taken.kept else []
        return replace(self._finished(made), kept=kept, left=list(taken.left), added=list(taken.added))

    def _commit(
        self,
        captured: "Captured",
        request: "CommitRequest",
        position: "BranchPosition",
        kept: "KeptFiles | None" = None,
        ready: Callable[["Revision"], None] = lambda _: None,
    ) -> "MadeCommit":
        from mvcs.commits import KeptBesideError, reflog_message
        from mvcs.local import Journal

        self._session.remove_leftovers()
        journal = Journal(self._session.place.local)
        made = self._session.committer.make(captured, request, position, journal, kept)
        self._note_made(made.revision, position.parent)
        ready(made.revision)
        journal.moves()
        try:
            published = self._session.committer.publish(made, position, request.author)
        except KeptBesideError as error:
            journal.close()
            error.commit = self._finished(made)
            raise
        self._session.published = made.revision.id
        if position.branch is None:
            action = f"commit: {reflog_message(made.revision.commit)}"
            self._session.set_head(made.revision.id.hex(), action)
        journal.close()
        if position.parent is None:
            with suppress(MvcsError, OSError):  # what a killed first commit left waits for a branch
                self._session.remove_leftovers()
        return published

    def _note_made(self, made: "Revision", parent: "Revision | None") -> None:
        given = self._session.given
        given.made.add(made.id)
        if parent is not None and parent.id in given.exact and made.commit.lineage:
            given.exact.add(made.id)

    def _position(
        self, branch: str | None = None, continues: str | None = None, replaces: str | None = None
    ) -> "BranchPosition":
        from mvcs.commits import BranchPosition
        from mvcs.repository.worktree.whereabouts import damage, last_known

        session = self._session
        wanted = check_name(branch) if branch else session.branch
        if wanted is None:
            return BranchPosition(session.resolve(continues) if continues else session.head(), None, None)
        try:
            record = session.branch_record(wanted) if branch else session.head_record(wanted)
        except UNREADABLE as error:
            if damage(session, wanted) is None:
                raise
            parent = last_known(session, wanted) if continues is None else None
            return BranchPosition(
                session.resolve(continues) if continues else parent, wanted, None, damage=error
            )
        tip = session.tip(wanted, record) if record and record.target else None
        if continues and tip is not None and tip.id.hex() == replaces != continues:
            return BranchPosition(session.resolve(continues), wanted, record, beside=tip)
        # What was published last may be unknown to the caller: its commit can have failed afterwards.
        known = tip is not None and (tip.id == session.published or tip.id.hex() == continues)
        if continues is not None and not known:
            parent = session.resolve(continues) if continues else None
            return BranchPosition(parent, wanted, record, overtaken=tip is not None)
        if tip is None and branch and branch != session.branch:
            tip = session.head()
        return BranchPosition(tip, wanted, record)

    def _finished(self, made: "MadeCommit") -> CommitInfo:
        notes = (*made.notes, *self._session.after_commit(made.revision))
        self._session.clear_failures()
        return self._session.info(made.revision, notes, made.timings)


def _check_texts(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            text(name, value)
