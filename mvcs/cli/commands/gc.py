"""`mvcs gc`: delete what nothing needs."""

import re

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.errors import UsageError
from mvcs.ui import maintenance

EXAMPLE = """
mvcs gc
mvcs gc --execute
mvcs gc --grace 30d --json
mvcs gc --remote origin --execute
"""


def _days(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return a length of time in days, from `14d`, `36h` or 0."""
    if value is None:
        return None
    from mvcs.retention import parse_age

    if re.fullmatch(r"0+(\.0*)?[smhdw]?", value.strip()):
        return 0.0
    try:
        return parse_age(value) / (DAY_SECONDS * 1_000_000)
    except UsageError as error:
        raise click.BadParameter(
            f"'{value}' is no length of time such as 14d or 36h" + _meant(error), context, parameter
        ) from error


def _meant(error: UsageError) -> str:
    hint = error.hint or ""
    return f": {hint}" if hint.startswith("did you mean") else ""


@declare("gc", "delete what nothing needs", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.option("--execute", is_flag=True, help="Do it. Without this the plan is shown.")
@click.option("--dry-run", is_flag=True, help="Show the plan (also without this).")
@click.option("-v", "--verbose", is_flag=True, help="List every file, also where there are many.")
@click.option(
    "--grace",
    default=f"{GRACE_DAYS:g}d",
    show_default=True,
    metavar="AGE",
    callback=_days,
    help="Keep packs younger than this: a writer elsewhere may be about to name them.",
)
@click.option(
    "--wait",
    metavar="AGE",
    callback=_days,
    help="How long packs stay marked before they are deleted: a day, or the grace if that is shorter.",
)
@click.option(
    "--remote", metavar="NAME", shell_complete=completers.remote, help="Collect in the store of this remote."
)
def command(
    session: Session,
    execute: bool,
    dry_run: bool,
    verbose: bool,
    grace: float,
    wait: float | None,
    remote: str | None,
) -> None:
    """Show the packs of this store that no commit needs; mark them for deletion, and later delete them.

    The first run with --execute marks packs: it records that these packs will go, so that a writer which
    needs one after all says so. A later run deletes what has waited and is still not needed. So run it
    twice, or every night. It may run beside everything else. --wait 0 deletes at once: use it where
    nobody else writes.

    A commit counts as long as a branch, a tag or the reflog of one leads to it, or HEAD stands on it.
    What HEAD left on no branch counts for the grace only: 'mvcs branch NAME ID' keeps it for good. So
    does the past of a conflict branch that was deleted; one that another branch contains goes.
    What killed commands of this clone left needs no gc: the next commit, checkout, export, push or
    pull removes it. Two things wait: in a store across a network what was about to be named, for 15
    minutes; and what nobody here can tell of, for two weeks: another machine left it, or an earlier
    boot of this one on a network disk. Of other clones' detached HEADs it knows nothing.

    Once packs were marked, versions of mvcs from before that can read the store and not write to it.
    """
    if execute and dry_run:
        raise click.UsageError("--execute does it, and --dry-run does not: give one of them")
    with session.repository() as repository:
        report = repository.gc(grace_days=grace, wait_days=wait, execute=execute, remote=remote)
        session.answer(report, maintenance.collected(report, verbose=verbose))
