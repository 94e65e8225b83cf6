"""How a command is declared: help ends with examples and exit codes; answers in JSON when asked."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from mvcs.cli.foreign_words import Command, Group
from mvcs.cli.options import always
from mvcs.cli.session import Session

Function = TypeVar("Function", bound=Callable[..., Any])
_QUIET = {"init", "clone", "commit", "rm", "checkout", "switch", "restore", "reset", "fetch", "pull", "push"}
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
FAILED, USAGE, NOT_FOUND, CONFLICT, CORRUPTION, UNSUPPORTED, STORAGE = 1, 2, 3, 4, 5, 6, 7
INTERRUPTED = 130
BROKEN_PIPE = 141
MEANINGS = {
    0: "done",
    FAILED: "failed",
    USAGE: "usage",
    NOT_FOUND: "not found",
    CONFLICT: "conflict",
    CORRUPTION: "corruption",
    UNSUPPORTED: "unsupported format",
    STORAGE: "storage",
}


def command(
    name: str,
    summary: str,
    *,
    example: str,
    exits: Sequence[int] = (),
    parent: click.Group | None = None,
    cls: type[click.Command] = Command,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function that takes the session first.

    Args:
        name: what the user types.
        summary: what the list of commands says.
        example: one or more lines a user could type.
        exits: the exit codes, besides 0 and 2, that the command is known for.
        parent: the group it belongs to, unless it stands on its own.
        cls: how its words are parsed.
    """

    def declare(function: Callable[..., Any]) -> click.Command:
        if name in _QUIET and parent is None:
            function = always(
                "-q", "--quiet", text="Print no answer, only notes and errors.", callback=_be_quiet
            )(function)
        made = click.command(
            name, cls=cls, short_help=summary, epilog=epilog(example, exits), context_settings=SETTINGS
        )(json_option(click.pass_obj(function)))
        if parent is not None:
            parent.add_command(made)
        return made

    return declare


def group(
    name: str, summary: str, *, example: str, exits: Sequence[int] = (), cls: type[Group] = Group
) -> Callable[[Callable[..., Any]], click.Group]:
    """Make a command with commands of its own; it does something sensible when none is named."""

    def declare(function: Callable[..., Any]) -> click.Group:
        return click.group(
            name,
            cls=cls,  # by its name: not every click takes it by its place
            short_help=summary,
            epilog=epilog(example, exits),
            context_settings=SETTINGS,
            invoke_without_command=True,
        )(json_option(click.pass_context(function)))

    return declare


def epilog(example: str, exits: Sequence[int]) -> str:
    """Return the end of a command's help."""
    lines = "\n".join(f"  $ {line}" for line in example.strip().splitlines())
    codes = ", ".join(f"{code} {MEANINGS[code]}" for code in sorted({0, 2, *exits}))
    return f"\b\nExample:\n{lines}\n\n\b\nExit codes:\n  {codes}"


def json_option(function: Function) -> Function:
    """Add `--json`, which every command has."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_want_json,
        help="Answer in JSON on stdout; notes and errors are JSON lines on stderr.",
    )(function)


def _be_quiet(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001  # click's form
    context.ensure_object(Session).quiet |= value


def _want_json(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001  # click's form
    if value:
        context.ensure_object(Session).json = True
