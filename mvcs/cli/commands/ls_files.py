"""`mvcs ls-files`: the files of the last commit."""

import os
from pathlib import Path

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.ui import printable

EXAMPLE = """
mvcs ls-files
mvcs ls-files --others
mvcs ls-files run --json
"""


@declare("ls-files", "the files of the last commit", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=completers.files)
@click.option("-m", "--modified", is_flag=True, help="Those that differ in the folder.")
@click.option("-d", "--deleted", is_flag=True, help="Those that are gone from the folder.")
@click.option("-o", "--others", is_flag=True, help="Checkpoint files that the commit does not have.")
@click.option("-c", "--cached", is_flag=True, hidden=True, expose_value=False)
def command(session: Session, paths: tuple[str, ...], modified: bool, deleted: bool, others: bool) -> None:
    """List the files of the last commit, one a line: those in PATHs (default: the current folder)."""
    asked = {"modified": modified, "deleted": deleted, "untracked": others}
    states = [state for state, wanted in asked.items() if wanted]
    from mvcs.errors import some_of
    from mvcs.restore import NAMES_LISTED

    with session.repository() as repository:
        top = repository.top
        found = (
            repository.file_states(paths or (".",), states)
            if states
            else repository.list_files(paths=paths if paths or top is None else (".",))
        )
        if not found and not states and not paths and (parts := repository.parts()) is not None:
            session.tell(f"HEAD holds a state, and no files; its parts are {some_of(parts, NAMES_LISTED)}")
        session.answer(found, [printable(_from_here(top, item.path)) for item in found])


def _from_here(top: Path | None, path: str) -> str:
    """Return a path of a commit as it is from the current folder."""
    return path if top is None else os.path.relpath(top / path)
