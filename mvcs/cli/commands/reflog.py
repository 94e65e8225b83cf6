"""`mvcs reflog`: every place a branch has been."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.ui import names

EXAMPLE = """
mvcs reflog
mvcs reflog HEAD
mvcs reflog main --json
"""


@declare("reflog", "every place a branch or HEAD has been", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("name", required=False, shell_complete=completers.branch)
def command(session: Session, name: str | None) -> None:
    """List where branch NAME (default: the current one) has been, newest first.

    NAME@{2} names where it was two changes ago, in every command that takes a revision.

    HEAD has been on branches and on commits without one; this clone alone remembers that.
    """
    with session.repository() as repository:
        found = repository.reflog(name)
        session.answer(
            found, names.reflog(found, name or repository.branch or "HEAD", session.screen), paged=True
        )
