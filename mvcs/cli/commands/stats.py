"""`mvcs stats`: where the bytes of a store are."""

import click

from mvcs.cli.declaration import command as declare
from mvcs.cli.options import Finite
from mvcs.cli.session import Session
from mvcs.ui import stats

EXAMPLE = """
mvcs stats
mvcs stats --price 0.023
mvcs stats --plan
mvcs stats --json
"""


@declare("stats", "where the bytes of the store are", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.option(
    "--price",
    type=Finite(),
    metavar="PER_GB_MONTH",
    help="Say what a month costs, at this price of a GB (10^9 bytes).",
)
@click.option(
    "--plan",
    is_flag=True,
    help="Also try what retention and compaction would give back; takes as long as they do.",
)
def command(session: Session, price: float | None, *, plan: bool) -> None:
    """Show what the commits of all branches and tags take: by class of leaves, by encoding, by branch.

    How deep commits are and what restores read is drawn as histograms, and the ten commits are named that
    take most, and that cost most to restore. "stored" is what lies in the store today. "sharing" is what
    commits hold that an earlier one, or another tensor, has stored already.
    Footers and trees are read, and with --plan values; nothing is changed.
    """
    with session.repository() as repository:
        found = repository.stats(price=price, plan=plan)
        session.answer(found, stats.lines(found, session.screen), paged=True)
