"""`mvcs fsck`: read everything again."""

import click

from mvcs.cli.declaration import command as declare
from mvcs.cli.exits import CORRUPTION
from mvcs.cli.session import Session
from mvcs.ui import checkouts

EXAMPLE = """
mvcs fsck
mvcs fsck --quick --json
"""


@declare("fsck", "read everything again", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.option(
    "--quick", is_flag=True, help="Check that everything is there and reachable, without hashing contents."
)
def command(session: Session, quick: bool) -> None:
    """Check the whole store: every byte hashed again, every name leading somewhere.

    Of a pack whose footer is damaged it says what is whole. Exit code 5 when something is wrong; nothing is
    changed.
    """
    with session.repository() as repository:
        report = repository.fsck(full=not quick)
        session.answer(report, checkouts.checked(report, session.screen))
    if not report.ok:
        click.get_current_context().exit(CORRUPTION)
