"""What a checkout or an export did, or what it would read."""

import shlex
from itertools import groupby
from typing import TYPE_CHECKING

from mvcs.ui.commits import oneline
from mvcs.ui.text import Screen, count, printable, seconds, size

NEIGHBOURS, NAMED = 8, 3
_VERSIONS = "_metadata"
_GONE = "its exact layer is not stored here"
_IN_PLACE = "'mvcs checkout HEAD --exact' gives the exact ones"
_NAMED = 10
_BUSY = 1.25  # processes for each processor from which on that is told


if TYPE_CHECKING:
    from mvcs.reports import (
        CheckoutPlan,
        CheckoutReport,
        CommitInfo,
        ExportReport,
        ResetReport,
        RestoreReport,
    )


def checked_out(report: "CheckoutReport", screen: Screen) -> list[str]:
    """Return where HEAD is now and which files came or went."""
    where = f"On branch {printable(report.branch)}" if report.branch else "HEAD is detached"
    where += f", a new one that follows {printable(report.upstream)}" if report.upstream else ""
    head = [oneline(report.commit, [], screen)] if report.commit else ["No commit yet"]
    return [where, *head, *_files(report), *_held(report.parts, report.layer, report.commit)]


def restored(report: "RestoreReport", screen: Screen) -> list[str]:
    """Return which files came back, and from where."""
    short = screen.paint(report.commit.short, "id")
    layer = _layer(report.layer, report.commit, "--exact gives the exact ones")
    return [f"From {short}:", *_files(report), *layer]


def was_reset(report: "ResetReport", screen: Screen) -> list[str]:
    """Return where the branch is now, where it was, and what became of the files."""
    where = f"Branch {printable(report.branch)}" if report.branch else "HEAD, on no branch,"
    result = [f"{where} is now at {oneline(report.commit, [], screen)}"]
    if report.left is not None:
        short = report.left[:12]
        back = f"mvcs reset {'' if report.files is None else '--hard '}{short}"
        result.append(f"  it was at {screen.paint(short, 'id')}: '{back}' goes back")
    if report.files is None:
        left = ["  files were left as they are"] if report.parts is None else []
        return [*result, *left, *_held(report.parts, None, report.commit)]
    return [*result, *_files(report.files), *_held(report.parts, report.files.layer, report.commit)]


def _held(parts: list[str] | None, layer: str | None, commit: "CommitInfo | None") -> list[str]:
    """Return of which values files are now; or that there are none, and how a state becomes one."""
    if parts is None or commit is None:
        return _layer(layer, commit, _IN_PLACE)
    if _is_gone(commit):
        return _state(parts, commit)
    if layer == "exact" and commit.bounded:
        return [*_state(parts, commit, exact=True), "  with its exact values"]
    kept = "--exact writes exact ones" if commit.exact_layer == "kept" else _GONE
    return [*_state(parts, commit), *([f"  as quantized values; {kept}"] if commit.bounded else [])]


def _is_gone(commit: "CommitInfo") -> bool:
    return commit.data_dropped and not commit.data_left


def _state(parts: list[str], commit: "CommitInfo", *, exact: bool = False) -> list[str]:
    from mvcs.restore import ways_to_write

    if _is_gone(commit):
        return ["  its data were dropped: it is looked at, and not restored"]
    goes_on = commit.run is not None and not commit.weights_only
    return [
        f"  it holds a state, and no files{': resume() continues from it' if goes_on else ''}",
        f"  {printable(ways_to_write(parts, 'HEAD', exact=exact))}",
    ]


def _files(report: "CheckoutReport | RestoreReport") -> list[str]:
    """Return which files came, went and stayed."""
    found = [f"  wrote    {printable(path)}" for path in report.written]
    found += [f"  removed  {printable(path)}" for path in getattr(report, "removed", ())]
    return found + ([f"  {count(len(report.unchanged), 'file')} unchanged"] if report.unchanged else [])


def exported(report: "ExportReport", screen: Screen) -> list[str]:
    """Return what was written where, and in which format."""
    short, target = screen.paint(report.commit.short, "id"), printable(report.target)
    where = f"the folder {target}" if report.format == "folder" else f"{target} ({report.format})"
    files = [count(report.files, "file")] if report.format == "folder" else []
    what = ", ".join([*files, count(report.tensors, "tensor"), size(report.bytes)])
    layer = _layer(report.layer, report.commit, "--exact gives the exact ones")
    return [f"Wrote {short} to {where}: {what}", *layer]


def left_out(report: "ExportReport") -> str | None:
    """Return in one line what a format cannot hold as it was: how many values, and the first of them.

    The versions of modules that torch keeps beside every state dict are not told: a model loads without them.
    """
    lost = [path for path in report.left_out if path.rpartition(".")[2] != _VERSIONS]
    if not lost:
        return None
    runs: list[tuple[str, int]] = []
    for parent, run in groupby(lost, lambda path: path.rpartition(".")[0]):
        found = list(run)
        many = len(found) > NEIGHBOURS
        runs += [(f"{parent}.*", len(found))] if many else [(path, 1) for path in found]
    rest = len(lost) - sum(size for _, size in runs[:NAMED])
    named = ", ".join(
        f"{printable(path)} ({size:,})" if size > 1 else printable(path) or "the value itself"
        for path, size in runs[:NAMED]
    )
    more = f" and {rest:,} more, which --json names" if rest else ""
    values = count(len(lost), "value")
    return f"left out or changed, since {report.format} cannot hold them as they are: {values}, {named}{more}"


def cloned(
    top: str, origin: str | None, head: "CommitInfo | None", parts: list[str] | None, screen: Screen
) -> list[str]:
    """Return where a clone is and what its files hold.

    Args:
        top: its folder.
        origin: the address that it was cloned from, where the exact layer is kept; None where it is not.
        head: the commit it stands on.
        parts: names at the top of the state that this holds; None for files.
        screen: what it is for.
    """
    first = [f"Cloned into {printable(top)}"]
    if head is None:
        return [*first, "It has no commits yet"]
    lines = [*first, oneline(head, [], screen), *([] if parts is None else _state(parts, head))]
    if head.exactness == "exact":
        return lines
    held = "Its files hold" if parts is None else "It has"
    lines.append(f"{held} the quantized values of a bounded commit; exact layers are not cloned.")
    if origin is None:
        return [*lines, "There are none over there: 'mvcs push --exact' sends them."]
    command = f"mvcs -C {shlex.quote(origin)} checkout {head.short} -o PATH --exact"
    return [*lines, f"While they are kept over there: {printable(command)}"]


def _layer(layer: str | None, commit: "CommitInfo | None", advice: str) -> list[str]:
    if layer is None or commit is None or commit.exactness == "exact":
        return []
    if layer == "exact":
        return ["These are the exact values."]
    kept = advice if commit.exact_layer == "kept" else _GONE
    return [f"These are the quantized values of a bounded commit; {kept}."]


def planned(plan: "CheckoutPlan", screen: Screen, load: float = 0.0) -> list[str]:
    """Return what would come, what is read for it, and the time.

    Args:
        plan: what was found.
        screen: what it is for.
        load: how many processes want each processor.
    """
    where = "" if plan.target is None else f" to {printable(plan.target)}"
    layer = ", exact values" if plan.layer == "exact" and plan.commit.bounded else ""
    reads = f"{size(plan.read_bytes)} in {count(plan.requests, 'request')}"
    deep = f"{count(plan.entries, 'entry', 'entries')} decoded, up to {count(plan.depth, 'delta')} deep"
    return [
        f"{screen.paint(plan.commit.short, 'id')}{where}: {size(plan.raw_bytes)}{layer}",
        f"  reads {reads}; {deep}",
        *_time(plan, load),
        *_listed("would write", plan.written),
        *([f"  {count(len(plan.unchanged), 'file')} unchanged"] if plan.unchanged else []),
        *_checked(plan),
    ]


def _time(plan: "CheckoutPlan", load: float) -> list[str]:
    """Say how long it takes; that is time of the processor, of which others may have most."""
    if plan.seconds is None or plan.measured is None:
        return []
    time = f"about {seconds(plan.seconds)} here, as measured on {plan.measured:%Y-%m-%d}"
    written = "" if plan.target is None and not plan.written else "; writing files is not counted"
    busy = (
        []
        if load < _BUSY
        else [
            f"  {load:.1f} processes want each processor now: by the clock it takes about so many times that"
        ]
    )
    return [f"  {time}{written}", *busy]


def _checked(plan: "CheckoutPlan") -> list[str]:
    if not plan.checked_bytes:
        return []
    return [f"  of that, {size(plan.checked_bytes)} to see that the files which go are stored"]


def _listed(what: str, paths: list[str]) -> list[str]:
    rest = len(paths) - _NAMED
    return [f"  {what} {printable(path)}" for path in paths[:_NAMED]] + (
        [f"  {what} {rest} more"] if rest > 0 else []
    )
