"""`mvcs mv`: make a commit with files under other names."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import author_option, message_option
from mvcs.cli.session import Session
from mvcs.ui import commits

EXAMPLE = """
mvcs mv model.safetensors base.safetensors -m "named for what it is"
mvcs mv step_1000 step_2000 runs/ -m "one place for all"
"""


@declare("mv", "make a commit with files under other names", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("sources", nargs=-1, required=True, metavar="FILE...", shell_complete=completers.files)
@click.argument("target", type=click.Path())
@message_option("Why they move.", required=True)
@click.option("-f", "--force", is_flag=True, help="Take the place of what has the new name.")
@author_option
def command(
    session: Session, sources: tuple[str, ...], target: str, message: str, force: bool, author: str | None
) -> None:
    """Make a commit in which FILEs, files or folders of the last one, are called TARGET or lie in it.

    In the folder they move as well. Nothing is stored again, and earlier commits call them as before.
    """
    with session.repository() as repository:
        info = repository.move_files(sources, target, message=message, author=author, force=force)
        for note in info.notes:
            session.tell(note)
        session.answer(info, commits.created(info, repository.branch))
