"""A recorded run replayed through the training hook, bounded by measured quality; verified on other data."""

import json
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Self

from mvcs.bench.history import CommittedStep, HistoryReport, committed_step, history_of
from mvcs.errors import ConflictError, FileFormatError
from mvcs.objects import EVALUATION_CLASS
from mvcs.reports import CommitDetails, CommitInfo, Report
from mvcs.search import SEARCH_DEFAULTS, Verdict
from mvcs.train import Timings

_WINDOW = 10
_FEWEST = 3


@dataclass(frozen=True)
class Judged(Report):
    """What a restored state lost on one sample, compared with the original batch by batch.

    Attributes:
        degradation: relative to the original's loss; positive is worse.
        standard_error: of that; None for a single batch.
    """

    degradation: float
    standard_error: float | None

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Return what a check of the whole sample found."""
        return cls(verdict.degradation, verdict.standard_error)

    def keeps(self, epsilon: float) -> bool:
        """Tell whether the bound is kept up to the sampling error, two standard errors."""
        return self.degradation - SEARCH_DEFAULTS.errors * (self.standard_error or 0.0) <= epsilon


@dataclass(frozen=True)
class Spent(Report):
    """What making a commit took.

    Attributes:
        evaluations: of the whole search sample, the original's counted.
        search_seconds: of the training thread: evaluations, and what was tried.
        codec_seconds: of the processor, on all threads beside the training.
        blocked_seconds: of the training thread: copying, and waiting before that.
    """

    evaluations: float
    search_seconds: float
    codec_seconds: float
    blocked_seconds: float

    @classmethod
    def of(cls, timings: Timings) -> Self:
        """Return what the hook measured."""
        blocked = timings.blocked_ms + timings.queue_wait_ms
        search, codec = timings.search_ms / 1e3, timings.processor_ms / 1e3
        return cls(timings.evaluations, search, codec, blocked / 1e3)


@dataclass(frozen=True)
class BoundedStep(Report):
    """One checkpoint of a replayed run.

    Attributes:
        size: its commit in bytes.
        exactness: "bounded", or "exact" where nothing kept the bound.
        quantizer: the settings that were found.
        candidates: how many were evaluated.
        search: on the sample that the search checks on, as the commit records it: as much of it as was
            needed; None for an exact commit.
        verify: on the sample that verifies the search.
        report: on the sample that results are about.
        spent: what it took; None where a killed run had not written it down.
        restored: seconds of the processor that restoring it took.
    """

    size: CommittedStep
    exactness: str
    quantizer: dict[str, Any] | None
    candidates: int
    search: Judged | None
    verify: Judged
    report: Judged
    spent: Spent | None
    restored: float | None = None

    @classmethod
    def of(
        cls, details: CommitDetails, verify: Judged, report: Judged, spent: Spent | None, restored: float
    ) -> Self:
        """Put together what is known of one commit."""
        commit = details.commit
        seconds = 0.0 if spent is None else spent.codec_seconds + spent.search_seconds
        return cls(
            size=committed_step(commit.step or 0, details, seconds),
            exactness=commit.exactness,
            quantizer=details.quantizer,
            candidates=int(commit.errors.get(EVALUATION_CLASS, {}).get("candidates", 0)),
            search=_searched(commit),
            verify=verify,
            report=report,
            spent=spent,
            restored=restored,
        )

    @classmethod
    def read(cls, row: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        spent, search = row["spent"], row["search"]
        return cls(
            **row
            | {
                "size": CommittedStep(**row["size"]),
                "search": None if search is None else Judged(**search),
                "verify": Judged(**row["verify"]),
                "report": Judged(**row["report"]),
                "spent": None if spent is None else Spent(**spent),
            }
        )


def _searched(commit: CommitInfo) -> Judged | None:
    if not isinstance(commit.degradation, float):
        return None
    error = commit.errors.get(EVALUATION_CLASS, {}).get("standard_error", math.nan)
    return Judged(commit.degradation, None if math.isnan(error) else error)


@dataclass(frozen=True)
class BoundedTerms(Report):
    """How commits are bounded.

    Attributes:
        max_degradation: the bound.
        moments: what they keep of moments.
        search_mean: evaluations a commit that saving bytes may take on average.
        without: the mechanisms that are left out.
        search: numbers that the search goes by, by name, where they differ from the usual.
    """

    max_degradation: float
    moments: str = "light"
    search_mean: float = SEARCH_DEFAULTS.mean
    without: Sequence[str] = ()
    search: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return what a folder is called."""
        budget = "" if self.search_mean == SEARCH_DEFAULTS.mean else f"-{self.search_mean:g}"
        left_out = "".join(f"-without-{name}" for name in sorted(self.without))
        varied = "".join(f"-{name}-{value}" for name, value in sorted(self.search.items()))
        return f"{self.max_degradation:g}{budget}{left_out}{varied}"


@dataclass(frozen=True, kw_only=True)
class Setting(BoundedTerms):
    """What decides a replayed run.

    Attributes:
        task: its name.
        data: digest of the held-out data.
        samples: batch, and batches of each sample.
    """

    task: str
    data: str
    samples: dict[str, int]


@dataclass(frozen=True)
class ConstantStretch(Report):
    """Commits between which the learning rate was constant; the first commit of a run is none of them.

    Attributes:
        first: step of the first of them.
        last: step of the last of them.
        largest: bytes of weights of the largest of ten in a row over their median, in the worst ten. Where
            there are fewer than ten, of all of them.
    """

    first: int
    last: int
    largest: float

    @classmethod
    def of(cls, sizes: Sequence[CommittedStep]) -> Self | None:
        """Look at commits in a row; None for fewer than three, whose median says nothing."""
        if len(sizes) < _FEWEST:
            return None
        stored = [one.weights_stored for one in sizes]
        windows = [stored[start : start + _WINDOW] for start in range(max(len(stored) - _WINDOW, 0) + 1)]
        largest = max(max(window) / max(median(window), 1) for window in windows)
        return cls(sizes[0].step, sizes[-1].step, largest)


@dataclass(frozen=True)
class BoundedReport(Report):
    """A whole replayed run.

    Attributes:
        setting: what decided it.
        repository: where its commits lie; None when they are removed.
        history: sizes, and the ratios CR-w and CR-all.
        constant: its commits at a constant learning rate; None for fewer than three.
        exact: commits that nothing else kept within the bound.
        kept: share of commits within the bound on the verify sample, up to its sampling error.
        worst_verify: the largest degradation there.
        worst_report: the same on the report sample.
        mean_report: the mean degradation there.
        evaluations: of the whole search sample, a commit; None when it is not known of any.
        search_seconds: a commit.
        codec_seconds: of the processor, a commit.
        commits: one for each checkpoint.
    """

    setting: Setting
    repository: str | None
    history: HistoryReport
    constant: ConstantStretch | None
    exact: int
    kept: float
    worst_verify: float
    worst_report: float
    mean_report: float
    evaluations: float | None
    search_seconds: float | None
    codec_seconds: float | None
    commits: list[BoundedStep]

    @classmethod
    def of(
        cls,
        folder: Path,
        setting: Setting,
        repository: Path | None,
        commits: Sequence[BoundedStep],
        constant: Container[int],
    ) -> Self:
        """Sum up the commits of a run; at the steps of `constant` its learning rate was so."""
        spent = [one.spent for one in commits if one.spent is not None]
        report = [one.report.degradation for one in commits]
        return cls(
            setting=setting,
            repository=None if repository is None else str(repository),
            history=history_of(folder, commits[0].quantizer, [one.size for one in commits]),
            constant=ConstantStretch.of([one.size for one in commits if one.size.step in constant]),
            exact=sum(one.exactness == "exact" for one in commits),
            kept=sum(one.verify.keeps(setting.max_degradation) for one in commits) / len(commits),
            worst_verify=max(one.verify.degradation for one in commits),
            worst_report=max(report),
            mean_report=sum(report) / len(report),
            evaluations=_mean([one.evaluations for one in spent]),
            search_seconds=_mean([one.search_seconds for one in spent]),
            codec_seconds=_mean([one.codec_seconds for one in spent]),
            commits=list(commits),
        )


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


class Records:
    """What was measured so far, in a file, so that a killed run goes on where it was."""

    def __init__(self, path: Path, setting: Setting) -> None:
        """Read the file, where there is one.

        Raises:
            ConflictError: it belongs to a run of other settings.
            FileFormatError: it is damaged.
        """
        self._path = path
        self._setting = setting
        self.commits: dict[int, BoundedStep] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        try:
            found = json.loads(self._path.read_text())
            setting = found["setting"]
            rows = [BoundedStep.read(row) for row in found["commits"]]
        except (ValueError, TypeError, KeyError) as error:
            raise FileFormatError(f"'{self._path}' is damaged", hint="remove its folder") from error
        if setting != self._setting.to_json():
            raise ConflictError(
                f"'{self._path}' belongs to another run", hint="choose another folder, or the same options"
            )
        self.commits = {row.size.step: row for row in rows}

    def add(self, commit: BoundedStep) -> None:
        """Write one more commit down, in full or not at all."""
        self.commits[commit.size.step] = commit
        rows = [one.to_json() for one in self.commits.values()]
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps({"setting": self._setting.to_json(), "commits": rows}, indent=1))
        part.replace(self._path)
