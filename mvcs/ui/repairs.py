"""What a repair mended, and what is lost."""

from typing import TYPE_CHECKING

from mvcs.errors import some_of
from mvcs.ui.problems import problem_lines
from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.sizes import count, size
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.reports import Loss, Mended, NewestWhole, RepairReport

NAMED = 4  # tensors of one commit
LOSSES = 12  # lines
_LAYERS = {"value": "", "exact": "exact values of "}


def repaired(report: "RepairReport", screen: Screen, *, verbose: bool = False) -> list[str]:
    """Return what was mended, what is still wrong, what that costs, and what to do next.

    With `verbose`, all commits that restore are listed.
    """
    lines = [printable(note) for note in report.notes]
    lines += [_mended(one, executed=report.executed) for one in report.mended]
    if report.aside:
        lines.append(f"what lay there is kept below .mvcs/damaged: {count(len(report.aside), 'file')}")
    lines += problem_lines(report.problems, screen)
    lines += [screen.paint(_loss(loss), "bad") for loss in report.losses[:LOSSES]]
    if len(report.losses) > LOSSES:
        lines.append(f"and {count(len(report.losses) - LOSSES, 'loss', 'losses')} more, which --json names")
    lines += map(_newest, report.newest)
    if verbose:
        lines += [f"restores whole: {commit[:12]}" for commit in report.whole]
    elif report.losses and report.whole:
        lines.append("'mvcs repair --dry-run -v' lists all commits that restore")
    return [*lines, _verdict(report, screen)]


def _newest(one: "NewestWhole") -> str:
    branch = printable(one.branch)
    if one.commit is None:
        return f"of branch {branch} no commit restores"
    step = "" if one.step is None else f" step {one.step}"
    message = f" '{printable(one.message)}'" if one.message else ""
    rounded = "" if one.exact else ", its values alone: exact ones are lost"
    return f"newest of branch {branch} that restores: {one.commit[:12]}{step}{message}{rounded}"


def _mended(one: "Mended", *, executed: bool) -> str:
    verb = "mended" if executed else "would mend"
    rest = "" if one.whole else "; it is not as it was, and what was whole of it can be read again"
    return f"{verb} {printable(one.path)} ({size(one.bytes)}): {printable(one.how)}{rest}"


def _loss(loss: "Loss") -> str:
    message = f" '{printable(loss.message)}'" if loss.message else ""
    commit = f"lost of {loss.commit[:12]}{message}: {_LAYERS.get(loss.layer, '')}"
    if loss.count is None:
        return f"{commit}everything: what it holds cannot be read"
    named = some_of([printable(name) for name in loss.tensors], NAMED)
    return f"{commit}{count(loss.count, 'tensor')}, {named}"


def _verdict(report: "RepairReport", screen: Screen) -> str:
    lossy = len({loss.commit for loss in report.losses})
    whole = report.commits - lossy
    verb = "mended" if report.executed else "would be mended"
    done = f"{count(len(report.mended), 'file')} {verb}"
    restore = f"{whole} of {count(report.commits, 'commit')} {'restores' if whole == 1 else 'restore'} whole"
    left = "" if report.ok else f"{count(len(report.problems), 'problem')} left, "
    verdict = screen.paint("ok", "good") if report.ok else screen.paint("damaged", "bad")
    return f"{verdict}: {done}, {left}{restore}"
