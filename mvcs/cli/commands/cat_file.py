"""`mvcs cat-file`: one object, as it is."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import always, file_instead
from mvcs.cli.session import Session
from mvcs.errors import NotFoundError
from mvcs.ui import details, size

EXAMPLE = """
mvcs cat-file HEAD
mvcs cat-file -t 4f2a91c0
mvcs cat-file 4f2a91c0 --raw > object.cbor
"""


@declare("cat-file", "one object, as it is", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("name", metavar="OBJECT", shell_complete=completers.revision)
@click.option("--raw", is_flag=True, help="The canonical bytes themselves, which the id is the hash of.")
@always("-p", text="As text, which is the default.")
@click.option("-t", "field", flag_value="kind", help="Its kind alone: commit, tree, tensor, chunk or so.")
@click.option("-s", "field", flag_value="size", help="Its size in bytes alone.")
@click.option("-e", "field", flag_value="", help="Nothing: the exit code is 0 where it is there and whole.")
def command(session: Session, name: str, raw: bool, field: str | None) -> None:
    """Show OBJECT: an id, an id prefix, or a revision; verified before it is shown."""
    if raw and field is not None:
        raise click.UsageError("--raw prints all of the object: leave out -t, -s and -e")
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
        answer = {"kind": found.kind, "id": found.id, "size": found.size}
        if field is not None:
            session.answer(answer, [str(answer[field])] if field else [])
            return
        answer["value"] = found.value
        title = f"{found.kind} {session.screen.paint(found.id, 'id')}, {size(found.size)}"
        session.answer(answer, [title, *details.outline(found.value)])
