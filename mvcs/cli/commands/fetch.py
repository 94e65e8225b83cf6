"""`mvcs fetch`: get commits from another store."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import always, max_bytes_option
from mvcs.cli.session import Session
from mvcs.ui import sharing

EXAMPLE = """
mvcs fetch
mvcs log lab/main
mvcs fetch --verify
"""


@declare("fetch", "get commits from another store", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("name", required=False, shell_complete=completers.remote)
@click.option("--verify", is_flag=True, help="Hash everything here, and fetch again what is damaged.")
@always("-p", "--prune", text="Forget branches that are gone over there, as every fetch does.")
@always("-t", "--tags", text="Bring every tag, as every fetch does.")
@max_bytes_option
def command(session: Session, name: str | None, verify: bool) -> None:
    """Bring what the remote NAME (default: origin) has; its branches appear as NAME/BRANCH.

    No branch of yours moves. What comes is read and hashed in full before it is kept. A branch over there
    that leads to something missing or damaged is left out, and named (exit 5). Packs that are missing here,
    or of another size than over there, are fetched again.
    """
    with session.repository() as repository:
        report = repository.fetch(name, verify=verify)
        session.answer(report, sharing.fetched(report))
