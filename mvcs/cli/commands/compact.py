"""`mvcs compact`: store commits anew, with shorter chains or in fewer bytes."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.ui import compactions

EXAMPLE = """
mvcs compact --max-depth 8 --dry-run
mvcs compact --max-depth 8
mvcs compact --budget 2s
mvcs compact main~100 --for-archive
mvcs compact v1..v2 --max-ratio 4 --json
"""


@declare("compact", "store commits anew", example=EXAMPLE, exits=(1, 3, 4, 5, 6, 7))
@click.argument("commits", required=False, metavar="[RANGE]", shell_complete=completers.revision)
@click.option(
    "--max-depth",
    type=click.IntRange(0, 1000),
    metavar="N",
    help="Deltas between a chunk and its snapshot (default: compaction.max_depth; 1000 for archives).",
)
@click.option(
    "--max-ratio",
    type=click.FloatRange(1),
    metavar="R",
    help="Bytes that a restore reads over those of snapshots (default: compaction.max_restore_ratio).",
)
@click.option(
    "--budget",
    metavar="LIMITS",
    help="Seconds a GB that a restore is estimated to take, such as 2s; or the limits above: 8, 4x, 8,2s.",
)
@click.option(
    "--for-archive",
    is_flag=True,
    help="As few bytes as possible: the newest commit is stored alone, and older ones near it.",
)
@click.option("--dry-run", is_flag=True, help="Do the work in a temporary folder, tell, and keep nothing.")
def command(
    session: Session,
    commits: str | None,
    max_depth: int | None,
    max_ratio: float | None,
    budget: str | None,
    for_archive: bool,
    dry_run: bool,
) -> None:
    """Store the commits of RANGE (default: all) anew, so that restoring them costs less, or they take less.

    RANGE is a revision, which means it and all behind it, or A..B. No id changes, and every commit restores
    what it did. What is encoded anew is decoded and compared before a branch or tag leads to it.
    Others may commit meanwhile. When it is broken off, run it again: it goes on behind what was verified.
    Old packs stay until 'mvcs gc' finds that nothing needs them. Exact layers are left alone.
    Older versions of mvcs can read the store afterwards, but no longer write to it.
    """
    with session.repository() as repository:
        report = repository.compact(
            commits,
            max_depth=max_depth,
            max_ratio=max_ratio,
            budget=budget,
            for_archive=for_archive,
            dry_run=dry_run,
        )
        session.answer(report, compactions.compacted(report))
