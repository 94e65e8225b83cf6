"""The training hook: commits the whole state of a run while it goes on, and resumes it."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, Unpack, cast

from mvcs.checkpoint import check_state
from mvcs.commits import step_number
from mvcs.errors import MvcsError, StateError, UsageError, number, some_of, text
from mvcs.reports import CommitInfo
from mvcs.repository import Repository
from mvcs.train.choice.search import Choice
from mvcs.train.choosers import chooser_of
from mvcs.train.options import (
    Cadences,
    CheckpointerOptions,
    Delivery,
    Process,
    bounding_of,
    check_parts,
    listed,
)
from mvcs.train.saving import resumption
from mvcs.train.saving.report import Failure, Newest, Notes, Resumed, RunSizes, Timings, summary
from mvcs.train.saving.run_writer import CommitQueue, Line, Meter, Snapshot
from mvcs.train.saving.signals import Termination
from mvcs.train.state.host_copies import HostBuffers
from mvcs.train.state.parts import Parts
from mvcs.train.state.side_effects import SideEffects
from mvcs.train.state.stateful import Stateful

_logger = logging.getLogger("mvcs.train")
_RARELY: Final = 16  # commits between looks at whether evaluations change tensors of an optimizer
_NAMED = 10


class Checkpointer:
    """Commits a training run now and then, beside the training.

    Use it as a context manager, ask `resume` where to start, and call `after_step` when the optimizer has
    stepped. What is saved, and what each time means, stands in docs/training.md.

    Args:
        repo: where to commit; used from a second thread until the `with` block ends.
        model: its state is saved, like that of the other parts.
        optimizer: one optimizer; further ones go into `extra`.
        scheduler: of the learning rate.
        scaler: of the gradients.
        loader: knows its position in the data, where it or its sampler has `state_dict`.
        extra: further parts by name: objects with state_dict and load_state_dict, torch generators, or
            plain values.
        every: commit after every so many steps; 500 when no other cadence is given.
        seconds: instead: commit after the first step that ends so many seconds after the last commit.
        overhead: instead: commit as often as this share of the training time pays for, such as 0.005.
        weights_every: commit the model alone after every so many steps at which nothing else is due.
        branch: commit to and resume from this branch, not the current one; a new one starts at HEAD.
        queue: most snapshots in host memory at once.
        on_full: "wait" stops the training until there is room, "skip" leaves this commit out.
        message: gives a commit's message from its step and metrics; none by default.
        on_commit: one function or several, called on the second thread with every commit that is durable.
        rng: save and restore the global random generators.
        final: commit the last step, if it was not committed, when the `with` block ends without an exception.
        bounding: how commits are bounded: by measured quality, such as `evaluate=evaluate,
            max_degradation=0.01` (the default beside `evaluate`), or alike, such as `step_size=0.5` (see
            `mvcs.train.choice.search.BoundingOptions`); nothing keeps them exact.
        clock: what time it is, in seconds; tests turn their own.

    Attributes:
        extra: further named parts; plain values in it are what `resume` found.
        restored: what `resume` loaded; None when the repository was new.
        failures: commits that could not be made.
        callback_failures: what functions of `on_commit` raised; the commits are made.
        not_evaluated: steps that are committed though their evaluation failed; the commits tell why.
        skipped: steps whose commit was due while the queue was full (`on_full="skip"` only).
        timings: one entry for every commit made. Of this and the four lists above the newest 10,000 entries
            are held; their `total` counts all.

    Raises:
        UsageError: a setting is out of range, a part has no state, or the model cannot load its own.
        StateError: a part holds what cannot be stored; the message names its path.
    """

    @listed
    def __init__(
        self,
        repo: Repository,
        model: Stateful,
        optimizer: Stateful,
        scheduler: Stateful | None = None,
        *,
        scaler: Stateful | None = None,
        loader: object | None = None,
        **options: Unpack[CheckpointerOptions],
    ) -> None:
        check_parts(repo, model, optimizer, scheduler, options.get("extra"))
        bounding, self._process = bounding_of(options), Process.of(options)
        self._delivery = Delivery.of(options)
        self._cadences = Cadences.of(options, self._process.clock)
        self._repo = repo
        # Whoever switches the working folder during the run does not take the run along.
        self._line = Line(repo, self._delivery.branch or repo.branch)
        self._metrics = Metrics()
        named = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
        self._parts = Parts({**named, "loader": loader}, options.get("extra"), use_rng=self._process.rng)
        self._looked_at = False
        self._chooser = chooser_of(model, optimizer, self._cadences.interval, bounding, self._parts.extra)
        self._effects = SideEffects(self._parts.beside)
        self._chooser.watch(self._effects.undone)
        self._queue = CommitQueue(self._delivery.places)
        self._termination = Termination()
        self._done: tuple[int, Mapping[str, float] | None] | None = None
        self._committed: int | None = None  # the newest step whose whole state is
        self._untold = 0
        self._closed = False
        self._notes = Notes()
        self._sizes = RunSizes(repo, searches=self._chooser.searches)
        self.restored: Resumed | None = None
        self.failures: Newest[Failure] = Newest()
        self.callback_failures: Newest[Failure] = Newest()
        self.not_evaluated: Newest[int] = Newest()
        self.skipped: Newest[int] = Newest()
        self.timings: Newest[Timings] = Newest()

    def __repr__(self) -> str:
        return f"<Checkpointer of {self._repo!r}: {self.summary()}>"

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
        """Commit the last step and what is queued; after an error, which goes on, only what is queued."""
        if kind is None:
            self.finish()
        else:
            self.close()
        if kind is None and self._termination.requested:
            self._termination.deliver()

    @property
    def run(self) -> str:
        """The id of this run, which stands in its commits."""
        return self._line.run.id

    def resume(self, run: str | None = None) -> int:
        """Load the newest whole state and return the step to start from: the one after its own.

        In a new repository that is 0 and nothing is loaded. A branch that does not exist yet starts at HEAD.
        A run of this clone that lost a race goes on on the branch of its own. Commits of weights alone are
        passed over, and the log says so. The exact layer is loaded where it is still stored and whole.
        Otherwise the value layer is, `restored.lossy` is true, and every later commit records it.
        Damaged packs stand in `restored.damaged` and in the log.

        Args:
            run: which run, by its id or branch, where several lie on the branch and its conflict branches.

        Raises:
            ConflictError: several runs may be meant.
            UsageError: the newest commit is not one of a training run, or does not fit; nothing is loaded.
            CorruptionError: something of its state is damaged or lost; the hint names the newest commit that
                is whole, and says how to go on from that.
        """
        tip = resumption.found_tip(self._repo, self._line, run)
        if tip is None:
            self._line.begin()
            return 0
        passed = resumption.weights_until_state(self._repo, tip)
        if passed is None:
            _logger.warning("the branch holds weights alone: the run starts from the beginning behind them")
            self._line.stand_on(tip)
            return 0
        return self._resume(tip, passed)

    def _resume(self, tip: CommitInfo, passed: list[CommitInfo]) -> int:
        found = resumption.restored(self._repo, passed[-1].parents[0] if passed else tip.id)
        loaded = self._parts.load(resumption.state_of_run(self._repo, found), f"commit {found.commit.short}")
        self._line.follow(found.commit, lossy=found.lossy, tip=tip)
        self.restored = resumption.resumed_from(self._repo, found, loaded, passed)
        resumption.tell_resumed(self.restored)
        return loaded.step + 1

    def load_inside(self, states: Mapping[str, Any]) -> None:
        """Load what is in the parts that a framework keeps, which it makes after `resume`; for adapters.

        Args:
            states: of such parts, as `resume` gave them to these, by the names they have here.

        Raises:
            UsageError: a state does not fit what is there.
        """
        self._parts.load_inside(states)

    def after_step(self, step: int, metrics: Mapping[str, float] | None = None) -> None:
        """Commit when step `step` is one that asks for it, or when SIGTERM has arrived.

        Call it after the optimizer has stepped. It returns when the state has been copied.

        Args:
            step: the step just done, counted from 0.
            metrics: numbers to commit with it; others are left out, with one warning.

        Raises:
            UsageError: the step is no whole number, or a forked process is to commit.
            ModelLostError: an evaluation left other weights in the model, since its device failed for good.
            SystemExit: 143, after a SIGTERM that nobody else handles; everything is committed by then.
        """
        self._tell_failures()
        step = step_number(step)
        self._line.begins_at(step)
        self._done = step, metrics
        final, due = self._termination.requested, self._cadences.states.due(step)
        weights_due = self._cadences.weights is not None and self._cadences.weights.due(step)
        if final or due:
            self._take(step, metrics, None, wait=final or self._delivery.waits, search=not final)
        elif weights_due:
            self._take(step, metrics, None, wait=self._delivery.waits, weights_only=True)
        elif not self._looked_at:
            with suppress(Exception):  # of others' code: a commit says what is wrong with that
                self._look_at(self._parts.gather(step))
        self._looked_at = True
        if final:
            self.flush()
            self._termination.deliver()

    def _look_at(self, state: object) -> None:
        """Say at the first step, when moments are there, what the first commit could not store."""
        try:
            check_state(state)
        except StateError as error:
            told = f"no whole state of this run can be committed: {error.message} ({error.hint})"
            _logger.error("%s", told)  # noqa: TRY400 - known
            self._repo.report_failure(told)

    def save(self, step: int, metrics: Mapping[str, float] | None = None, message: str | None = None) -> None:
        """Commit the whole state after step `step` now, waiting for room in the queue; see `after_step`.

        Between a backward pass and the optimizer's step the gradients are part of the state.
        """
        step = step_number(step)
        self._line.begins_at(step)
        self._done = step, metrics
        self._take(step, metrics, message, wait=True)

    def flush(self) -> None:
        """Wait until every snapshot taken so far is committed, or has failed."""
        self._queue.drain()

    def finish(self) -> None:
        """Commit the last step as `commit_last` does, then close.

        Raises:
            ModelLostError: see `after_step`.
        """
        try:
            self.commit_last()
        finally:
            self.close()

    def commit_last(self) -> None:
        """Commit the step that was told last, unless its whole state is committed or `final` is false.

        Raises:
            ModelLostError: see `after_step`.
        """
        if self._closed or self._queue.is_inherited or not self._process.final:
            return
        self.flush()
        if self._done is not None and self._done[0] != self._committed:
            self._take(*self._done, None, wait=True, search=not self._termination.requested)

    def close(self) -> None:
        """Flush, end the second thread, stop listening for SIGTERM, and say how many commits failed.

        A forked process has nothing to close.
        """
        self._closed = True
        if self._queue.is_inherited:
            return
        try:
            self._queue.close()
        finally:
            self._parts.close()
            self._chooser.close()
            self._termination.remove()
            self._line.end()
        if self.failures:
            steps = ", ".join(str(failure.step) for failure in self.failures)
            _logger.error("%d commits of this run failed, those of steps %s", self.failures.total, steps)
        if self.callback_failures:
            _logger.error("%d calls of on_commit failed in this run", self.callback_failures.total)
        if self.not_evaluated:
            steps = some_of([str(step) for step in self.not_evaluated], _NAMED)
            _logger.warning("committed, but not evaluated: steps %s; 'mvcs log' tells why", steps)
        self._notes.unbounded.tell_end(self.timings.total)
        _logger.info("%s", self.summary())

    def summary(self) -> str:
        """Return one line on the commits of this run: numbers, median and largest times, sizes, cadence.

        Where all of them together are less than 30 times smaller than their states, it says why.
        """
        told = summary(self.timings, self.failures, self.skipped, self.not_evaluated, self._notes)
        sizes = f"{self._sizes}; " if self.timings else ""
        return f"{told}; {sizes}{self._cadences.states}"

    def _take(
        self,
        step: int,
        metrics: Mapping[str, float] | None,
        message: str | None,
        *,
        wait: bool,
        weights_only: bool = False,
        search: bool = True,
    ) -> None:
        if self._closed:
            raise UsageError("the checkpointer is closed", hint="commit inside its 'with' block")
        asked = self._process.clock()
        buffers = self._queue.take(wait=wait)
        if buffers is None:
            self.skipped.append(step)
            if not weights_only:
                self._cadences.states.left_out()
            _logger.warning("step %d is not committed: the queue is full", step)
            return
        try:
            snapshot = self._snapshot(buffers, step, metrics, message, asked, weights_only=weights_only)
            snapshot = replace(snapshot, choice=self._choose(snapshot, search=search))
        except BaseException as error:
            self._queue.give_back(buffers)
            # The parts and the message are the user's code: whatever goes wrong there costs one commit.
            if not isinstance(error, Exception):
                raise
            self._cadences.states.left_out()
            self._failed(step, error)
            return
        blocked = snapshot.blocked + snapshot.queue_wait + snapshot.choice.seconds
        self._cadences.states.taken(blocked, full=not weights_only)
        self._queue.submit(buffers, lambda: self._commit(snapshot), lambda error: self._failed(step, error))
        if snapshot.choice.lost is not None:
            raise snapshot.choice.lost

    def _choose(self, snapshot: Snapshot, *, search: bool) -> Choice:
        """Search how a snapshot is bounded, next to the commit before it, while the model still holds it.

        Once the run was told to end there is time for one candidate, or for none.
        """
        if not self._chooser.searches:
            return self._chooser.unmeasured()
        if not search and not self._chooser.is_quick:
            return self._chooser.ended()
        self._queue.drain(taken=1)
        state = cast("Mapping[str, Any]", snapshot.state)
        choice = self._chooser.choose(snapshot.step, state, self._line, is_last=not search)
        looks = self._effects.found or self.timings.total % _RARELY == 0
        if looks and not snapshot.weights_only:
            self._effects.put_back(state)
        return choice

    def _snapshot(
        self,
        buffers: HostBuffers,
        step: int,
        metrics: Mapping[str, float] | None,
        message: str | None,
        asked: float,
        *,
        weights_only: bool,
    ) -> Snapshot:
        began = self._process.clock()
        numbers = self._metrics.numbers(metrics)
        text = self._delivery.message(step, numbers) if message is None else message
        parts = self._parts
        state = buffers.copy(parts.gather_model(step)) if weights_only else parts.copied(step, buffers)
        taken, given = self._process.clock(), self._repo.lossy_restores
        choice, waited = self._chooser.unmeasured(), began - asked
        return Snapshot(step, state, numbers, text, weights_only, choice, taken - began, waited, taken, given)

    def _commit(self, snapshot: Snapshot) -> None:
        meter = Meter(snapshot, self._process.clock)
        try:
            commit = self._line.commit(snapshot)
            self.timings.append(meter.timings(commit))
            if not snapshot.weights_only:
                self._committed = snapshot.step
            if snapshot.choice.failure:
                self.not_evaluated.append(snapshot.step)
            what = "the weights of step" if snapshot.weights_only else "step"
            _logger.info("%s %d is commit %s", what, snapshot.step, commit.short)
            told = *snapshot.choice.notes, *commit.notes, *self._parts.notes(snapshot.state)
            self._notes.tell(commit, told)
            self._sizes.add(commit)
            self._call_back(snapshot.step, commit)
        finally:
            self._cadences.states.measured(meter.cost())

    def _call_back(self, step: int, commit: CommitInfo) -> None:
        for called in self._delivery.on_commit:
            try:
                called(commit)
            except BaseException as error:
                failure = Failure.of(step, error, committed=True)
                self.callback_failures.append(failure)
                _logger.exception("%s", failure)
                self._note_failure(failure)

    def _failed(self, step: int, error: BaseException) -> None:
        failure = Failure.of(step, error)
        if self.failures and self.failures[-1] == failure:
            return  # a last step is tried again at the end of a run, and the same was told before
        if self.failures and self.failures[-1].step == step:
            self.failures[-1] = failure
        else:
            self.failures.append(failure)
        _logger.error("%s", failure)
        self._note_failure(failure)

    def _note_failure(self, failure: Failure) -> None:
        try:
            self._repo.report_failure(str(failure))
        except (MvcsError, OSError) as again:
            _logger.error("the failure could not be noted for 'mvcs status': %s", again)  # noqa: TRY400 - known

    def _tell_failures(self) -> None:
        told, self._untold = self._untold, self.failures.total
        for failure in self.failures.since(told):
            _logger.warning("the run is not safe: %s", failure)


class Metrics:
    """Takes what a loop gives as metrics, and warns once of each that is left out."""

    def __init__(self) -> None:
        self._warned: set[object] = set()

    def numbers(self, metrics: object) -> dict[str, float]:
        """Return those that are single numbers, by name."""
        if metrics is None:
            return {}
        if not isinstance(metrics, Mapping):
            self._warn(None, f"metrics cannot be {metrics!r}")
            return {}
        found = {}
        for name, value in metrics.items():
            try:
                text("the name of a metric", name)
                found[name] = number(f"the metric '{name}'", value, "")
            except UsageError as error:
                self._warn(name, error.message)
        return found

    def _warn(self, name: object, what: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            _logger.warning(
                "%s; commits are made without it: give numbers by name, as in {'loss': 0.5}", what
            )
