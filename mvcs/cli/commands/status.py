"""`mvcs status`: where the working folder stands."""

import click

from mvcs.cli.declaration import command as declare
from mvcs.cli.exits import CORRUPTION
from mvcs.cli.session import Session
from mvcs.ui import status


@declare("status", "where the working folder stands", example="mvcs status", exits=(3, 5, 6, 7))
def command(session: Session) -> None:
    """Show the branch, its commit, files that differ from it, and what went wrong lately.

    Files that 'mvcs commit .' would add are listed too, and names that it refuses; not what .mvcsignore
    leaves out.

    Where HEAD's commit is damaged, the rest is shown all the same, with what to do; the exit code is 5.

    Files whose size, times and inode are as recorded are not read again.
    """
    with session.repository() as repository:
        found = repository.status()
        session.answer(found, status.lines(found, session.screen))
    if found.damaged:
        click.get_current_context().exit(CORRUPTION)
