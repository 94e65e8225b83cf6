"""`mvcs reset`: move the branch back to a commit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import RevisionsAndFiles, max_bytes_option, sorted_words
from mvcs.cli.session import Session
from mvcs.errors import UsageError
from mvcs.ui import checkouts

if TYPE_CHECKING:
    from mvcs.repository import Repository

EXAMPLE = """
mvcs reset HEAD~1
mvcs reset --hard main@{1}
"""


@declare(
    "reset",
    "move the branch to another commit",
    example=EXAMPLE,
    exits=(1, 3, 4, 5, 6, 7),
    cls=RevisionsAndFiles,
)
@click.argument("words", nargs=-1, metavar="[REV]", shell_complete=completers.revision)
@click.option("--hard", is_flag=True, help="Bring the files of REV along.")
@click.option("--soft", is_flag=True, help="Leave the files as they are, as without it.")
@click.option("--mixed", is_flag=True, hidden=True, expose_value=False)
@click.option("-f", "--force", is_flag=True, help="With --hard: overwrite files that are stored nowhere.")
@max_bytes_option
def command(session: Session, words: tuple[str, ...], hard: bool, soft: bool, force: bool) -> None:
    """Move the current branch to REV (default: HEAD), and leave the files as they are.

    The reflog keeps where the branch was: 'mvcs reset NAME@{1}' goes back.
    With --hard a file whose content is stored nowhere is refused.
    """
    if hard and soft:
        raise click.UsageError("--hard brings files along and --soft leaves them: choose one")
    if force and not hard:
        raise click.UsageError("--force goes with --hard: without it no file changes")
    with session.repository() as repository:
        report = repository.reset(_only(session, repository, words), hard=hard, force=force)
        session.answer(report, checkouts.was_reset(report, session.screen))


def _only(session: Session, repository: "Repository", words: Sequence[str]) -> str:
    """Return the one revision among what was typed.

    Raises:
        UsageError: files were named, as for what is staged elsewhere.
    """
    revs, files = sorted_words(session, repository, words, most=1)
    if files:
        undo = f"mvcs restore {' '.join(files)}"
        raise UsageError(f"nothing is staged, so there is nothing to unstage: {undo} undoes changes")
    return revs[0] if revs else "HEAD"
