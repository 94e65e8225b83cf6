"""What was measured of states that are restored: candidates of a search, and resume probes, as tables."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mvcs.ui.commits import created
from mvcs.ui.text import Screen, count, number, printable, ratio, share, size, table

if TYPE_CHECKING:
    from mvcs.reports import CommitInfo
    from mvcs.train import Candidate, ChosenStep, TuneReport

Costs = tuple[float, float, float | None]


def tuned(report: "TuneReport", branch: str | None, screen: Screen) -> list[str]:
    """Return the candidates of a search in order, what was chosen, and what became of it.

    Args:
        report: what was found.
        branch: where a commit went.
        screen: what it is for.
    """
    names = ", ".join(printable(name) for name in report.files)
    better = "lower" if report.goal == "min" else "higher"
    head = (
        f"{names}: {number(report.baseline)} as it is ({better} is better),"
        f" {report.bound:.3%} worse is accepted"
    )
    blocks = [_candidates(report, screen), _chosen(report.chosen, screen), _outcome(report, branch)]
    return [head, *(line for block in blocks if block for line in ("", *block))]


def _candidates(report: "TuneReport", screen: Screen) -> list[str]:
    names = list(report.candidates[0].setting) if report.candidates else []
    rows = [
        ("candidate", "weights", "ratio", *(names or ["hysteresis"]), "degradation", "batches", "accepted")
    ]
    rows += [
        (
            str(index),
            size(found.stored_bytes),
            ratio(report.weights_bytes, found.stored_bytes),
            *([_value(found.setting[name]) for name in names] or [number(found.hysteresis)]),
            _measured(found),
            str(found.batches),
            "yes" if found.accepted else _refused(found, report.bound),
        )
        for index, found in enumerate(report.candidates, 1)
    ]
    return table(rows, "<" + ">" * (len(rows[0]) - 2) + "<", screen) if report.candidates else []


def _chosen(steps: "Sequence[ChosenStep]", screen: Screen) -> list[str]:
    rows = [("layer type", "step", "parent's", "rms error", "weights", "stored", "ratio")]
    rows += [
        (
            printable(found.layer_type),
            number(found.step),
            "-" if found.parent is None else number(found.parent),
            share(found.relative_error),
            size(found.raw_bytes),
            size(found.stored_bytes),
            ratio(found.raw_bytes, found.stored_bytes),
        )
        for found in steps
    ]
    return table(rows, "~>>>>>>", screen, optional=(2, 4)) if steps else []


def _outcome(report: "TuneReport", branch: str | None) -> list[str]:
    spent = f"{report.evaluations:.1f} evaluations of the whole sample, {report.seconds:.1f} s"
    commit = [] if report.commit is None else created(report.commit, branch)
    if report.degradation is None:
        why = "No candidate keeps the bound" if report.candidates else "Nothing was tried"
        return [f"{why}: {spent}", *commit]
    setting = ", ".join(f"{name} {_value(value)}" for name, value in report.setting.items())
    chosen = f"Chosen with {spent}" + (f": {setting}" if setting else "")
    return [chosen, *(commit or _uncommitted(report))]


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)


def _uncommitted(report: "TuneReport") -> list[str]:
    raw, stored = report.raw_bytes, report.stored_bytes or 0
    amounts = f"{size(stored)} of {size(raw)} ({ratio(raw, stored)})"
    return [f"A commit would take {amounts}; --commit -m MESSAGE makes it"]


def _refused(found: "Candidate", bound: float) -> str:
    """Say why: the estimate, two of its standard errors, and the bound that their sum passes.

    Where it does not, the two take too much of the bound for a verdict.
    """
    if not math.isfinite(found.degradation):
        return "no"
    doubt = 2 * (found.standard_error or 0.0)
    estimate = f"{found.degradation:+.3%}" + (
        f" + {doubt:.3%} = {found.degradation + doubt:+.3%}" if doubt else ""
    )
    is_above = found.degradation + doubt > bound
    return f"no: {estimate}" + (
        f", above {bound:.3%}" if is_above else f" is too noisy to tell of {bound:.3%}"
    )


def _measured(found: "Candidate") -> str:
    if not math.isfinite(found.degradation):
        return "not finite"
    error = "" if found.standard_error is None else f" ± {found.standard_error:.3%}"
    return f"{found.degradation:+.3%}{error}"


def resumed(commit: "CommitInfo", steps: int, probes: Mapping[str, Costs], screen: Screen) -> list[str]:
    """Return what training on from a commit costs.

    Args:
        commit: the commit.
        steps: how many steps were trained.
        probes: by what was restored: excess of the loss over all steps and over their second half, in %, and
            steps lost, or None.
        screen: what it is for.
    """
    step = "" if commit.step is None else f", step {commit.step}"
    head = f"Trained {count(steps, 'step')} on from commit {commit.short}{step}, exactly and as restored"
    rows = [("restored", "excess", "second half", "steps lost")]
    rows += [
        (printable(name), _percent(whole), _percent(late), "-" if lost is None else f"{lost:+.1f}")
        for name, (whole, late, lost) in probes.items()
    ]
    return [head, *table(rows, "<>>>", screen)]


def _percent(value: float) -> str:
    return f"{value:+.3f}%" if math.isfinite(value) else "not finite"
