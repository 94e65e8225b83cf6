"""The command `mvcs`: global options, and commands that are imported when they are used."""

import contextlib
from importlib import import_module
from typing import Any

import click

from mvcs.cli import completers
from mvcs.cli.declaration import MEANINGS, SETTINGS, USAGE, epilog
from mvcs.cli.foreign_words import Group
from mvcs.cli.session import Session

SECTIONS = {
    "Begin": ("init", "clone"),
    "Work": (
        "status",
        "commit",
        "rm",
        "mv",
        "restore",
        "checkout",
        "switch",
        "reset",
        "branch",
        "tag",
        "note",
    ),
    "Look back": ("log", "show", "diff", "ls-files", "reflog", "rev-parse", "cat-file", "lineage"),
    "Share": ("remote", "push", "fetch", "pull"),
    "Keep in order": ("fsck", "compact", "repair", "gc", "retention", "stats", "why", "config"),
    "Measure": ("tune", "bench"),
    "Ask": ("help", "version", "completion"),
}
NAMES = tuple(name for names in SECTIONS.values() for name in names)


class OutputClosedError(Exception):
    """Whoever read our output has seen enough."""


class Commands(Group):
    """Finds a command in the module of its name."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  # click's form
        """Run the command; tell a closed pipe apart, which click would turn into a failure.

        Raises:
            OutputClosedError: the reader of our output went away.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosedError from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's form
        """Return every command, in the order in which help shows them."""
        return list(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's form
        """Import the module of a command."""
        if cmd_name not in NAMES:
            return None
        module = import_module(f"mvcs.cli.commands.{cmd_name.replace('-', '_')}")
        found = module.command
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by what they are for."""
        for title, names in SECTIONS.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name, made.get_short_help_str(60)) for name, made in found if made])


_EXAMPLE = """
mvcs init
mvcs commit model.safetensors -m "as downloaded"
mvcs log --graph
"""


@click.command(
    "mvcs",
    cls=Commands,
    context_settings=SETTINGS,
    invoke_without_command=True,
    epilog=epilog(_EXAMPLE, tuple(MEANINGS)),
)
@click.option(
    "-C",
    "where",
    metavar="PATH",
    shell_complete=completers.folder,
    help="Act as if started in PATH; or the URL of a store, to look into it without a clone.",
)
@click.option(
    "--no-pager", is_flag=True, help="Print long answers as they are (else by $MVCS_PAGER, $PAGER or less)."
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error (also with MVCS_DEBUG=1).")
@click.version_option(package_name="mvcs", message="mvcs %(version)s")
@click.pass_context
def root(context: click.Context, where: str | None, no_pager: bool, debug: bool) -> None:  # noqa: ARG001  # --debug is read by `run`
    """Git for model checkpoints: whole training states under version control.

    A revision is a branch, a tag, an id prefix, HEAD, main~2, HEAD^, main@{3}, step:1200, best:val_loss
    or best:max:score.
    """
    session = context.ensure_object(Session)
    session.pager = not no_pager
    if where is not None:
        _go(context, session, where)
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(USAGE)


def _go(context: click.Context, session: Session, where: str) -> None:
    if "://" in where:
        session.where = where
        return
    try:
        context.with_resource(contextlib.chdir(where))
    except OSError as error:
        raise click.BadParameter(f"cannot go to '{where}': {error.strerror}", param_hint="-C") from error
