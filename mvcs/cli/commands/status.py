"""`mvcs status`: where the working folder stands."""

import click

from mvcs.cli.declaration import CORRUPTION
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.ui import status

EXAMPLE = """
mvcs status
mvcs status -sb
"""


@declare("status", "where the working folder stands", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.option("-s", "--short", "--porcelain", is_flag=True, help="A line a file, as ' M', ' D' or '??' FILE.")
@click.option("-b", "--branch", is_flag=True, help="With -s: the branch first, and what it follows.")
def command(session: Session, short: bool, branch: bool) -> None:
    """Show the branch, its commit, files that differ from it, and what went wrong lately.

    Files that 'mvcs commit .' would add are listed too, and names that it refuses; not what .mvcsignore
    leaves out.

    Where HEAD's commit is damaged, the rest is shown all the same, with what to do; the exit code is 5.

    Files whose size, times and inode are as recorded are not read again.
    """
    with session.repository() as repository:
        found = repository.status()
        lines = status.short(found, branch=branch) if short else status.lines(found, session.screen)
        session.answer(found, lines)
    if found.damaged:
        click.get_current_context().exit(CORRUPTION)
