"""`mvcs lineage`: the index of who descends from whom, for questions in SQL."""

import click

from mvcs.cli.declaration import command as declare
from mvcs.cli.declaration import group
from mvcs.cli.session import Session
from mvcs.ui import NAME, count, printable, table

QUERY = """
mvcs lineage query "select substr(id, 1, 12), step from commits order by step"
"""


@group(
    "lineage",
    "the index of who descends from whom, for questions in SQL",
    example="mvcs lineage status" + QUERY.rstrip(),
    exits=(3, 5, 6, 7),
)
def command(context: click.Context) -> None:
    """Look into the index of commits, tensors and metrics, or rebuild it.

    It is a cache in SQLite: deleting it loses nothing, and no other command waits for it.
    """
    if context.invoked_subcommand is None:
        context.invoke(status)


@declare(
    "status", "where it lies and what it knows", example="mvcs lineage status", exits=(3,), parent=command
)
def status(session: Session) -> None:
    """Show where the index lies and how much it knows."""
    with session.repository() as repository:
        found = repository.lineage_status()
        rows = [
            (printable(str(name)), printable("-" if value is None else str(value)))
            for name, value in found.items()
        ]
        session.answer(found, table(rows, "<<", session.screen.endless, header=False))


@declare(
    "rebuild",
    "rebuild it from the store",
    example="mvcs lineage rebuild",
    exits=(3, 5, 6, 7),
    parent=command,
)
def rebuild(session: Session) -> None:
    """Rebuild the index from the store."""
    with session.repository() as repository:
        report = repository.lineage_rebuild()
        answer = {"commits": report.commits, "tensors": report.tensors}
        lines = [f"Rebuilt: {count(report.commits, 'commit')}, {count(report.tensors, 'tensor')}"]
        session.answer(answer, lines)


@declare("query", "one SELECT against it", example=QUERY, exits=(3,), parent=command)
@click.argument("sql")
def query(session: Session, sql: str) -> None:
    """Run one SELECT against the index, which cannot change it.

    Tables: commits, parents, refs, tensors, encodings, metrics, quantizers.
    """
    with session.repository() as repository:
        columns, rows = repository.lineage_query(sql)
        cells = [[printable("" if cell is None else str(cell)) for cell in row] for row in rows]
        lines = table([list(columns), *cells], NAME * len(columns), session.screen)
        session.answer({"columns": list(columns), "rows": [list(row) for row in rows]}, lines, paged=True)
