"""`mvcs remote`: names for other people's stores."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.declare import group
from mvcs.cli.options import storage_option
from mvcs.cli.session import Session
from mvcs.ui.screen import Screen
from mvcs.ui.text import printable, table

EXAMPLE = """
mvcs remote
mvcs remote add lab s3://bucket/models/gpt
"""


@group("remote", "names for other people's stores", example=EXAMPLE, exits=(3, 6, 7))
def command(context: click.Context) -> None:
    """List, add and remove names for other stores."""
    if context.invoked_subcommand is None:
        context.invoke(listing)


@declare("list", "names and URLs", example="mvcs remote list --json", exits=(3,), parent=command)
def listing(session: Session) -> None:
    """List remotes with their URLs."""
    with session.repository() as repository:
        found = repository.remotes()
        session.answer(found, _lines(found, session.screen))


@declare(
    "add",
    "a new name for a store",
    example="mvcs remote add lab s3://bucket/gpt --option endpoint_url=http://10.0.0.5:9000",
    exits=(3, 4, 7),
    parent=command,
)
@click.argument("name")
@click.argument("url")
@storage_option
def add(session: Session, name: str, url: str, options: dict[str, object], plain: bool) -> None:
    """Call the store at URL by NAME from now on; it need not exist yet."""
    with session.repository() as repository:
        repository.add_remote(name, url, options=options, plain=plain)
        session.answer(repository.remotes(), [f"Added remote {printable(name)}"])


@declare("remove", "forget a name", example="mvcs remote remove lab", exits=(3, 7), parent=command)
@click.argument("name")
def remove(session: Session, name: str) -> None:
    """Forget a remote; nothing over there changes."""
    with session.repository() as repository:
        repository.remove_remote(name)
        session.answer(repository.remotes(), [f"Removed remote {printable(name)}"])


def _lines(remotes: dict[str, str], screen: Screen) -> list[str]:
    rows = [(printable(name), printable(url)) for name, url in remotes.items()]
    return table(rows, "<<", screen.endless, styles=("ref",), header=False)
