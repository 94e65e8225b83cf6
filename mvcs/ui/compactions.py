"""What a compaction did, as lines."""

from typing import TYPE_CHECKING

from mvcs.ui.garbage import stages
from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.sizes import count, size
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.reports import CompactReport


def compacted(report: "CompactReport", screen: Screen) -> list[str]:
    """Return what was stored anew, what that saves, and what to do next."""
    if not report.chosen:
        return [
            "nothing to do: no commit is meant; A..B is what is behind B and not behind A, the older first"
        ]
    if not report.ended:
        return [f"nothing to do: {count(report.chosen, 'commit')} looked at", *map(printable, report.notes)]
    verb = "rewritten" if report.executed else "would rewrite"
    what = f"{count(report.encoded, 'chunk')} of {count(report.chosen, 'commit')}"
    lines = [f"{verb} {what}: {count(report.packs, 'pack')}, {size(report.bytes)}", *stages(report, screen)]
    if report.after > report.before:
        lines.append(
            "that is more: shorter chains take more bytes, and so does an archive of a short history"
        )
    if report.executed:
        lines.append(f"{count(len(report.refs), 'name')} moved: {', '.join(map(printable, report.refs))}")
    return [*lines, *map(printable, report.notes)]
