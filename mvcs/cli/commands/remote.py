"""`mvcs remote`: names for other people's stores."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.declaration import group
from mvcs.cli.foreign_words import Group
from mvcs.cli.options import storage_option
from mvcs.cli.session import Session
from mvcs.ui import printable, sharing

EXAMPLE = """
mvcs remote
mvcs remote add lab s3://bucket/models/gpt
mvcs remote show lab
mvcs remote rm lab
"""


class Remotes(Group):
    """Finds `remove` by the name that git gives it as well."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by either name."""
        return super().get_command(ctx, "remove" if cmd_name == "rm" else cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by either name."""
        return super().resolve_command(ctx, ["remove", *args[1:]] if args[:1] == ["rm"] else args)


@group("remote", "names for other people's stores", example=EXAMPLE, exits=(3, 6, 7), cls=Remotes)
@click.option("-v", "--verbose", is_flag=True, help="With the options that opening each of them takes.")
def command(context: click.Context, verbose: bool) -> None:
    """List, add, change and remove names for other stores."""
    if context.invoked_subcommand is None:
        context.invoke(listing, verbose=verbose)


@declare("list", "names and URLs", example="mvcs remote list --json", exits=(3,), parent=command)
@click.option("-v", "--verbose", is_flag=True, help="With the options that opening each of them takes.")
def listing(session: Session, verbose: bool) -> None:
    """List remotes with their URLs."""
    with session.repository() as repository:
        found = repository.remotes()
        options = {name: repository.remote(name, ask=False).options for name in found} if verbose else {}
        session.answer(found, sharing.remotes(found, options, session.screen))


@declare("show", "what a remote has", example="mvcs remote show origin", exits=(3, 5, 6, 7), parent=command)
@click.argument("name", shell_complete=completers.remote)
@click.option("-n", "--no-query", "offline", is_flag=True, help="Tell what was last seen, and ask nobody.")
def show(session: Session, name: str, offline: bool) -> None:
    """Show the branches of a remote beside what was last seen of them, and what follows them here."""
    with session.repository() as repository:
        found = repository.remote(name, ask=not offline)
        session.answer(found, sharing.remote(found, session.screen))


@declare(
    "add",
    "a new name for a store",
    example="mvcs remote add lab s3://bucket/gpt --option endpoint_url=http://10.0.0.5:9000",
    exits=(3, 4, 7),
    parent=command,
)
@click.argument("name")
@click.argument("url", shell_complete=completers.folder)
@storage_option
def add(session: Session, name: str, url: str, options: dict[str, object], plain: bool) -> None:
    """Call the store at URL by NAME from now on; it need not exist yet."""
    with session.repository() as repository:
        repository.add_remote(name, url, options=options, plain=plain)
        session.answer(repository.remotes(), [f"Added remote {printable(name)}"])


@declare("get-url", "where a remote lies", example="mvcs remote get-url lab", exits=(3,), parent=command)
@click.argument("name", shell_complete=completers.remote)
def get_url(session: Session, name: str) -> None:
    """Print the URL of remote NAME."""
    with session.repository() as repository:
        url = repository.remote(name, ask=False).url
        session.answer({name: url}, [printable(url)])


@declare(
    "set-url",
    "change where a remote lies",
    example="mvcs remote set-url lab s3://bucket/models/gpt",
    exits=(3, 7),
    parent=command,
)
@click.argument("name", shell_complete=completers.remote)
@click.argument("url", shell_complete=completers.folder)
@storage_option
def set_url(session: Session, name: str, url: str, options: dict[str, object], plain: bool) -> None:
    """Have NAME mean the store at URL from now on; options that are not given stay as they are."""
    with session.repository() as repository:
        repository.set_remote_url(name, url, options=options, plain=plain)
        found = repository.remotes()
        session.answer(found, [f"Remote {printable(name)} lies at {printable(found[name])}"])


@declare("rename", "another name", example="mvcs remote rename origin lab", exits=(3, 4, 7), parent=command)
@click.argument("old", shell_complete=completers.remote)
@click.argument("new")
def rename(session: Session, old: str, new: str) -> None:
    """Call remote OLD by the name NEW; branches that follow it continue doing so."""
    with session.repository() as repository:
        repository.rename_remote(old, new)
        session.answer(repository.remotes(), [f"Renamed remote {printable(old)} to {printable(new)}"])


@declare("remove", "forget a name (also: rm)", example="mvcs remote remove lab", exits=(3, 7), parent=command)
@click.argument("name", shell_complete=completers.remote)
def remove(session: Session, name: str) -> None:
    """Forget a remote; nothing over there changes."""
    with session.repository() as repository:
        repository.remove_remote(name)
        session.answer(repository.remotes(), [f"Removed remote {printable(name)}"])
