"""`mvcs repair`: make good what is damaged."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import CORRUPTION
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.ui import checks

EXAMPLE = """
mvcs repair --dry-run
mvcs repair
mvcs repair --from backup --json
"""


@declare("repair", "make good what is damaged", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.option("--dry-run", is_flag=True, help="Say what would be mended and what is lost; change nothing.")
@click.option(
    "--from",
    "source",
    metavar="REMOTE",
    shell_complete=completers.remote,
    help="Copy from this remote alone. Without this from all of them.",
)
@click.option(
    "--give-up", is_flag=True, help="Record that what is lost is given up, so that the rest goes on without."
)
@click.option("-v", "--verbose", is_flag=True, help="List every commit that restores whole.")
def command(session: Session, dry_run: bool, source: str | None, give_up: bool, verbose: bool) -> None:
    """Mend what the last fsck found, or look first where it found nothing.

    Good copies come from remotes, with exact layers if these were pushed. What no remote has is made again
    from what is left, where a hash proves it. What lay in the place of that is kept below .mvcs/damaged.
    At the end it says which tensors of which commits are lost, and which commit of each branch is the newest
    that restores. Exit code 5 when something is wrong still. While data are lost, 'mvcs gc', 'mvcs compact',
    'mvcs push' and 'mvcs clone' refuse: with --give-up the commits stay in the history without their data.
    """
    from mvcs.local import describe_damaged

    if not dry_run and describe_damaged(session.where, session.trust):
        session.tell("'mvcs.json' was damaged or missing, and was written again")
    with session.repository() as repository:
        report = repository.repair(source=source, execute=not dry_run, give_up=give_up)
        lines = checks.repaired(report, session.screen, verbose=verbose, give_up=give_up)
        session.answer(report, lines)
    if not report.ok:
        click.get_current_context().exit(CORRUPTION)
