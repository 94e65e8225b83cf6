"""`mvcs pull`: fetch, and move the branch forward."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import always, max_bytes_option
from mvcs.cli.session import Session
from mvcs.ui import checkouts, sharing

EXAMPLE = """
mvcs pull
mvcs pull lab main
"""


@declare("pull", "fetch, and move the branch forward", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("name", required=False, shell_complete=completers.remote)
@click.argument("branch", required=False, shell_complete=completers.branch)
@always("--ff-only", "--ff", text="Only move forward, as every pull does.")
@max_bytes_option
def command(session: Session, name: str | None, branch: str | None) -> None:
    """Fetch from the remote NAME, then move the current branch to its BRANCH.

    Without these to what it follows, or else the branch of its name of the only remote, or of origin.
    Only forward: when both sides have commits of their own, nothing moves, and what can be done is said.
    """
    with session.repository() as repository:
        report = repository.pull(name, branch)
        moved = (
            checkouts.checked_out(report.checkout, session.screen)
            if report.checkout
            else ["Already up to date"]
        )
        session.answer(report, [*sharing.pulled(report), *moved])
