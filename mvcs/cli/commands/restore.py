"""`mvcs restore`: bring files back as a commit has them."""

from pathlib import Path

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import exact_option, files_argument, force_option, max_bytes_option
from mvcs.cli.session import Session
from mvcs.ui import checkouts

EXAMPLE = """
mvcs restore model.safetensors
mvcs restore --source main~2 model.safetensors
mvcs restore .
"""


@declare("restore", "bring files back as a commit has them", example=EXAMPLE, exits=(1, 3, 4, 5, 6, 7))
@files_argument
@click.option(
    "-s",
    "--source",
    "rev",
    metavar="REV",
    shell_complete=completers.revision,
    default="HEAD",
    help="The commit (default: HEAD).",
)
@exact_option
@force_option
@max_bytes_option
@click.option("-W", "--worktree", is_flag=True, hidden=True, expose_value=False)
def command(session: Session, files: tuple[Path, ...], rev: str, exact: bool, force: bool) -> None:
    """Bring FILEs, files or folders, back as a commit has them; HEAD and all other files stay.

    A file whose content is stored nowhere is refused.
    """
    with session.repository() as repository:
        report = repository.restore_files(files, rev=rev, exact=exact, force=force)
        session.answer(report, checkouts.restored(report, session.screen))
