"""`mvcs switch`: continue another branch."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import exact_option, force_option, max_bytes_option
from mvcs.cli.session import Session
from mvcs.ui import checkouts

EXAMPLE = """
mvcs switch main
mvcs switch -c low-lr step:1200
"""


@declare("switch", "continue another branch", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("name", shell_complete=completers.switched)
@click.argument("rev", required=False, shell_complete=completers.revision)
@click.option("-c", "--create", is_flag=True, help="Make the branch first, at REV (default: HEAD).")
@exact_option
@force_option
@max_bytes_option
def command(session: Session, name: str, rev: str | None, create: bool, exact: bool, force: bool) -> None:
    """Continue branch NAME: HEAD moves to it and its files come back.

    A single dash is where HEAD was before.
    """
    if rev is not None and not create:
        raise click.UsageError("REV says where a new branch starts; add -c to make one")
    start = ("HEAD" if rev is None else rev) if create else None
    with session.repository() as repository:
        report = repository.switch(name, create_from=start, exact=exact, force=force)
        session.answer(report, checkouts.checked_out(report, session.screen))
