"""`mvcs help`: what a command does."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session

EXAMPLE = """
mvcs help
mvcs help checkout
mvcs help remote add
"""


@declare("help", "what a command does", example=EXAMPLE)
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=completers.commands)
def command(session: Session, words: tuple[str, ...]) -> None:
    """Show the help of COMMAND, or list all commands; the same as `mvcs COMMAND --help`."""
    context = click.get_current_context().find_root()
    for word in words:
        context = _below(context, word)
    text = context.get_help()
    session.answer({"command": context.command_path, "help": text}, [text])


def _below(context: click.Context, word: str) -> click.Context:
    """Return the context of a command below another, as if it had been typed.

    Raises:
        click.UsageError: there is none of that name.
    """
    above = context.command
    if not isinstance(above, click.Group):
        raise click.UsageError(f"'{context.command_path}' has no commands of its own")
    name, found, _ = above.resolve_command(context, [word])
    if found is None:
        raise click.UsageError(f"there is no command '{word}'")
    return click.Context(found, parent=context, info_name=name, **found.context_settings)
