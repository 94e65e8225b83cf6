from . import (
    bench,
    change_counts,
    changes,
    checkouts,
    commits,
    compactions,
    details,
    files,
    garbage,
    names,
    objects,
    plans,
    repairs,
    retained,
    sharing,
    stats,
    status,
    tune_report,
    why,
)
from .changes import FILES_LISTED
from .checkouts import cloned
from .log_graph import Graph
from .terminal.progress import LineProgress, NotesOnly, TerminalProgress
from .terminal.screen import Screen, plain
from .terminal.sizes import count, size
from .terminal.text import NAME, printable, table

__all__ = [
    "FILES_LISTED",
    "NAME",
    "Graph",
    "LineProgress",
    "NotesOnly",
    "Screen",
    "TerminalProgress",
    "bench",
    "change_counts",
    "changes",
    "checkouts",
    "cloned",
    "commits",
    "compactions",
    "count",
    "details",
    "files",
    "garbage",
    "names",
    "objects",
    "plain",
    "plans",
    "printable",
    "repairs",
    "retained",
    "sharing",
    "size",
    "stats",
    "status",
    "table",
    "tune_report",
    "why",
]
