"""`mvcs show`: one commit in full."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.session import Session
from mvcs.ui.details import details

EXAMPLE = """
mvcs show
mvcs show main~1 --all
"""


@declare("show", "one commit in full", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("rev", default="HEAD")
@click.option(
    "-n", "--number", type=click.IntRange(0), default=10, show_default=True, help="How many tensors to list."
)
@click.option("--all", "everything", is_flag=True, help="List every tensor.")
def command(session: Session, rev: str, number: int, everything: bool) -> None:
    """Show what REV (default: HEAD) holds: sizes by class, its largest tensors, how it was quantized.

    "stored" is what this commit itself wrote. "unchanged" tensors were written by an earlier commit;
    "shared" ones have the bytes of another tensor, and "tied" ones stand in several places.
    "depth" is how many deltas a restore follows; descriptions of tensors ("metadata") have their own.
    """
    with session.repository() as repository:
        found = repository.show(rev)
        refs = repository.decorations().get(found.commit.id, [])
        lines = details(found, refs, session.screen, None if everything else number)
        session.answer(found, lines, paged=True)
