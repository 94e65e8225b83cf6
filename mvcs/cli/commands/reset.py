"""`mvcs reset`: move the branch back to a commit."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.options import max_bytes_option
from mvcs.cli.session import Session
from mvcs.errors import NotFoundError
from mvcs.ui.checkouts import was_reset

EXAMPLE = """
mvcs reset HEAD~1
mvcs reset --hard main@{1}
"""


@declare("reset", "move the branch to another commit", example=EXAMPLE, exits=(1, 3, 4, 5, 6, 7))
@click.argument("rev", default="HEAD")
@click.option("--hard", is_flag=True, help="Bring the files of REV along.")
@click.option("--soft", is_flag=True, help="Leave the files as they are, as without it.")
@click.option("--mixed", is_flag=True, hidden=True, expose_value=False)
@click.option("-f", "--force", is_flag=True, help="With --hard: overwrite files that are stored nowhere.")
@max_bytes_option
def command(session: Session, rev: str, hard: bool, soft: bool, force: bool) -> None:
    """Move the current branch to REV (default: HEAD), and leave the files as they are.

    The reflog keeps where the branch was: 'mvcs reset NAME@{1}' goes back.
    With --hard a file whose content is stored nowhere is refused.
    """
    if hard and soft:
        raise click.UsageError("--hard brings files along and --soft leaves them: choose one")
    if force and not hard:
        raise click.UsageError("--force goes with --hard: without it no file changes")
    with session.repository() as repository:
        try:
            report = repository.reset(rev, hard=hard, force=force)
        except NotFoundError as error:
            if repository.knows_file(rev):
                raise NotFoundError(
                    error.message, hint=f"to bring a file back: mvcs restore {rev}"
                ) from error
            raise
        session.answer(report, was_reset(report, session.screen))
