"""`mvcs gc`: delete what nothing needs."""

import click

from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.config import GRACE_DAYS
from mvcs.ui import garbage

EXAMPLE = """
mvcs gc
mvcs gc --execute
mvcs gc --grace 30 --json
"""


@declare("gc", "delete what nothing needs", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.option("--execute", is_flag=True, help="Delete it. Without this the plan is shown.")
@click.option(
    "--grace",
    type=float,
    default=GRACE_DAYS,
    show_default=True,
    metavar="DAYS",
    help="Keep packs younger than this: a writer elsewhere may be about to name them.",
)
def command(session: Session, execute: bool, grace: float) -> None:
    """Show the packs of this store that no commit needs, or delete them.

    A commit counts as long as a branch, a tag or the reflog of one leads to it, or HEAD stands on it.
    What HEAD left on no branch counts for the grace only: 'mvcs branch NAME ID' keeps it for good.
    What killed commands of this clone left needs no gc: the next commit, checkout, export, push or
    pull removes it. Two things wait: in a store across a network what was about to be named, for 15
    minutes; and what nobody here can tell of, for two weeks: another machine left it, or an earlier
    boot of this one on a network disk.
    Delete while nobody pushes to the store; of other clones' detached HEADs it knows nothing.
    """
    with session.repository() as repository:
        report = repository.gc(grace_days=grace, execute=execute)
        session.answer(report, garbage.collected(report))
