"""`mvcs note`: what is learned later."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import metric_option
from mvcs.cli.session import Session
from mvcs.ui import commits, names

EXAMPLE = """
mvcs note step:1200 --metric test_accuracy=0.914
mvcs note main
"""


@declare("note", "what is learned later", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("rev", shell_complete=completers.revision)
@metric_option
def command(session: Session, rev: str, metrics: dict[str, float]) -> None:
    """Add measurements to REV without changing its id; without --metric, list those added so far.

    They count for best:NAME and show in the log. Pushes and fetches carry them.
    """
    with session.repository() as repository:
        if metrics:
            info = repository.note(rev, metrics)
            session.answer(
                info, [f"{session.screen.paint(info.short, 'id')} {commits.metrics(info.metrics)}"]
            )
        else:
            found = repository.notes(rev)
            session.answer(found, names.notes(found))
