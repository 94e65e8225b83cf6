"""`mvcs rev-parse`: which commit a revision names."""

from typing import TYPE_CHECKING

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.errors import NotFoundError
from mvcs.ui import printable

if TYPE_CHECKING:
    from mvcs.repository import Repository

EXAMPLE = """
mvcs rev-parse best:val_loss
mvcs rev-parse --short HEAD main~1
mvcs rev-parse --abbrev-ref HEAD
"""


@declare("rev-parse", "which commit a revision names", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("revs", nargs=-1, metavar="[REV]...", shell_complete=completers.revision)
@click.option("--short", is_flag=True, help="Only the first digits of ids.")
@click.option("--abbrev-ref", "named", is_flag=True, help="The branch that HEAD is on, instead of an id.")
@click.option("--show-toplevel", "toplevel", is_flag=True, help="The folder of the repository.")
@click.option("--verify", is_flag=True, hidden=True, expose_value=False)
def command(session: Session, revs: tuple[str, ...], short: bool, named: bool, toplevel: bool) -> None:
    """Show the whole id of the commit that each REV names, one a line."""
    if not revs and not toplevel:
        raise click.UsageError("name a REV, such as HEAD")
    with session.repository() as repository:
        lines = [_top(repository)] if toplevel else []
        ids = [_shown(repository, rev, short=short, named=named) for rev in revs]
        pairs = [{"rev": rev, "id": found} for rev, found in zip(revs, ids, strict=True)]
        answer = {"toplevel": lines[0], "revisions": pairs} if toplevel else pairs
        session.answer(answer, [printable(line) for line in [*lines, *ids]])


def _top(repository: "Repository") -> str:
    if repository.top is None:
        raise NotFoundError("a bare store has no folder of its own", hint="clone it")
    return str(repository.top.resolve())


def _shown(repository: "Repository", rev: str, *, short: bool, named: bool) -> str:
    if named and rev in ("HEAD", "@"):
        return repository.branch or "HEAD"
    info = repository.resolve(rev)
    return rev if named else info.short if short else info.id
