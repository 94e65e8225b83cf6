"""What a checkout, an export or a check did."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from mvcs.ui.commits import oneline
from mvcs.ui.screen import Screen
from mvcs.ui.sizes import count, size
from mvcs.ui.text import printable

if TYPE_CHECKING:
    from mvcs.repository.fsck_report import FsckReport, LookReport
    from mvcs.repository.reports import CheckoutReport, CommitInfo, ExportReport

NEIGHBOURS = 8


def checked_out(report: "CheckoutReport", screen: Screen) -> list[str]:
    """Return where HEAD is now and which files came or went."""
    where = f"On branch {printable(report.branch)}" if report.branch else "HEAD is detached"
    head = [oneline(report.commit, [], screen)] if report.commit else ["No commit yet"]
    files = [f"  wrote    {printable(path)}" for path in report.written]
    files += [f"  removed  {printable(path)}" for path in report.removed]
    files += [f"  {count(len(report.unchanged), 'file')} unchanged"] if report.unchanged else []
    return [where, *head, *files, *_layer(report.layer, report.commit)]


def exported(report: "ExportReport", screen: Screen) -> list[str]:
    """Return what was written where."""
    what = f"{count(report.tensors, 'tensor')}, {size(report.bytes)}"
    short = screen.paint(report.commit.short, "id")
    return [f"Wrote {short} to {printable(str(report.target))}: {what}", *_layer(report.layer, report.commit)]


def left_out(paths: Sequence[str]) -> list[str]:
    """Return what a format could not hold; a long run of neighbours, as in an RNG state, in one line."""
    result = []
    for parent, run in groupby(paths, lambda path: path.rpartition(".")[0]):
        found = list(run)
        result += [f"{parent}.* ({count(len(found), 'value')})"] if len(found) > NEIGHBOURS else found
    return result


def _layer(layer: str | None, commit: "CommitInfo | None") -> list[str]:
    if layer is None or commit is None or commit.exactness == "exact":
        return []
    if layer == "exact":
        return ["These are the exact values."]
    kept = "--exact gives the exact ones" if commit.exact_layer == "kept" else "its exact layer was dropped"
    return [f"These are the quantized values of a bounded commit; {kept}."]


def _looked(look: "LookReport") -> str:
    packs = f"{count(look.packs, 'pack')} in '{look.folder}' ({size(look.bytes)})"
    if look.since is None:
        return f"{packs}: never looked at by this clone until now"
    return f"{packs}: not looked at by this clone since {look.since:%Y-%m-%d %H:%M} UTC, until now"


def checked(report: "FsckReport", screen: Screen) -> list[str]:
    """Return what a check found, problem by problem."""
    result = [printable(note) for note in report.notes]
    result += [_looked(look) for look in report.looks]
    for problem in report.problems:
        line = f"{problem.kind}: {printable(problem.subject)}: {printable(problem.message)}"
        result.append(screen.paint(line, "bad"))
        if problem.hint:
            result.append(f"  hint: {printable(problem.hint)}")
    verdict = (
        screen.paint("ok", "good")
        if report.ok
        else screen.paint(count(len(report.problems), "problem"), "bad")
    )
    return [*result, f"{verdict}: {count(report.objects, 'object')}, {size(report.bytes)} checked"]
