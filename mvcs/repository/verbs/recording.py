"""Verbs that record states and files, or try what a commit of them would take and restore."""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from mvcs.errors import UsageError, text
from mvcs.memory import rare_full_collections
from mvcs.reports import CommitInfo, FileStatus
from mvcs.repository.verbs.base import with_room
from mvcs.repository.verbs.committing import Committing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from mvcs.checkpoint import Captured
    from mvcs.commits import BranchPosition, CommitRequest, FilesTrial, LatticeTrial, TableTrial
    from mvcs.objects import Path
    from mvcs.quantize import KMeansConfig, LatticeConfig, QuantizerConfig, QuantizerOptions
    from mvcs.search import Evaluation


class Recording(Committing):
    """Verbs that record."""

    @with_room
    @rare_full_collections()
    def commit(
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
        parts: "Mapping[Path, str] | None" = None,
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
            parts: the part of the state that each leaf is measured in, by path, as `model`; weights of no
                part are kept exactly. None where nothing says what is measured.
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
        from mvcs.repository.worktree.files_to_commit import Origins

        _check_texts(branch=branch, restored_from=restored_from, continues=continues, replaces=replaces)
        position, captured = self._position(branch, continues, replaces), capture_state(state)
        origin = Origins(self._session).of_state(state, captured, restored_from, position.parent)
        said = (message, author or self._session.author, step, metrics or {})
        request = CommitRequest(
            *said,
            quantizer_config(**quantizer),
            provenance=dict(provenance or {}) | ({HOLDS_KEY: ONLY_WEIGHTS} if weights_only else {}),
            importance=importance or {},
            parts=parts,
            evaluation=evaluation,
        )
        return self._finished(self._commit(captured, origin.asked(request), position))

    @with_room
    @rare_full_collections()
    def commit_files(
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
        provenance: Mapping[str, str] | None = None,
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
            plain: keep files that are not what their suffixes say as they are, byte for byte.
            allow_empty: commit also where content, step and metrics are those of the commit before.
            provenance: versions and settings worth keeping.
            quantizer: how it is bounded; else exact.

        Raises:
            FileFormatError: files are not what their suffixes say, without `plain`; the error names each.
            ConflictError: another writer moved the branch; the commit is kept on the branch the error names.
                Or a file is not the one that was tried.
            CorruptionError: the store has not all of a file that is to be kept.
            UsageError: `replaces`, and HEAD has nothing like it.
            NothingToCommitError: there is nothing new, and `allow_empty` is false.
        """
        from mvcs.commits import CommitRequest
        from mvcs.quantize import quantizer_config
        from mvcs.repository.worktree.files_to_commit import AskedFiles

        position = self._position(continues=tried.parent if tried else None)
        asked = AskedFiles.of(paths, names, only=only, replaces=replaces, plain=plain)
        taken = self._captured(asked, position.parent)
        if tried is not None:
            tried.require_same(taken.captured)
        who, config = author or self._session.author, quantizer_config(**quantizer)
        request = CommitRequest(
            *(message, who, step, metrics or {}, config),
            evaluation=evaluation,
            allow_empty=allow_empty,
            provenance=provenance or {},
            parts=tried.parts if tried else None,
        )
        return self._taken(taken, request, position)

    def plan_commit(
        self,
        paths: Sequence[str | pathlib.Path] = (),
        *,
        names: Mapping[str | pathlib.Path, str] | None = None,
        only: bool = False,
        replaces: bool = False,
        plain: bool = False,
    ) -> list[FileStatus]:
        """Return what `commit_files` would record, file by file, and write nothing.

        Files are "added", "modified" or "unmodified"; those that would leave are "deleted". Arguments are as
        for `commit_files`, and so are the errors about files.
        """
        from mvcs.repository.worktree.file_index import file_states
        from mvcs.repository.worktree.files_to_commit import AskedFiles
        from mvcs.restore import open_reading

        session, parent = self._session, self._position().parent
        asked = AskedFiles.of(paths, names, only=only, replaces=replaces, plain=plain)
        taken = self._captured(asked, parent)
        states = dict.fromkeys((entry.path for entry in taken.captured.files or ()), "added")
        if parent is not None:
            reading = open_reading(session.reader(), parent, session.progress)
            before = file_states(session.require_top(), taken.index, reading)
            states |= {path: before[path] for path in states if path in before}
        return [
            FileStatus(path, state) for path, state in (states | dict.fromkeys(taken.left, "deleted")).items()
        ]

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
        parts: "Mapping[Path, str] | None" = None,
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
            parts: as for `commit`.

        Raises:
            StateError: something in the state cannot be stored; the message names its path.
            UsageError: the settings are not those of steps that layer types share.
        """
        from mvcs.checkpoint import capture_state
        from mvcs.commits import CommitRequest

        origin = self._session.resolver.resolve(restored_from) if restored_from else None
        request = CommitRequest("", "", quantizer=quantizer, restored_from=origin, parts=parts)
        captured, position = capture_state(state), self._position(branch, continues, replaces)
        return self._trial(captured, request, position, quantizer, gradients or {})

    def table_trial(
        self,
        state: object,
        *,
        importance: "Mapping[str, ArrayLike] | None" = None,
        parts: "Mapping[Path, str] | None" = None,
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
        from mvcs.commits import CommitRequest

        origin = self._session.resolver.resolve(restored_from) if restored_from else None
        scores = importance or {}
        request = CommitRequest("", "", restored_from=origin, importance=scores, parts=parts)
        captured, position = capture_state(state), self._position(branch, continues, replaces)
        return self._table_trial(captured, request, position)

    def trial_files(
        self,
        paths: Sequence[str | pathlib.Path],
        quantizer: "LatticeConfig | KMeansConfig",
        parts: "Mapping[Path, str] | None" = None,
    ) -> "FilesTrial":
        """Try what a bounded commit of files would take and restore, as `trial` does for a state.

        Args:
            paths: files and folders, as for `commit_files`; they must not change while the trial is used.
            quantizer: settings to begin with, which say whether other steps are tried or other code tables.
            parts: as for `commit`.

        Raises:
            FileFormatError: a file is not a checkpoint.
            UsageError: the settings are not those of steps that layer types share.
        """
        from mvcs.commits import CommitRequest, FilesTrial
        from mvcs.local import Journal
        from mvcs.quantize import KMeansConfig
        from mvcs.repository.worktree import files_to_commit

        position = self._position()
        asked = files_to_commit.AskedFiles.of(paths)
        taken = files_to_commit.capture(self._session, asked, position.parent)
        captured, origin = taken.captured, taken.origin
        request = origin.asked(CommitRequest("", self._session.author, quantizer=quantizer, parts=parts))
        parent = position.parent.id.hex() if position.parent else ""
        trial: LatticeTrial | TableTrial
        if isinstance(quantizer, KMeansConfig):
            trial = self._table_trial(captured, request, position)
        else:
            trial = self._trial(captured, request, position, quantizer, {})

        def stored(config: "QuantizerConfig", evaluation: "Evaluation") -> int:
            asked = replace(request, quantizer=config, evaluation=evaluation)
            made = self._session.dry_run().make(captured, asked, position, Journal(None), taken.kept)
            return made.revision.written.stored_bytes

        return FilesTrial(trial, parent, stored, parts)

    def _table_trial(
        self, captured: "Captured", request: "CommitRequest", position: "BranchPosition"
    ) -> "TableTrial":
        from mvcs.commits import TableTrial, table_settings

        tried = self._session.committer.tried(captured, request, position)
        return TableTrial(captured, tried, table_settings(position.parent))

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
        bounded = self._session.committer.tried(captured, request, position)
        return LatticeTrial(captured, bounded, quantizer, gradients)


def _check_texts(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            text(name, value)
