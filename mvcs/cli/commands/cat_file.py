"""`mvcs cat-file`: one object, as it is."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.revisions_and_files import file_instead
from mvcs.cli.session import Session
from mvcs.errors import NotFoundError
from mvcs.ui import objects, size

EXAMPLE = """
mvcs cat-file HEAD
mvcs cat-file 4f2a91c0 --raw > object.cbor
"""


@declare("cat-file", "one object, as it is", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("name", metavar="OBJECT", shell_complete=completers.revision)
@click.option("--raw", is_flag=True, help="The canonical bytes themselves, which the id is the hash of.")
@click.option("-p", is_flag=True, hidden=True, expose_value=False)
def command(session: Session, name: str, raw: bool) -> None:
    """Show OBJECT: an id, an id prefix, or a revision; verified before it is shown."""
    if raw and session.json:
        raise click.UsageError("--raw prints bytes and --json prints text: choose one")
    with session.repository() as repository:
        try:
            found = repository.cat_file(name)
        except NotFoundError as error:
            raise file_instead(repository, name, error) from error
        if raw:
            click.echo(found.content, nl=False)
            return
        answer = {"kind": found.kind, "id": found.id, "size": found.size, "value": found.value}
        title = f"{found.kind} {session.screen.paint(found.id, 'id')}, {size(found.size)}"
        session.answer(answer, [title, *objects.outline(found.value)])
