"""`mvcs tag`: names that stay."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.session import Session
from mvcs.ui.names import tags
from mvcs.ui.text import printable

EXAMPLE = """
mvcs tag
mvcs tag release main -m "what the paper reports"
mvcs tag -d release
"""


@declare("tag", "names that stay", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("name", required=False)
@click.argument("rev", required=False)
@click.option("-m", "--message", help="What the tag means.")
@click.option("-d", "--delete", metavar="NAME", help="Delete a tag.")
def command(
    session: Session, name: str | None, rev: str | None, message: str | None, delete: str | None
) -> None:
    """List tags, or tag REV (default: HEAD) as NAME. The exact layer of a tagged commit is kept."""
    if delete is not None and name is not None:
        raise click.UsageError("make or delete one tag at a time")
    if message is not None and name is None:
        raise click.UsageError("-m goes with a new tag: name it")
    with session.repository() as repository:
        done = None
        if name is not None:
            repository.create_tag(name, "HEAD" if rev is None else rev, message=message or "")
            done = f"Tagged {printable(rev or 'HEAD')} as {printable(name)}"
        if delete is not None:
            repository.delete_tag(delete)
            done = f"Deleted tag {printable(delete)}"
        found = repository.tags()
        session.answer(found, [done] if done else tags(found, session.screen))
