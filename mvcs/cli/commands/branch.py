"""`mvcs branch`: list, make, delete and rename branches."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.session import Session
from mvcs.ui.names import branches
from mvcs.ui.text import printable

EXAMPLE = """
mvcs branch
mvcs branch low-lr step:1200
mvcs branch -m low-lr lr-1e-5
"""


@declare("branch", "list, make, delete and rename branches", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("name", required=False)
@click.argument("rev", required=False)
@click.option(
    "-d", "--delete", metavar="NAME", help="Delete a branch; its commits stay in the reflog for a while."
)
@click.option("-m", "--move", nargs=2, metavar="OLD NEW", help="Rename a branch.")
@click.option("--force", is_flag=True, help="With -d: also when its commits are on no other branch.")
def command(  # one argument for each option
    session: Session,
    name: str | None,
    rev: str | None,
    delete: str | None,
    move: tuple[str, str] | None,
    force: bool,
) -> None:
    """List branches, or make branch NAME at REV (default: HEAD) without switching to it."""
    if sum(item is not None for item in (name, delete, move)) > 1:
        raise click.UsageError("make, delete and rename one branch at a time")
    if force and delete is None:
        raise click.UsageError("--force goes with -d")
    with session.repository() as repository:
        done = None
        if name is not None:
            repository.create_branch(name, "HEAD" if rev is None else rev)
            done = f"Made branch {printable(name)}"
        elif delete is not None:
            repository.delete_branch(delete, force=force)
            done = f"Deleted branch {printable(delete)}"
        elif move is not None:
            repository.rename_branch(*move)
            done = f"Renamed branch {printable(move[0])} to {printable(move[1])}"
        found = repository.branches()
        session.answer(found, [done] if done else branches(found, session.screen), paged=done is None)
