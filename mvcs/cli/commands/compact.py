"""`mvcs compact`: store commits again, with shorter chains or in fewer bytes."""

import os
import signal

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import Finite, Whole
from mvcs.cli.session import Session
from mvcs.errors import UsageError
from mvcs.ui import maintenance

_LOWEST = 19
EXAMPLE = """
mvcs compact --max-depth 8 --dry-run
mvcs compact --max-depth 8
mvcs compact --budget 2s
mvcs compact main~100 --for-archive
mvcs compact v1..v2 --max-cost 4 --json
mvcs compact --share 0.01 --beside 4711
"""


@declare("compact", "rewrite commits", example=EXAMPLE, exits=(1, 3, 4, 5, 6, 7))
@click.argument("commits", required=False, metavar="[RANGE]", shell_complete=completers.revision)
@click.option(
    "--max-depth",
    type=Whole(0, 1000),
    metavar="N",
    help="Deltas between a chunk and its snapshot (default: compaction.max_depth; 1000 for archives).",
)
@click.option(
    "--max-cost",
    type=Finite(1),
    metavar="R",
    help="How many times the cost of a snapshot a restore may cost (default: restore.max_cost).",
)
@click.option(
    "--budget",
    metavar="LIMITS",
    help="Seconds a GB that a restore is estimated to take, such as 2s; or the cost, as 4x; or 4x,2s.",
)
@click.option(
    "--for-archive",
    is_flag=True,
    help="As few bytes as possible: the newest commit is stored alone, and older ones near it.",
)
@click.option(
    "--share",
    type=Finite(0, 1, min_open=True),
    metavar="S",
    help="Rest in between, to take this share of one processor, such as 0.01, at the lowest priority.",
)
@click.option(
    "--beside",
    type=Whole(1),
    metavar="PID",
    help="With --share: end when this process does.",
)
@click.option("--dry-run", is_flag=True, help="Do the work in a temporary folder, tell, and keep nothing.")
def command(
    session: Session,
    commits: str | None,
    max_depth: int | None,
    max_cost: float | None,
    budget: str | None,
    for_archive: bool,
    share: float | None,
    beside: int | None,
    dry_run: bool,
) -> None:
    """Rewrite the commits of RANGE (default: all), so that restoring them costs less, or they take less.

    RANGE is a revision, which means it and all behind it, or A..B. No id changes, and every commit restores
    what it did. What is encoded again is decoded and compared before any commit is read from it.
    Where much of a pack that an amended commit left is unused, commits no longer depend on it.
    Others may commit meanwhile. When it is broken off, run it again: it continues behind what was verified.
    Old packs stay until 'mvcs gc' finds that nothing needs them. Exact layers are left alone.
    """
    if beside is not None and share is None:
        raise UsageError("--beside goes with --share alone", hint="add --share 0.01")
    if share is not None and not dry_run:
        _stand_back()
    with session.repository() as repository:
        report = repository.compact(
            commits,
            max_depth=max_depth,
            max_cost=max_cost,
            budget=budget,
            for_archive=for_archive,
            share=share,
            beside=beside,
            dry_run=dry_run,
        )
        session.answer(report, maintenance.compacted(report, session.screen))


def _stand_back() -> None:
    """Leave the processor to whoever wants it, and end as after Ctrl-C where the process is told to."""
    os.nice(_LOWEST)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
