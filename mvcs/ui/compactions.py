"""What a compaction did, as lines."""

from typing import TYPE_CHECKING

from mvcs.ui.terminal.sizes import count, size
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.reports import CompactReport


def compacted(report: "CompactReport") -> list[str]:
    """Return what was stored anew, what that saves, and what to do next."""
    if not report.chosen:
        return [
            "nothing to do: no commit is meant; A..B is what is behind B and not behind A, the older first"
        ]
    if not report.ended:
        return [f"nothing to do: {count(report.chosen, 'commit')} looked at", *map(printable, report.notes)]
    verb = "stored anew" if report.executed else "would store anew"
    share = report.after / report.before if report.before else 1.0
    what = f"{count(report.encoded, 'chunk')} of {count(report.chosen, 'commit')}"
    lines = [
        f"{verb} {what}: {count(report.packs, 'pack')}, {size(report.bytes)}",
        f"value layers need {size(report.after)} instead of {size(report.before)} ({share:.1%})",
    ]
    if report.after > report.before:
        lines.append(
            "that is more: shorter chains take more bytes, and in a short history those of an archive do too"
        )
    if report.executed:
        lines.append(f"{count(len(report.refs), 'name')} moved: {', '.join(map(printable, report.refs))}")
        lines.append("'mvcs gc' shows, and deletes, what nothing needs any more")
    return [*lines, *map(printable, report.notes)]
