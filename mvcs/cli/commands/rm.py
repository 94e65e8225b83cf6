"""`mvcs rm`: leave files out of the next commit."""

from pathlib import Path

import click

from mvcs.cli.declaration import command as declare
from mvcs.cli.options import author_option, files_argument, message_option
from mvcs.cli.session import Session
from mvcs.ui import commits

EXAMPLE = """
mvcs rm old.safetensors -m "superseded"
mvcs rm --cached checkpoint-100 -m "too large to keep"
"""


@declare("rm", "make a commit without some files", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@files_argument
@message_option("Why they leave.", required=True)
@click.option("--cached", is_flag=True, help="Leave them in the folder.")
@click.option("-f", "--force", is_flag=True, help="Remove files whose content is stored nowhere.")
@click.option("-r", "recursive", is_flag=True, hidden=True, expose_value=False)
@author_option
def command(
    session: Session, files: tuple[Path, ...], message: str, cached: bool, force: bool, author: str | None
) -> None:
    """Make a commit without FILEs, files or folders of the last one, and remove them from the folder.

    Earlier commits have them still: 'mvcs restore --source HEAD~1 FILE' brings one back.
    A file whose content is stored nowhere is refused. One that was committed with --as stays where it lies.
    """
    with session.repository() as repository:
        info = repository.remove_files(files, message=message, author=author, cached=cached, force=force)
        for note in info.notes:
            session.tell(note)
        session.answer(info, commits.created(info, repository.branch))
