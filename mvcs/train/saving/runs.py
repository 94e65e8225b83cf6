"""Which run is whose: a random id in every commit of a run, and what this clone remembers of its runs."""

import logging
import secrets
from typing import Any

from mvcs.errors import ConflictError, NotFoundError, StorageError
from mvcs.processes import Process
from mvcs.refs import CONFLICT
from mvcs.reports import BranchInfo, CommitInfo
from mvcs.repository import Repository

_logger = logging.getLogger("mvcs.train")

SUBJECT = "runs"
KEPT = 64  # runs that a clone remembers


class RunIdentity:
    """The run that a checkpointer commits for.

    Attributes:
        id: 16 hexadecimal digits; that of an earlier process once its run is resumed.
    """

    def __init__(self, repo: Repository) -> None:
        """Begin another run."""
        self.id = secrets.token_hex(8)
        self._repo = repo

    def committed(self, branch: str | None) -> None:
        """Remember that the run is at work in this process, and where it commits."""
        self._remember({"branch": branch, "process": str(Process.current()), "ended": False})

    def ended(self) -> None:
        """Remember that this process is done with the run."""
        if self.id in self._known():
            self._remember({"ended": True})

    def find(self, branch: str, wanted: str | None) -> BranchInfo | None:
        """Return the branch that a run goes on from: `branch`, or one that it went to when it lost a race.

        Args:
            branch: where the run was to commit.
            wanted: the run's id, or the beginning of it, or a branch; None for the run of this clone.

        Raises:
            ConflictError: several runs may be meant.
            NotFoundError: none is.
        """
        found = [
            (known, self._repo.resolve(known.name))
            for known in self._repo.branches()
            if known.name == branch or known.name.startswith(branch + CONFLICT)
        ]
        if wanted is not None:
            return self._one([(known, tip) for known, tip in found if _is_meant(wanted, known, tip)], wanted)
        here = self._known()
        idle = [(known, tip) for known, tip in found if not _is_at_work(here.get(tip.run or ""))]
        own = _last_places([(known, tip) for known, tip in idle if tip.run in here])
        stands = next((known for known, _ in found if known.name == branch), None)
        if stands is None and own:
            return self._one(own, None)  # the branch is damaged or gone: the run went on beside it
        if len(found) < 2 or not idle:
            return stands
        return self._one(own or idle, None)

    def take_over(self, tip: CommitInfo, branch: str) -> None:
        """Go on as the run that made a commit, if it is one of this clone that nobody else is at work on.

        Args:
            tip: the commit.
            branch: where the run goes on.
        """
        seen = self._known().get(tip.run or "")
        if tip.run is None or seen is None:
            return
        self._tell_of_later(tip, branch, seen.get("branch"))
        if _is_at_work(seen):
            _logger.warning(
                "a process is at work on run %s: this is another run, which begins at its newest commit",
                tip.run,
            )
            return
        self.id = tip.run

    def _tell_of_later(self, tip: CommitInfo, branch: str, last: object) -> None:
        """Say that a run has later commits than those it goes on from, as behind a renamed branch."""
        names = {known.name for known in self._repo.branches()} - {branch}
        later = self._repo.resolve(last) if isinstance(last, str) and last in names else None
        if later is not None and later.run == tip.run and later.time > tip.time:
            _logger.warning(
                "run %s continues from step %s on '%s'; it has step %s on '%s': "
                "branch='%s' continues from there",
                *(tip.run, tip.step, branch, later.step, last, last),
            )

    @staticmethod
    def _one(candidates: list[tuple[BranchInfo, CommitInfo]], wanted: str | None) -> BranchInfo:
        listed = ", ".join(
            f"run {tip.run or 'without an id'} on '{known.name}' at step {tip.step}"
            for known, tip in candidates
        )
        if not candidates:
            raise NotFoundError(
                f"there is no run '{wanted}' to resume", hint="'mvcs branch' lists the branches"
            )
        if len(candidates) > 1:
            raise ConflictError(
                f"several runs may be resumed: {listed}",
                hint="choose one with resume(run=...), by its id or branch",
            )
        return candidates[0][0]

    def _known(self) -> dict[str, Any]:
        found = self._repo.local_records.read(SUBJECT)
        return {run: seen for run, seen in found.items() if isinstance(seen, dict)}

    def _remember(self, values: dict[str, object]) -> None:
        try:
            with self._repo.local_records.change(SUBJECT) as record:
                record[self.id] = (record.pop(self.id, None) or {}) | values
                for run in list(record)[:-KEPT]:
                    del record[run]
        except StorageError as error:
            _logger.warning("this clone will not know the run again: %s", error.message)


def _last_places(found: list[tuple[BranchInfo, CommitInfo]]) -> list[tuple[BranchInfo, CommitInfo]]:
    """Keep for each run the branch with its newest commit: it went there when it could not move the other."""
    newest: dict[str | None, tuple[BranchInfo, CommitInfo]] = {}
    for known, tip in found:
        if tip.run not in newest or newest[tip.run][1].time < tip.time:
            newest[tip.run] = known, tip
    return list(newest.values())


def _is_meant(wanted: str, known: BranchInfo, tip: CommitInfo) -> bool:
    return wanted == known.name or bool(wanted and tip.run and tip.run.startswith(wanted))


def _is_at_work(seen: dict[str, Any] | None) -> bool:
    """Tell whether a process that still runs commits for a run."""
    if seen is None or seen.get("ended"):
        return False
    process = Process.parse(str(seen.get("process")))
    return process is not None and process.is_gone() is False
