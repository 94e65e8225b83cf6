from . import (
    bench,
    bench_page,
    changes,
    checkouts,
    checks,
    commits,
    details,
    maintenance,
    names,
    sharing,
    stats,
    status,
    tune_report,
)
from .changes import FILES_LISTED
from .checkouts import cloned
from .log_graph import Graph
from .progress import LineProgress, NotesOnly, TerminalProgress
from .text import NAME, Screen, count, plain, printable, size, table

__all__ = [
    "FILES_LISTED",
    "NAME",
    "Graph",
    "LineProgress",
    "NotesOnly",
    "Screen",
    "TerminalProgress",
    "bench",
    "bench_page",
    "changes",
    "checkouts",
    "checks",
    "cloned",
    "commits",
    "count",
    "details",
    "maintenance",
    "names",
    "plain",
    "printable",
    "sharing",
    "size",
    "stats",
    "status",
    "table",
    "tune_report",
]
