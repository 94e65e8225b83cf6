"""The second thread's side of a run: snapshots become commits of one line of history."""

import logging
import os
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from time import thread_time
from typing import Any, TypedDict

from numpy.typing import ArrayLike

from mvcs.commits import KeptBesideError, LatticeTrial, TableTrial
from mvcs.errors import ConflictError, MvcsError, NotFoundError, StorageError, UsageError, meant
from mvcs.objects import NOT_EVALUATED, PARTS_KEY, RUN_KEY, Path
from mvcs.processes import Process
from mvcs.quantize import LatticeConfig
from mvcs.refs import CONFLICT
from mvcs.reports import BranchInfo, CommitInfo
from mvcs.repository import Repository
from mvcs.train.choice.search import Choice
from mvcs.train.saving.background_compaction import BackgroundCompaction
from mvcs.train.saving.cadence import Clock, Cost
from mvcs.train.saving.report import Timings
from mvcs.train.state.host_copies import HostBuffers

_logger = logging.getLogger("mvcs.train")

SUBJECT = "runs"
KEPT = 64  # runs that a clone remembers


@dataclass(frozen=True)
class Snapshot:
    """A state on its way to a commit.

    Attributes:
        step: the step after which it was taken.
        state: a copy.
        metrics: numbers to commit with it.
        message: what to say of it.
        weights_only: it is the model alone.
        choice: how it is bounded.
        blocked: seconds that gathering and copying took.
        queue_wait: seconds of waiting before that.
        taken: when it was complete, by the clock.
        given: how many lossy states of the project the process had been given.
    """

    step: int
    state: object
    metrics: dict[str, float]
    message: str
    weights_only: bool
    choice: Choice
    blocked: float
    queue_wait: float
    taken: float
    given: int


class _Place(TypedDict):
    """Where the next commit goes, as `Repository.commit` takes it."""

    restored_from: str | None
    branch: str | None
    continues: str | None
    replaces: str | None


class Line:
    """Where the commits of a run go, and what the next one continues.

    Attributes:
        branch: the branch; another one once somebody else has moved it.
        run: whose commits they are.
    """

    def __init__(self, repo: Repository, branch: str | None) -> None:
        """Begin a line whose next commit continues whatever the branch holds."""
        self.branch = branch
        self.run = RunIdentity(repo)
        self._compaction = BackgroundCompaction(repo)
        self._repo = repo
        self._continues: str | None = None
        self._replaces: str | None = None
        self._restored_from: str | None = None
        self._given = 0
        self._begun = False
        if branch is None:
            _logger.warning(
                "HEAD is detached: commits of this run are on no branch; 'mvcs switch -c NAME' makes one"
            )

    def find_tip(self, wanted: str | None) -> CommitInfo | None:
        """Return the commit that a run stands on, and go on on its branch; None in a new repository.

        A branch that does not exist yet starts at HEAD.

        Raises:
            ConflictError: several runs may be meant.
            NotFoundError: none is the one that is wanted.
        """
        found = None if self.branch is None else self.run.find(self.branch, wanted)
        if found is None:
            return self._first()
        if found.name != self.branch:
            _logger.warning("this run continues on '%s', where it went when it lost a race", found.name)
        self.branch = found.name
        tip = self._repo.resolve(found.name)
        self.run.take_over(tip, found.name)
        return tip

    def _first(self) -> CommitInfo | None:
        """Return where a new branch starts; loudly, since its name may be a mistyped one."""
        if self._repo.head() is None:
            return None
        tip = self._repo.resolve("HEAD")
        if self.branch is not None:
            # A branch of another number, as of another run, was not mistyped.
            letters = _letters(self.branch)
            names = [known.name for known in self._repo.branches()]
            near = meant(self.branch, [name for name in names if _letters(name) != letters])
            _logger.warning(
                "branch '%s' is new: it starts from %s of %s%s",
                *(self.branch, tip.short, self._repo.branch or "HEAD", near and f"; {near}"),
            )
        return tip

    def begins_at(self, step: int) -> None:
        """Say once, at the first step of a run that resumed nothing, what its commits will come behind."""
        asked, self._begun = self._begun or self._continues is not None, True
        if asked or self.branch is None:
            return
        with suppress(MvcsError):  # where the branch cannot be read, the commit says so
            self._tell_unresumed(self.branch, step)

    def _tell_unresumed(self, branch: str, step: int) -> None:
        if branch not in {known.name for known in self._repo.branches()}:
            self._first()
            return
        tip = self._repo.resolve(branch)
        if tip.run is not None and tip.step is not None and step <= tip.step:
            _logger.warning(
                "branch '%s' holds step %d of a run, commit %s: this run begins at its start behind it, as "
                "nothing was resumed; resume() continues from there, and branch='NAME' keeps the two apart",
                *(branch, tip.step, tip.short),
            )

    def begin(self) -> None:
        """Let the next commit be a first one."""
        self._continues = ""

    def stand_on(self, commit: CommitInfo) -> None:
        """Let the next commit come behind `commit`, though nobody says where its state comes from."""
        self._continues = commit.id

    def follow(self, commit: CommitInfo, *, lossy: bool = False, tip: CommitInfo | None = None) -> None:
        """Let the next commit continue the state of `commit`, behind which the branch stands on `tip`."""
        self._continues = commit.id
        self._replaces = tip.id if tip else None
        self._restored_from = commit.id if lossy else ""
        self._given = self._repo.lossy_restores

    def commit(self, snapshot: Snapshot) -> CommitInfo:
        """Make a snapshot durable."""
        if snapshot.given != self._given:
            self._restored_from = None  # what was restored meanwhile may be in the model by now
        commit = self._made(snapshot)
        self.run.committed(self.branch)
        self._compaction.committed()
        # A descendant inherits where it was restored from; the next commit continues from this one.
        self.follow(commit)
        self._given = snapshot.given
        return commit

    def end(self) -> None:
        """Remember that the run ended, and end what is at work beside it."""
        self._compaction.close()
        self.run.ended()

    def trial(
        self,
        state: object,
        settings: LatticeConfig,
        gradients: Mapping[Path, float],
        parts: Mapping[Path, str],
    ) -> LatticeTrial:
        """Try what steps would make of the next commit; the one before it is made."""
        return self._repo.trial(state, settings, gradients=gradients, parts=parts, **self._place())

    def table_trial(
        self, state: object, importance: Mapping[str, ArrayLike], parts: Mapping[Path, str]
    ) -> TableTrial:
        """Try what code tables would make of the next commit; the one before it is made."""
        return self._repo.table_trial(state, importance=importance, parts=parts, **self._place())

    def _place(self) -> _Place:
        return {
            "restored_from": self._restored_from,
            "branch": self.branch,
            "continues": self._continues,
            "replaces": self._replaces,
        }

    def _made(self, snapshot: Snapshot) -> CommitInfo:
        failure, told = snapshot.choice.failure, snapshot.choice.told
        try:
            return self._repo.commit(
                snapshot.state,
                message=snapshot.message,
                step=snapshot.step,
                metrics=snapshot.metrics,
                quantizer=snapshot.choice.quantizer,
                evaluation=snapshot.choice.evaluation,
                importance=snapshot.choice.importance,
                parts=snapshot.choice.parts,
                weights_only=snapshot.weights_only,
                provenance={RUN_KEY: self.run.id}
                | ({NOT_EVALUATED: failure} if failure else {})
                | ({PARTS_KEY: told} if told else {}),
                **self._place(),
            )
        except KeptBesideError as error:
            if error.commit is None:
                raise
            self.branch = error.branch
            _logger.warning("%s, where this run continues", error.message)
            return error.commit


def _letters(name: str) -> str:
    return "".join(sign for sign in name if not sign.isdigit())


class Meter:
    """Measures one commit from the moment its snapshot is taken up; used on the thread that commits."""

    def __init__(self, snapshot: Snapshot, clock: Clock) -> None:
        """Begin to measure."""
        self._snapshot = snapshot
        self._clock = clock
        self._queued = clock() - snapshot.taken
        self._processor = thread_time()
        self._pool = 0.0

    def timings(self, commit: CommitInfo) -> Timings:
        """Return where the time of a commit went, which was just made."""
        spent = commit.timings
        self._pool = spent.get("pool_ms", 0.0) / 1e3
        return Timings(
            step=self._snapshot.step,
            commit=commit.id,
            blocked_ms=1e3 * self._snapshot.blocked,
            queue_wait_ms=1e3 * self._snapshot.queue_wait,
            queued_ms=1e3 * self._queued,
            encode_ms=spent.get("encode_ms", 0.0),
            write_ms=spent.get("write_ms", 0.0),
            processor_ms=1e3 * self._spent(),
            search_ms=1e3 * self._snapshot.choice.seconds,
            evaluations=self._snapshot.choice.evaluations,
        )

    def cost(self) -> Cost:
        """Return what the commit cost up to now, made or not."""
        taken = self._snapshot
        wall = self._clock() - taken.taken
        return Cost(taken.blocked + taken.queue_wait, self._spent(), wall, full=not taken.weights_only)

    def _spent(self) -> float:
        return thread_time() - self._processor + self._pool


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
            return self._one(
                [
                    (known, tip)
                    for known, tip in found
                    if wanted == known.name or (wanted and tip.run and tip.run.startswith(wanted))
                ],
                wanted,
            )
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


def _is_at_work(seen: dict[str, Any] | None) -> bool:
    """Tell whether a process that still runs commits for a run."""
    if seen is None or seen.get("ended"):
        return False
    process = Process.parse(str(seen.get("process")))
    return process is not None and process.is_gone() is False


class CommitQueue:
    """Hands out host buffers, and runs the work on each in order, beside the caller.

    There are as many buffers as places in the queue, so no more snapshots than that ever exist. One thread
    takes buffers and submits; the work runs on another.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._free: SimpleQueue[HostBuffers] = SimpleQueue()
        for _ in range(places):
            self._free.put(HostBuffers())
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mvcs-commit")
        self._process = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from the one that commits: it has no second thread."""
        return os.getpid() != self._process

    def _check_process(self) -> None:
        if self.is_inherited:
            raise UsageError("this checkpointer is another process's", hint="make one in this process")

    def take(self, *, wait: bool) -> HostBuffers | None:
        """Return buffers that nobody uses; None when all are in use and `wait` is false.

        Raises:
            UsageError: this is a forked process.
        """
        self._check_process()
        try:
            return self._free.get(block=wait)
        except Empty:
            return None

    def give_back(self, buffers: HostBuffers) -> None:
        """Return buffers that were taken and not submitted."""
        self._free.put(buffers)

    def submit(
        self, buffers: HostBuffers, work: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        """Run `work` after all that was submitted before, then free `buffers`.

        Args:
            buffers: what `work` reads; not to be touched by the caller any more.
            work: runs on the other thread.
            failed: is called there with whatever `work` raised.
        """
        future = self._pool.submit(work)
        future.add_done_callback(partial(self._done, buffers, failed))

    def drain(self, *, taken: int = 0) -> None:
        """Wait until nothing is queued or running, reports of failures included.

        Args:
            taken: how many buffers the caller holds itself.

        Raises:
            UsageError: this is a forked process.
        """
        self._check_process()
        held: list[HostBuffers] = []
        try:
            # Whoever holds every buffer knows that nobody else works on one.
            held.extend(self._free.get() for _ in range(self._places - taken))
        finally:
            for buffers in held:
                self._free.put(buffers)

    def close(self) -> None:
        """Wait for everything, then end the thread."""
        self._pool.shutdown(wait=True)

    def _done(
        self, buffers: HostBuffers, failed: Callable[[BaseException], None], future: Future[None]
    ) -> None:
        error = future.exception()
        try:
            if error is not None:
                failed(error)
        finally:
            self._free.put(buffers)
