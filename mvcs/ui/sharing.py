"""What a push or a fetch did."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mvcs.ui.text import Screen, count, printable, size, table

if TYPE_CHECKING:
    from mvcs.reports import FetchReport, PullReport, PushReport, RefUpdate, RemoteInfo


def pushed(report: "PushReport") -> list[str]:
    """Return what a push sent and which names it moved."""
    skipped = f", {count(report.packs_skipped, 'pack')} already there" if report.packs_skipped else ""
    sent = f"sent {count(report.packs_sent, 'pack')}, {size(report.bytes_sent)}{skipped}"
    mended = f"{count(report.packs_mended, 'pack')} missing or damaged over there before"
    follow = [
        f"  {printable(name)} follows {printable(to)} from now on" for name, to in report.upstreams.items()
    ]
    changes = _changes(report.updated, report.packs_mended, mended)
    return [f"To {printable(report.remote)}: {sent}", *changes, *follow]


def remotes(
    found: Mapping[str, str], options: Mapping[str, Mapping[str, object]], screen: Screen
) -> list[str]:
    """Return name, URL and options of each remote."""
    rows = [(printable(name), printable(url), _pairs(options.get(name, {}))) for name, url in found.items()]
    return table(rows, "<<<", screen.endless, styles=("ref",), header=False)


def _pairs(options: Mapping[str, object]) -> str:
    return "  ".join(f"{printable(key)}={printable(str(value))}" for key, value in options.items())


def remote(found: "RemoteInfo", screen: Screen) -> list[str]:
    """Return where a remote lies, its branches, and what follows them."""
    result = [f"{screen.paint(printable(found.name), 'ref')}  {printable(found.url)}"]
    result += [f"  options: {_pairs(found.options)}"] if found.options else []
    result += [f"  a clone stands on: {printable(found.default_branch)}"] if found.default_branch else []
    result.append("  branches there:" if found.branches else "  no branches there")
    rows = [(f"    {printable(one.name)}", one.commit[:12], one.state) for one in found.branches]
    result += table(rows, "~<<", screen, styles=("", "id"), header=False) if rows else []
    pairs = [(f"    {printable(name)}", f"follows {printable(to)}") for name, to in found.followers.items()]
    return [*result, *(["  branches here:", *table(pairs, "~<", screen, header=False)] if pairs else [])]


def pulled(report: "PullReport") -> list[str]:
    """Return what a pull brought before the branch moved: nothing, where a fetch had brought it."""
    found = report.fetch
    if found.updated or found.packs_received or found.packs_mended or report.checkout is None:
        return fetched(found)
    return [f"From {printable(found.remote)}: nothing new since it was fetched"]


def fetched(report: "FetchReport") -> list[str]:
    """Return what a fetch brought and which names it moved."""
    received = f"received {count(report.packs_received, 'pack')}, {size(report.bytes_received)}"
    mended = f"{count(report.packs_mended, 'pack')} missing or damaged here before"
    return [
        f"From {printable(report.remote)}: {received}",
        *_changes(report.updated, report.packs_mended, mended),
        *_set_back(report.updated),
    ]


def _set_back(updated: Sequence["RefUpdate"]) -> list[str]:
    """Say that a branch over there lost commits, which stay here: nobody else may have them."""
    return [
        f"  '{printable(update.name)}' was set back or rewritten over there: "
        f"'mvcs branch NAME {(update.old or '')[:12]}' keeps what it was in sight"
        for update in updated
        if update.forced
    ]


def _changes(updated: Sequence["RefUpdate"], mended: int, text: str) -> list[str]:
    return [f"  mended {text}", *(updates(updated) if updated else [])] if mended else updates(updated)


def updates(updated: Sequence["RefUpdate"]) -> list[str]:
    """Return one line for each name that moved."""
    return [
        f"  {_move(update):<28} {_name(update)}{' (forced update)' if update.forced else ''}"
        for update in updated
    ] or ["  everything up to date"]


def _name(update: "RefUpdate") -> str:
    return f"tag {printable(update.name)}" if update.kind == "tag" else printable(update.name)


def _move(update: "RefUpdate") -> str:
    if update.new is None:
        return f"{(update.old or '')[:12]} deleted"
    if update.old is None:
        return f"{update.new[:12]} new"
    return f"{update.old[:12]}{' + ' if update.forced else ' .. '}{update.new[:12]}"
