"""`mvcs diff`: which tensors moved, and how far."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.options import max_bytes_option
from mvcs.cli.session import Session
from mvcs.ui.changes import changes

EXAMPLE = """
mvcs diff
mvcs diff main~1 main
"""


@declare("diff", "which tensors moved, and how far", example=EXAMPLE, exits=(1, 3, 5, 6, 7))
@click.argument("left", metavar="[REV]", default="HEAD")
@click.argument("right", metavar="[REV]", required=False)
@max_bytes_option
def command(session: Session, left: str, right: str | None) -> None:
    """Compare two commits; or REV (default: HEAD) with the working files.

    "relative" is the root mean square of the change over that of the left values.
    """
    with session.repository() as repository:
        found = repository.diff(left, right)
        session.answer(found, changes(found, session.screen), paged=True)
