"""What tuning files found: every candidate in order, and the settings that were chosen."""

from collections.abc import Sequence
from dataclasses import dataclass

from mvcs.commits import LatticeTrial
from mvcs.quantize import step_value
from mvcs.reports import CommitInfo, Report
from mvcs.search import Evaluation, LatticeChoice, LatticeOutcome, Tested


@dataclass(frozen=True)
class Candidate(Report):
    """Settings that were evaluated.

    Attributes:
        steps: the step of each layer type.
        hysteresis: how many steps beyond half of one a weight keeps the parent's code.
        stored_bytes: about what the weights' codes would take in a pack.
        degradation: how much worse than the original it is; positive is worse.
        standard_error: of the degradation; None where the evaluation gives none.
        batches: how many were evaluated.
        accepted: whether it keeps the bound.
        reason: the decision in words.
    """

    steps: dict[str, float]
    hysteresis: float
    stored_bytes: int
    degradation: float
    standard_error: float | None
    batches: int
    accepted: bool
    reason: str


@dataclass(frozen=True)
class ChosenStep(Report):
    """The step that the weights of a layer type would be committed with.

    Attributes:
        layer_type: its name.
        step: the step.
        parent: the coarsest step of the parent's weights of that type; None where there is none.
        raw_bytes: bytes of the weights.
        stored_bytes: about what their codes would take in a pack.
        relative_error: root of the squared error over the squared values.
    """

    layer_type: str
    step: float
    parent: float | None
    raw_bytes: int
    stored_bytes: int
    relative_error: float


@dataclass(frozen=True)
class TuneReport(Report):
    """What tuning files found.

    Attributes:
        files: their paths in a commit.
        goal: "min" where a lower metric is better, "max" where a higher is.
        bound: the degradation accepted.
        baseline: the metric of the files as they are.
        raw_bytes: bytes of everything in the files.
        weights_bytes: those of the weights whose steps are searched.
        candidates: what was evaluated, in order.
        chosen: steps by layer type; empty where no candidate kept the bound.
        hysteresis: of the chosen steps; None where there are none.
        stored_bytes: what the commit takes, or would take, without its exact layer; None if not known.
        degradation: of what was chosen.
        standard_error: of the degradation.
        evaluations: what it took, the baseline included, in evaluations of the whole sample.
        seconds: how long it took.
        commit: the commit that was made of it.
        doubt: why the evaluation may measure nothing, or be better the other way; None for no doubt.
    """

    files: list[str]
    goal: str
    bound: float
    baseline: float
    raw_bytes: int
    weights_bytes: int
    candidates: list[Candidate]
    chosen: list[ChosenStep]
    hysteresis: float | None
    stored_bytes: int | None
    degradation: float | None
    standard_error: float | None
    evaluations: float
    seconds: float
    commit: CommitInfo | None = None
    doubt: str | None = None


def report_of(
    trial: LatticeTrial, outcome: LatticeOutcome, evaluation: Evaluation, *, seconds: float, doubt: str | None
) -> TuneReport:
    """Return the report of a search.

    Args:
        trial: what was searched.
        outcome: what the search found.
        evaluation: what a commit would record of it.
        seconds: how long all of it took.
        doubt: what makes the evaluation suspicious.
    """
    point = outcome.chosen.point if outcome.chosen else None
    return TuneReport(
        files=[entry.path for entry in trial.captured.files or ()],
        goal=evaluation.goal,
        bound=evaluation.bound,
        baseline=evaluation.baseline,
        raw_bytes=trial.captured.raw_bytes,
        weights_bytes=sum(_raw_bytes(trial, kind) for kind in trial.kinds),
        candidates=_candidates(outcome.tested),
        chosen=_chosen(trial, point) if point else [],
        hysteresis=point.hysteresis if point else None,
        stored_bytes=None,
        degradation=evaluation.degradation,
        standard_error=evaluation.standard_error,
        evaluations=evaluation.evaluations,
        seconds=seconds,
        doubt=doubt,
    )


def _candidates(tested: Sequence[Tested]) -> list[Candidate]:
    return [
        Candidate(
            steps={kind: step_value(step) for kind, step in found.point.steps.items()},
            hysteresis=found.point.hysteresis,
            stored_bytes=round(found.stored),
            degradation=found.verdict.degradation,
            standard_error=found.verdict.standard_error,
            batches=found.verdict.batches,
            accepted=found.verdict.accepted,
            reason=found.verdict.reason,
        )
        for found in tested
    ]


def _chosen(trial: LatticeTrial, point: LatticeChoice) -> list[ChosenStep]:
    tried = {kind: trial.tried(kind, step, point.hysteresis) for kind, step in point.steps.items()}
    parents = {kind: step_value(step) for kind, step in trial.parents.items()}
    return [
        ChosenStep(
            layer_type=kind,
            step=step_value(point.steps[kind]),
            parent=parents.get(kind),
            raw_bytes=_raw_bytes(trial, kind),
            stored_bytes=round(found.stored),
            relative_error=found.errors.relative,
        )
        for kind, found in tried.items()
    ]


def _raw_bytes(trial: LatticeTrial, kind: str) -> int:
    return sum(leaf.raw_bytes for leaf in trial.kinds[kind])
