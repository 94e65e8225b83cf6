"""`mvcs retention`: what stays of old commits."""

from typing import TYPE_CHECKING, Literal, Unpack

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.declaration import group
from mvcs.cli.options import Whole
from mvcs.cli.session import Session
from mvcs.ui import maintenance, printable

if TYPE_CHECKING:
    from mvcs.retention import RuleWords

EXAMPLE = """
mvcs retention
mvcs retention set --last 20 --every 1000 --best 3:val_loss --newer 14d --tagged
mvcs retention apply --dry-run
mvcs retention apply
mvcs retention pin step:4200 --reason "figure 3"
"""

_remote = click.option(
    "--remote", metavar="NAME", shell_complete=completers.remote, help="In the store of this remote."
)


@group("retention", "what stays of old commits", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
def command(context: click.Context) -> None:
    """Say what is kept of old commits, and drop the rest.

    No data are dropped before rules are set and applied. A commit keeps its data when any rule keeps it.
    Tips of branches, pinned commits and the one HEAD stands on keep theirs in any case. Only tensor data
    go: commits, trees and metrics stay.

    Where several clones share one store, only the HEAD of this clone is known: what another clone's HEAD
    stands on, without a branch, may go. A branch, or 'mvcs retention pin', keeps it.
    """
    if context.invoked_subcommand is None:
        context.invoke(show)


@declare("show", "rules and pins", example="mvcs retention show --json", exits=(3, 5, 6, 7), parent=command)
@_remote
def show(session: Session, remote: str | None = None) -> None:
    """Show the rules and pins in force."""
    with session.repository() as repository:
        found = repository.retention(remote)
        session.answer(found, maintenance.retention(found))


@declare(
    "set",
    "other rules",
    example="mvcs retention set --last 20 --best 3:val_loss\nmvcs retention set --exact --last 2 --tagged",
    exits=(3, 4, 5, 6, 7),
    parent=command,
)
@click.option("--last", type=Whole(min=1), multiple=True, metavar="N", help="The last N of a branch.")
@click.option(
    "--every",
    type=Whole(min=1),
    multiple=True,
    metavar="N",
    help="The first at or past every N steps.",
)
@click.option("--best", multiple=True, metavar="K:METRIC", help="The K best; K:min:METRIC tells which way.")
@click.option("--newer", multiple=True, metavar="AGE", help="What is younger, such as 14d, 36h or 2w.")
@click.option("--tagged", is_flag=True, help="What a tag names.")
@click.option("--exact", is_flag=True, help="Rules for exact layers of bounded commits, not for data.")
@click.option("--none", is_flag=True, help="No rules: of data nothing is dropped any more.")
@click.option("--force", is_flag=True, help="Also where the rules keep nothing beyond what stays anyway.")
@_remote
def set_rules(
    session: Session, exact: bool, none: bool, force: bool, remote: str | None, **rules: Unpack["RuleWords"]
) -> None:
    """Replace the rules for data, or with --exact those for exact layers.

    Rules for data are applied by 'mvcs retention apply' alone; those for exact layers after each bounded
    commit. Without rules for exact layers 'retention.exact_layers' counts.
    """
    if none == any(rules.values()):
        raise click.UsageError("--none goes with no rule" if none else "give rules, or --none")
    layer: Literal["exact", "data"] = "exact" if exact else "data"
    with session.repository() as repository:
        found = repository.set_retention(layer=layer, remote=remote, force=force, **rules)
        session.answer(found, maintenance.retention(found, advice=not exact and not none))


@declare(
    "apply",
    "drop what no rule keeps",
    example="mvcs retention apply --dry-run\nmvcs retention apply\nmvcs retention apply --remote origin",
    exits=(3, 4, 5, 6, 7),
    parent=command,
)
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would go, and how many bytes.")
@click.option("--force", is_flag=True, help="Also where the rules keep nothing beyond what stays anyway.")
@click.option("-v", "--verbose", is_flag=True, help="List each commit, those that stay as well, and why.")
@_remote
def apply(session: Session, dry_run: bool, force: bool, verbose: bool, remote: str | None) -> None:
    """Drop the data of commits that no rule keeps; commits, their trees and metrics stay.

    Commits that stay are stored without what goes first. The bytes are free once 'mvcs gc' has deleted
    the packs that nothing needs any more. With --remote the rules of that store count, and whoever
    fetches from there gets the commits without their data.
    """
    with session.repository() as repository:
        found = repository.apply_retention(remote=remote, dry_run=dry_run, force=force)
        session.answer(found, maintenance.applied(found, session.screen, verbose=verbose))


@declare(
    "pin",
    "keep a commit",
    example='mvcs retention pin v1 --reason "paper"',
    exits=(3, 5, 6, 7),
    parent=command,
)
@click.argument("rev", shell_complete=completers.revision)
@click.option("--reason", default="", metavar="TEXT", help="Why, for people.")
@_remote
def pin(session: Session, rev: str, reason: str, remote: str | None) -> None:
    """Keep a commit with both layers, whatever the rules say."""
    with session.repository() as repository:
        found = repository.pin(rev, reason, remote)
        session.answer(found, [f"Pinned {printable(rev)}", *map(printable, found.notes)])


@declare(
    "unpin", "let rules decide again", example="mvcs retention unpin v1", exits=(3, 5, 6, 7), parent=command
)
@click.argument("rev", shell_complete=completers.revision)
@_remote
def unpin(session: Session, rev: str, remote: str | None) -> None:
    """Let the rules decide of a commit again."""
    with session.repository() as repository:
        found = repository.unpin(rev, remote)
        session.answer(found, [f"Unpinned {printable(rev)}"])
