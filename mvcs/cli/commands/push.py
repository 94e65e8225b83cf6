"""`mvcs push`: give commits to another store."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.ui import sharing

EXAMPLE = """
mvcs push
mvcs push -u lab main
mvcs push lab low-lr --tags
mvcs push lab main --exact
"""


@declare("push", "give commits to another store", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("name", required=False, shell_complete=completers.remote)
@click.argument("refs", metavar="[REF]...", nargs=-1, shell_complete=completers.pushed)
@click.option(
    "-u", "--set-upstream", is_flag=True, help="Remember it: push, pull and status then know the remote."
)
@click.option("--tags", is_flag=True, help="Every tag as well.")
@click.option("--all", "everything", is_flag=True, help="Every branch.")
@click.option("--exact", is_flag=True, help="Exact layers as well, where they are kept.")
@click.option(
    "-f", "--force", is_flag=True, help="Move a branch there even when that leaves commits of others behind."
)
@click.option(
    "--force-with-lease",
    "lease",
    is_flag=True,
    help="As --force, where a branch over there is still where it was last seen.",
)
@click.option(
    "--verify", is_flag=True, help="Read everything over there in full before a name moves, and mend it."
)
def command(
    session: Session,
    name: str | None,
    refs: tuple[str, ...],
    set_upstream: bool,
    tags: bool,
    everything: bool,
    exact: bool,
    force: bool,
    lease: bool,
    verify: bool,
) -> None:
    """Send REF (default: the current branch) to the remote NAME.

    Without NAME that is the one the branch follows, or else the only one, or origin.

    What is sent is checked over there before a name moves: its size and its end, or with --verify all of it.
    What was sent before and is missing there, or of another size, is sent again; --verify also hashes it.
    An interrupted push continues with what it still owes.
    """
    if everything and refs:
        raise click.UsageError("--all sends every branch; leave REF out")
    with session.repository() as repository:
        report = repository.push(
            name,
            list(refs) or None,
            tags=tags,
            all_branches=everything,
            exact=exact,
            force=force,
            lease=lease,
            verify=verify,
            set_upstream=set_upstream,
        )
        session.answer(report, sharing.pushed(report))
