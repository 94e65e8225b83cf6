"""The training hook: commits the whole state of a run while it goes on, and resumes it."""

import logging
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Literal, Self, Unpack

from mvcs.errors import MvcsError, UsageError
from mvcs.quantize import QuantizerOptions, quantizer_config
from mvcs.repository import Repository
from mvcs.repository.committing import LostRaceError
from mvcs.repository.reports import CommitInfo
from mvcs.train.parts import Parts, Stateful
from mvcs.train.report import Failure, Timings, summary
from mvcs.train.signals import Termination
from mvcs.train.snapshot import HostBuffers
from mvcs.train.worker import CommitQueue

_logger = logging.getLogger("mvcs.train")

Message = Callable[[int, Mapping[str, float]], str]


@dataclass(frozen=True)
class Resumed:
    """Where a run continued from.

    Attributes:
        commit: the commit whose state was loaded.
        layer: "exact" or "value".
        lossy: the loaded state is not the one that was handed over.
    """

    commit: CommitInfo
    layer: str
    lossy: bool


@dataclass(frozen=True)
class _Snapshot:
    """A state on its way to a commit."""

    step: int
    state: object
    metrics: dict[str, float]
    message: str
    blocked_ms: float
    queue_wait_ms: float
    taken: float


class Checkpointer:
    """Commits a training run every few steps, beside the training.

    Use it as a context manager, ask `resume` where to start, and call `after_step` when the optimizer has
    stepped. What is saved, and what each time means, stands in docs/training.md.

    Args:
        repo: where to commit; used from a second thread until the `with` block ends.
        model: its state is saved, like that of the other parts.
        optimizer: one optimizer; further ones go into `extra`.
        scheduler: of the learning rate.
        scaler: of the gradients.
        loader: knows its position in the data, where it has `state_dict`.
        extra: further parts by name: objects with state_dict and load_state_dict, torch generators, or
            plain values.
        every: commit after every so many steps.
        branch: commit to and resume from this branch, not the current one; a new one starts at HEAD.
        queue: most snapshots in host memory at once.
        on_full: "wait" stops the training until there is room, "skip" leaves this commit out.
        message: gives a commit's message from its step and metrics; none by default.
        rng: save and restore the global random generators.
        quantizer: how commits are bounded, such as `step_size=0.5` or `bins=16` (see
            `mvcs.quantize.QuantizerOptions`); nothing keeps them exact.

    Attributes:
        extra: further named parts; plain values in it are what `resume` found.
        restored: what `resume` loaded; None when the repository was new.
        failures: commits that could not be made.
        skipped: steps whose commit was due while the queue was full (`on_full="skip"` only).
        timings: one entry for every commit made.

    Raises:
        UsageError: a setting is out of range, or a part has no state.
    """

    def __init__(  # noqa: PLR0913 - every setting has a name and a default
        self,
        repo: Repository,
        model: Stateful,
        optimizer: Stateful,
        *,
        scheduler: Stateful | None = None,
        scaler: Stateful | None = None,
        loader: object | None = None,
        extra: Mapping[str, object] | None = None,
        every: int = 500,
        branch: str | None = None,
        queue: int = 1,
        on_full: Literal["wait", "skip"] = "wait",
        message: Message | None = None,
        rng: bool = True,
        **quantizer: Unpack[QuantizerOptions],
    ) -> None:
        _check_settings(every, queue, on_full)
        self._quantizer = quantizer_config(**quantizer)
        self._repo = repo
        # Whoever switches the working folder during the run does not take the run along.
        self._branch = branch or repo.branch
        self._every = every
        self._waits = on_full == "wait"
        self._message = message or (lambda _step, _metrics: "")
        named = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
        self._parts = Parts({**named, "loader": loader}, extra, use_rng=rng)
        self._queue = CommitQueue(queue)
        self._termination = Termination()
        self._untold = 0
        self._closed = False
        self._restored_from: str | None = None
        # What the next commit continues: "" for nothing, None for whatever the branch holds.
        self._continues: str | None = None
        self.restored: Resumed | None = None
        self.failures: list[Failure] = []
        self.skipped: list[int] = []
        self.timings: list[Timings] = []
        if not self._parts.has("loader") and not extra:
            _logger.warning("the position in the data is not saved; pass loader= or extra=")

    @property
    def extra(self) -> dict[str, object]:
        """The further parts by name; change plain values here to have them committed."""
        return self._parts.extra

    def __enter__(self) -> Self:
        """Listen for SIGTERM, in the main thread."""
        self._termination.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit what is queued; an error of the block goes on."""
        self.close()
        if kind is None and self._termination.requested:
            self._termination.deliver()

    def resume(self) -> int:
        """Load the newest commit and return the step to start from: the one after its own.

        In a new repository that is 0 and nothing is loaded. A branch that does not exist yet starts at HEAD.
        The exact layer is loaded where it is still stored. Otherwise the value layer is, `restored.lossy` is
        true, the log says so, and every later commit records it.

        Raises:
            UsageError: the newest commit is not one of a training run.
            MvcsError: its state cannot be read.
        """
        exists = self._branch in {branch.name for branch in self._repo.branches()}
        if not exists and self._repo.head() is None:
            self._continues = ""
            return 0
        found = self._repo.restore(self._branch if self._branch and exists else "HEAD")
        step = self._parts.load(found.state, f"commit {found.commit.short}")
        self.restored = Resumed(found.commit, found.layer, found.lossy)
        self._restored_from = found.commit.id if found.lossy else None
        self._continues = found.commit.id
        self._tell_resumed(self.restored, step)
        return step + 1

    def after_step(self, step: int, metrics: Mapping[str, float] | None = None) -> None:
        """Commit when step `step` is one that asks for it, or when SIGTERM has arrived.

        Call it after the optimizer has stepped. It returns when the state has been copied.

        Args:
            step: the step just done, counted from 0.
            metrics: numbers to commit with it.

        Raises:
            SystemExit: 143, after a SIGTERM that nobody else handles; everything is committed by then.
        """
        self._tell_failures()
        final = self._termination.requested
        if final or (step + 1) % self._every == 0:
            self._take(step, metrics, None, wait=final or self._waits)
        if final:
            self.flush()
            self._termination.deliver()

    def save(self, step: int, metrics: Mapping[str, float] | None = None, message: str | None = None) -> None:
        """Commit the state after step `step` now, waiting for room in the queue; see `after_step`."""
        self._take(step, metrics, message, wait=True)

    def flush(self) -> None:
        """Wait until every snapshot taken so far is committed, or has failed."""
        self._queue.drain()

    def close(self) -> None:
        """Flush, end the second thread, stop listening for SIGTERM, and say how many commits failed."""
        self._closed = True
        try:
            self._queue.close()
        finally:
            self._termination.remove()
        if self.failures:
            steps = ", ".join(str(failure.step) for failure in self.failures)
            _logger.error("%d commits of this run failed, those of steps %s", len(self.failures), steps)
        _logger.info("%s", self.summary())

    def summary(self) -> str:
        """Return one line on the commits of this run: numbers, and median and largest times."""
        return summary(self.timings, self.failures, self.skipped)

    @staticmethod
    def _tell_resumed(resumed: Resumed, step: int) -> None:
        where = f"resumed after step {step} from the {resumed.layer} layer of commit {resumed.commit.short}"
        if resumed.lossy:
            _logger.warning("%s, which differs from what was committed: descendants will say so", where)
        else:
            _logger.info("%s", where)

    def _take(
        self, step: int, metrics: Mapping[str, float] | None, message: str | None, *, wait: bool
    ) -> None:
        if self._closed:
            raise UsageError("the checkpointer is closed", hint="commit inside its 'with' block")
        asked = perf_counter()
        buffers = self._queue.take(wait=wait)
        if buffers is None:
            self.skipped.append(step)
            _logger.warning("step %d is not committed: the queue is full", step)
            return
        try:
            snapshot = self._snapshot(buffers, step, metrics, message, asked)
        except BaseException as error:
            self._queue.give_back(buffers)
            # The parts and the message are the user's code: whatever goes wrong there costs one commit.
            if not isinstance(error, Exception):
                raise
            self._failed(step, error)
            return
        self._queue.submit(buffers, lambda: self._commit(snapshot), lambda error: self._failed(step, error))

    def _snapshot(
        self,
        buffers: HostBuffers,
        step: int,
        metrics: Mapping[str, float] | None,
        message: str | None,
        asked: float,
    ) -> _Snapshot:
        began = perf_counter()
        number = operator.index(step)
        numbers = {name: float(value) for name, value in (metrics or {}).items()}
        text = self._message(step, numbers) if message is None else message
        state = buffers.copy(self._parts.gather(number))
        taken = perf_counter()
        return _Snapshot(number, state, numbers, text, 1e3 * (taken - began), 1e3 * (began - asked), taken)

    def _commit(self, snapshot: _Snapshot) -> None:
        queued_ms = 1e3 * (perf_counter() - snapshot.taken)
        commit = self._written(snapshot)
        # A descendant inherits it; the state of the next commit continues from this one's.
        self._restored_from = None
        self._continues = commit.id
        timing = Timings(
            step=snapshot.step,
            commit=commit.id,
            blocked_ms=snapshot.blocked_ms,
            queue_wait_ms=snapshot.queue_wait_ms,
            queued_ms=queued_ms,
            encode_ms=commit.timings.get("encode_ms", 0.0),
            write_ms=commit.timings.get("write_ms", 0.0),
        )
        self.timings.append(timing)
        _logger.info("step %d is commit %s", snapshot.step, commit.short)
        for note in commit.notes:
            _logger.warning("commit %s: %s", commit.short, note)

    def _written(self, snapshot: _Snapshot) -> CommitInfo:
        try:
            return self._repo.commit(
                snapshot.state,
                message=snapshot.message,
                step=snapshot.step,
                metrics=snapshot.metrics,
                quantizer=self._quantizer,
                restored_from=self._restored_from,
                branch=self._branch,
                continues=self._continues,
            )
        except LostRaceError as error:
            if error.commit is None:
                raise
            self._branch = error.branch
            _logger.warning("another writer moved the branch: this run continues on '%s'", error.branch)
            return error.commit

    def _failed(self, step: int, error: BaseException) -> None:
        failure = Failure.of(step, error)
        self.failures.append(failure)
        _logger.error("%s", failure)
        try:
            self._repo.report_failure(str(failure))
        except (MvcsError, OSError) as again:
            _logger.error("the failure could not be noted for 'mvcs status': %s", again)  # noqa: TRY400 - known

    def _tell_failures(self) -> None:
        told, self._untold = self._untold, len(self.failures)
        for failure in self.failures[told : self._untold]:
            _logger.warning("the run is not safe: %s", failure)


def _check_settings(every: int, queue: int, on_full: str) -> None:
    if every < 1:
        raise UsageError(f"every cannot be {every}", hint="commit after every 1 or more steps")
    if queue < 1:
        raise UsageError(f"queue cannot be {queue}", hint="give room for 1 or more snapshots")
    if on_full not in ("wait", "skip"):
        raise UsageError(f"on_full cannot be '{on_full}'", hint="use 'wait' or 'skip'")
