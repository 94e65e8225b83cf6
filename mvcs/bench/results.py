"""What a ledger says of its runs: a row for each method, bound and seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any, Self

from mvcs.bench.channels import ChannelsReport
from mvcs.bench.ledger import LATTICE, Ledger, Record, Series
from mvcs.bench.methods.catalog import METHODS
from mvcs.reports import Report


@dataclass(frozen=True)
class Result(Report):
    """One method on one run.

    Attributes:
        method: its name; a fixed setting has its own behind a colon.
        version: of the method.
        bound: the degradation accepted; None where nothing is searched.
        seed: of what it drew.
        checkpoints: how many were measured.
        unmeasured: those of the run that were not, or whose record is damaged.
        weights: CR-w, bytes of weights over bytes stored for them.
        weights_later: the same without the first checkpoint; None for a single one.
        everything: CR-all, bytes of whole states over bytes stored for them.
        missed: checkpoints where no setting kept the bound on the search sample.
        kept: share of checkpoints within the bound on the verify sample, up to two standard errors; None for
            a fixed setting.
        worst: largest degradation on the verify sample.
        mean: mean degradation on the report sample.
        tested: settings evaluated a checkpoint.
        encode: speed as a share of memcpy's; the median.
        decode: likewise.
        searched: seconds of the processor a checkpoint, encoding and evaluations included.
        restore: seconds of the processor that each checkpoint takes to restore, with the payloads that it
            continues; of mvcs itself those of the whole state.
        records: one for each checkpoint.
    """

    method: str
    version: int
    bound: float | None
    seed: int
    checkpoints: int
    unmeasured: int
    weights: float
    weights_later: float | None
    everything: float
    missed: int
    kept: float | None
    worst: float
    mean: float
    tested: float
    encode: float
    decode: float
    searched: float
    restore: list[float]
    records: list[Record]

    @classmethod
    def of(cls, series: Series, records: Sequence[Record], steps: Sequence[int]) -> Self:
        """Sum up the records of a method on a run of these steps; there is at least one."""
        count, later, bound = len(records), records[1:], series.bound
        kept = None if bound is None else sum(one.verify.keeps(bound) for one in records) / count
        return cls(
            method=series.method,
            version=series.version,
            bound=bound,
            seed=series.seed,
            checkpoints=count,
            unmeasured=len(set(steps) - {one.step for one in records}),
            weights=_ratio([(one.weights, one.stored) for one in records]),
            weights_later=_ratio([(one.weights, one.stored) for one in later]) if later else None,
            everything=_ratio([(one.raw, one.everything) for one in records]),
            missed=sum(not one.kept for one in records),
            kept=kept,
            worst=max(one.verify.degradation for one in records),
            mean=sum(one.report.degradation for one in records) / count,
            tested=sum(one.tested for one in records) / count,
            encode=median(one.memcpy / max(one.encode, 1e-9) for one in records),
            decode=median(one.memcpy / max(one.decode, 1e-9) for one in records),
            searched=sum(one.searched for one in records) / count,
            restore=_restore(series.method, [one.decode for one in records]),
            records=list(records),
        )


@dataclass(frozen=True)
class RunResults(Report):
    """The methods that were measured on one run, the fewest bytes for weights first.

    Attributes:
        digest: of the run and of how it was evaluated.
        run: what it is about.
        results: one for each method, bound and seed.
        skipped: methods that were not measured, with the reason.
    """

    digest: str
    run: dict[str, Any]
    results: list[Result]
    skipped: dict[str, str]

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        """Read what a ledger has."""
        found = [(series, series.records()) for series in ledger.all_series()]
        steps = ledger.run["steps"]
        results = [Result.of(series, records, steps) for series, records in found if records]
        skipped = {series.method: _not_begun(series.bound) for series, records in found if not records}
        skipped |= ledger.known("skipped") or {}
        for one in results:  # what was missing then may be there by now
            skipped.pop(one.method, None)
        run = dict(ledger.run)
        results.sort(key=lambda one: (one.bound is None, one.bound or 0.0, -one.weights))
        return cls(str(run.pop("digest", "")), run, results, skipped)


@dataclass(frozen=True)
class ComparisonReport(Report):
    """Everything that an output folder has.

    Attributes:
        folder: where it lies.
        runs: one for each run and way to evaluate it.
        channels: arms of `mvcs bench channels`; None where there are none.
    """

    folder: str
    runs: list[RunResults]
    channels: ChannelsReport | None = None

    @classmethod
    def of(cls, out: Path) -> Self:
        """Read an output folder.

        Raises:
            NotFoundError: it has no results.
            FileFormatError: the description of a run is damaged.
        """
        channels = ChannelsReport.of(out)
        ledgers = Ledger.all_in(out, required=channels is None)
        return cls(str(out), [RunResults.of(ledger) for ledger in ledgers], channels)


def _restore(name: str, own: list[float]) -> list[float]:
    """Add what a checkpoint's payload takes to what those take that it continues."""
    method = METHODS.get(name.partition(":")[0])
    chain = "none" if name == LATTICE else "all" if method is None else method.chain
    if chain == "all":
        return list(accumulate(own))
    return [own[0], *(own[0] + one for one in own[1:])] if chain == "first" else own


def _not_begun(bound: float | None) -> str:
    return "no checkpoint is measured yet" + ("" if bound is None else f" at the bound {bound:g}")


def _ratio(pairs: Sequence[tuple[int, int]]) -> float:
    return sum(raw for raw, _ in pairs) / max(sum(stored for _, stored in pairs), 1)
