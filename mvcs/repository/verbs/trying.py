"""Verbs that try what a commit would take and restore; nothing is stored."""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mvcs.errors import UsageError
from mvcs.repository.verbs.committing import Committing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from mvcs.checkpoint import Captured
    from mvcs.commits import (
        BranchPosition,
        CommitRequest,
        FilesTrial,
        LatticeTrial,
        TableTrial,
    )
    from mvcs.objects import Path
    from mvcs.quantize import LatticeConfig, QuantizerConfig
    from mvcs.search import Evaluation


class Trying(Committing):
    """Verbs that try."""

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
        from mvcs.commits import CommitRequest, TableTrial, table_settings

        origin = self._session.resolver.resolve(restored_from) if restored_from else None
        scores = importance or {}
        request = CommitRequest("", "", restored_from=origin, importance=scores, parts=parts)
        captured, position = capture_state(state), self._position(branch, continues, replaces)
        tried = self._session.committer.tried(captured, request, position)
        return TableTrial(captured, tried, table_settings(position.parent))

    def trial_files(
        self,
        paths: Sequence[str | pathlib.Path],
        quantizer: "LatticeConfig",
        parts: "Mapping[Path, str] | None" = None,
    ) -> "FilesTrial":
        """Try what a bounded commit of files would take and restore, as `trial` does for a state.

        Args:
            paths: files and folders, as for `commit_files`; they must not change while the trial is used.
            quantizer: settings to begin with; the trial tries other steps.
            parts: as for `commit`.

        Raises:
            FileFormatError: a file is not a checkpoint.
            UsageError: the settings are not those of steps that layer types share.
        """
        from mvcs.commits import CommitRequest, FilesTrial
        from mvcs.local import Journal
        from mvcs.repository.worktree import files_to_commit

        position = self._position()
        asked = files_to_commit.AskedFiles.of(paths)
        taken = files_to_commit.capture(self._session, asked, position.parent)
        captured, origin = taken.captured, taken.origin
        request = origin.asked(CommitRequest("", self._session.author, quantizer=quantizer, parts=parts))
        parent = position.parent.id.hex() if position.parent else ""
        trial = self._trial(captured, request, position, quantizer, {})

        def stored(config: "QuantizerConfig", evaluation: "Evaluation") -> int:
            asked = replace(request, quantizer=config, evaluation=evaluation)
            made = self._session.dry_run().make(captured, asked, position, Journal(None), taken.kept)
            return made.revision.written.stored_bytes

        return FilesTrial(trial, parent, stored, parts)

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
