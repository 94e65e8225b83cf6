"""`mvcs why`: what keeps something in the store."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.ui import checks

EXAMPLE = """
mvcs why main~3
mvcs why 4f2a91c0
mvcs why 4f2a91c0 --json
"""


@declare("why", "what keeps something in the store", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("name", metavar="ID", shell_complete=completers.revision)
def command(session: Session, name: str) -> None:
    """Show what keeps ID: a commit, an object by its id or a prefix of that, or a pack by its name.

    It is the shortest way: from a branch, a tag or HEAD to a commit, and from there to where it stands, or to
    what is stored near it. Where only the past of a ref leads to it, that is said; and where nothing does, or
    which record gave it up and when.
    """
    with session.repository() as repository:
        found = repository.why(name)
        session.answer(found, checks.why(found, session.screen))
