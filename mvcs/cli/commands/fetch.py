"""`mvcs fetch`: get commits from another store."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.session import Session
from mvcs.ui.sharing import fetched

EXAMPLE = """
mvcs fetch
mvcs log lab/main
"""


@declare("fetch", "get commits from another store", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("name", default="origin")
def command(session: Session, name: str) -> None:
    """Bring what the remote NAME (default: origin) has; its branches appear as NAME/BRANCH.

    No branch of yours moves.
    """
    with session.repository() as repository:
        report = repository.fetch(name)
        session.answer(report, fetched(report))
