"""Methods on one run: settings are searched at every checkpoint, and judged by what the bytes restore."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import zstandard

from mvcs.bench.bounded import Judged
from mvcs.bench.codecs.clock import copying
from mvcs.bench.judges import SAMPLES, Judge
from mvcs.bench.ledger import Ledger, Record, Series, chained
from mvcs.bench.methods.method import Method, NotApplicableError, Setting, State, shapes_of
from mvcs.bench.runs.recorded_state import RecordedRun, RecordedState
from mvcs.bench.runs.run_maker import one_thread
from mvcs.delta import ElementFormat, choose_exact
from mvcs.errors import ConflictError, EvaluationError, FileFormatError, UsageError
from mvcs.inshrinkerator import ConfigurationCube, ConfigurationSearch
from mvcs.progress import Progress
from mvcs.search import Baseline, Bound, PairedCheck, Verdict, check_repeatable

WEIGHTS, REST = "weights", "rest"
_ZSTD_LEVEL = 3


@dataclass(frozen=True)
class Terms:
    """How methods are compared.

    Attributes:
        max_degradation: how much worse than the original a restored state may be, as a share.
        seed: of what methods draw.
        evaluations: of the search sample at one checkpoint, at most; None as many as the search takes.
    """

    max_degradation: float
    seed: int = 0
    evaluations: int | None = None


def compare(
    run: RecordedRun,
    judge: Judge,
    method: Method,
    ledger: Ledger,
    terms: Terms,
    *,
    fixed: str | None = None,
    progress: Progress,
) -> Series:
    """Measure one method on all checkpoints of a run, or continue where a killed comparison was.

    Args:
        run: its checkpoints, in their order.
        judge: evaluates the states.
        method: whose settings are searched.
        ledger: of this run and judge; is written to after every checkpoint.
        terms: the bound, and what the search may cost.
        fixed: the name of a setting that is taken as it is, without a search.
        progress: is told of every checkpoint.

    Raises:
        NotApplicableError: the checkpoints, or this installation, lack what the method needs.
        EvaluationError: the judge's function failed.
    """
    if method.missing:
        raise NotApplicableError(f"the package of {method.name} is not installed: {method.missing}")
    if "moments" in method.needs:
        last = list(run.readers.values())[-1]()  # the first may be from before the first step
        if lacking := sorted(method.restores - last.moments.keys()):
            kinds = " and ".join(lacking)
            raise NotApplicableError(
                f"{method.name} needs an optimizer's moments, and step {last.step} has no {kinds}",
                hint="leave it out with --methods, or name checkpoints that hold the optimizer's state",
            )
    name = method.name if fixed is None else f"{method.name}:{fixed}"
    bound = terms.max_degradation if fixed is None and method.axes else None
    series = ledger.series(name, method.version, bound, terms.seed)
    series.begin()
    progress.start(f"measuring {name}", len(run.readers), "checkpoints")
    with one_thread(terms.seed):
        work = Comparison(judge, method, ledger, terms, None if fixed is None else method.fixed[fixed])
        for step, read in run.readers.items():
            try:
                progress.note(line(name, *work.advance(series, read())))
            except (EvaluationError, FileFormatError) as error:
                raise type(error)(f"step {step}: {error.message}", hint=error.hint) from error
            progress.advance(1)
    progress.finish()
    return series


@dataclass(frozen=True)
class Originals:
    """How the recorded states fare on the samples, which no method changes; kept in the ledger."""

    judge: Judge
    ledger: Ledger

    @cached_property
    def _known(self) -> dict[str, list[list[float]]]:
        """The batches of each sample and step."""
        return self.ledger.known("originals") or {}

    def confirm(self, recorded: RecordedState) -> None:
        """Make sure that the judge gives the numbers that the ledger has, and looks at weights at all.

        Raises:
            ConflictError: it gives others than when the ledger was begun.
            UsageError: it gives others each time, or the same for quite other weights.
        """
        was_known = f"{SAMPLES[0]} {recorded.step}" in self._known
        baseline = self.baseline(recorded, SAMPLES[0])
        try:
            with self.judge.evaluation(recorded.state(), SAMPLES[0]) as measured:
                check_repeatable(measured, baseline)
        except UsageError as error:
            if not was_known:
                raise
            raise ConflictError(
                f"the evaluation is not the one of what '{self.ledger.folder}' has: {error.message}",
                hint="choose another --out, or the evaluation as it was",
            ) from error
        drawn = np.random.default_rng(0)
        others = {
            name: (weight.std() or 1) * drawn.standard_normal(weight.shape, np.float32)
            for name, weight in recorded.weights.items()
        }
        with self.judge.evaluation(recorded.state(others), SAMPLES[0]) as measured:
            if PairedCheck(Bound(0.0), stops_early=False).judge(measured, baseline, 0.0).is_same:
                raise UsageError(
                    "the evaluation gives the same for quite other weights",
                    hint="let it evaluate the state that it is given",
                )

    def judged(self, recorded: RecordedState, state: Any, sample: str, bound: Bound) -> Judged:  # noqa: ANN401
        """Return what a restored state lost on a whole sample."""
        baseline = self.baseline(recorded, sample)
        with self.judge.evaluation(state, sample) as measured:
            verdict = PairedCheck(bound, stops_early=False).judge(measured, baseline, bound.epsilon(0))
        return Judged.of(verdict)

    def baseline(self, recorded: RecordedState, sample: str) -> Baseline:
        """Return what the judge gives for the recorded state itself."""
        known, name = self._known, f"{sample} {recorded.step}"
        if name not in known:
            with self.judge.evaluation(recorded.state(), sample) as measured:
                found = Baseline.measure(measured)
            known[name] = [list(batch) for batch in found.batches] if found.is_paired else [[found.value]]
            self.ledger.keep("originals", known)
        batches = known[name]
        if len(batches[0]) == 1:
            return Baseline(((batches[0][0], 1.0),), is_paired=False)
        return Baseline(tuple((total, count) for total, count in batches))


@dataclass
class _Rest:
    """Bytes of what methods do not code, stored exactly near the checkpoint before, as commits store it."""

    ledger: Ledger
    _before: RecordedState | None = None

    def stored(self, recorded: RecordedState) -> dict[str, int]:
        """Return bytes by kind of moment, with `REST` for all else."""
        known: dict[str, dict[str, int]] = self.ledger.known("rest") or {}
        name = str(recorded.step)
        if name not in known:
            known[name] = self._measured(recorded)
            self.ledger.keep("rest", known)
        self._before = recorded
        return known[name]

    def _measured(self, recorded: RecordedState) -> dict[str, int]:
        found, before = {REST: 0}, {}
        if self._before is not None:
            before = {leaf.path[1:]: leaf for _, leaf in self._before.rest()}
        for kind, leaf in recorded.rest():
            base = before.get(leaf.path[1:])
            element = ElementFormat.of(leaf.dtype.itemsize, leaf.dtype.kind)
            payload = choose_exact(leaf.source.read(), element, None if base is None else base.source.read())[
                1
            ]
            found[kind or REST] = found.get(kind or REST, 0) + len(payload)
        blobs = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(b"".join(recorded.blob_bytes()))
        found[REST] += len(blobs)
        return found


class Comparison:
    """One method on its way through a run.

    Attributes:
        state: what decoding the payloads so far gave.
    """

    def __init__(
        self, judge: Judge, method: Method, ledger: Ledger, terms: Terms, fixed: Setting | None
    ) -> None:
        self._judge = judge
        self._method = method
        self._terms = terms
        self._fixed = fixed
        self._originals = Originals(judge, ledger)
        self._rest = _Rest(ledger)
        self._bound = Bound(terms.max_degradation)
        self.state: State | None = None
        self._digest = ""
        self._last: Setting | None = None

    def advance(self, series: Series, recorded: RecordedState) -> tuple[Record, bool]:
        """Measure a checkpoint, unless the ledger has it; the next one continues its payload.

        Returns: its record, and whether the ledger had it.
        """
        rest = self._rest.stored(recorded)
        known = self.follow(series, recorded.step)
        if known is not None:
            return known, True
        record, payload, self.state = self._measured(recorded, rest)
        series.add(record, payload)
        self._follow(record)
        return record, False

    def follow(self, series: Series, step: int) -> Record | None:
        """Continue from the record of a checkpoint; None where the ledger has none that continues this."""
        known = series.find(step, self._digest)
        if known is None:
            return None
        record, payload = known
        self.state = self._method.decode(payload, self.state)[1]
        self._follow(record)
        return record

    def _follow(self, record: Record) -> None:
        self._digest = record.payload
        self._last = record.setting if record.kept else self._last

    def _measured(self, recorded: RecordedState, rest: Mapping[str, int]) -> tuple[Record, bytes, State]:
        began = time.process_time()
        found = self._chosen(recorded)
        searched = time.process_time()
        tensors, state = self._method.decode(found.payload, self.state)
        decoded = time.process_time()
        verify, report = (
            self._originals.judged(recorded, recorded.state(tensors), sample, self._bound)
            for sample in SAMPLES[1:]
        )
        weights = self._method.weight_bytes(found.payload)
        coded = {kind: 0 for kind in sorted(self._method.restores) if kind in rest}
        by_class = {WEIGHTS: weights, **rest, **coded}
        if coded:
            by_class[next(iter(coded))] = len(found.payload) - weights
        record = Record(
            step=recorded.step,
            setting=dict(found.setting),
            kept=found.kept,
            raw=recorded.raw_bytes,
            weights=recorded.weight_bytes,
            stored=weights,
            everything=sum(by_class.values()),
            by_class=by_class,
            tested=found.tested,
            search=found.search,
            verify=verify,
            report=report,
            encode=found.seconds,
            decode=decoded - searched,
            memcpy=copying(recorded.weight_bytes),
            searched=searched - began,
            payload=chained(self._digest, found.payload),
        )
        return record, found.payload, state

    def _chosen(self, recorded: RecordedState) -> "_Found":
        method, tensors = self._method, recorded.weights
        coded: dict[str, tuple[bytes, float]] = {}
        needs = needs_of(method, recorded, self._terms.seed)

        def stored(setting: Setting) -> int:
            began = time.process_time()
            payload = method.payload(tensors, self.state, setting, **needs)
            coded[str(setting)] = payload, time.process_time() - began
            return len(payload)

        def judge(setting: Setting) -> Verdict:
            restored, _ = method.decode(coded[str(setting)][0], self.state)
            baseline = self._originals.baseline(recorded, "search")
            with self._judge.evaluation(recorded.state(restored), "search") as measured:
                return PairedCheck(self._bound).judge(measured, baseline, self._bound.epsilon(0), whole=True)

        axes = method.axes_for(shapes_of(tensors))
        cube = ConfigurationCube(axes, method.metrics)
        if self._fixed is not None or not axes:
            setting = self._fixed or {}
            stored(setting)
            return _Found(setting, *coded[str(setting)], kept=True, tested=0, search=None)
        search = ConfigurationSearch(cube, self._terms.evaluations, last=self._last)
        outcome = search.run(stored, judge)
        setting = outcome.chosen.setting if outcome.chosen else cube.at(cube.top)
        if str(setting) not in coded:
            stored(setting)
        verdict = next((one.verdict for one in outcome.tested if one.setting == setting), None)
        searched = None if verdict is None else Judged.of(verdict)
        kept = outcome.chosen is not None
        return _Found(setting, *coded[str(setting)], kept, len(outcome.tested), searched)


def needs_of(method: Method, recorded: RecordedState, seed: int) -> dict[str, Any]:
    """Return what a method is handed beside weights, by name."""
    return {name: seed if name == "seed" else getattr(recorded, name) for name in method.needs}


@dataclass(frozen=True)
class _Found:
    """What one checkpoint is stored as."""

    setting: Setting
    payload: bytes
    seconds: float
    kept: bool
    tested: int
    search: Judged | None


def line(name: str, record: Record, known: bool) -> str:  # noqa: FBT001  # as `advance` returns it
    """Return what is said of a checkpoint that a method has measured, or that the ledger had."""
    ratios = f"CR-w {record.weights / max(record.stored, 1):.1f}, CR-all {record.raw / record.everything:.1f}"
    judged = f"verify {record.verify.degradation:+.3%}, report {record.report.degradation:+.3%}"
    missed = "" if record.kept else " (no setting keeps the bound)"
    took = f"{record.tested} settings, {record.searched:.1f} s" + ("; from the ledger" if known else "")
    return f"{name}, step {record.step}{missed}: {ratios}; {judged}; {took}"
