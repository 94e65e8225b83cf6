"""The help of every command, as one text and as the page docs/commands.md."""

import os
from collections.abc import Iterator
from pathlib import Path

import click

from mvcs.cli import declaration
from mvcs.cli.group import SECTIONS, root

MARK = "<!-- from here on: written by `pytest tests/cli --regenerate` from the help of each command -->"
SETTINGS = {**declaration.SETTINGS, "terminal_width": 100}


def write_behind(page: Path, mark: str, generated: str) -> None:
    """Write what stands behind a mark on a page anew; what people wrote before it stays.

    The page is replaced whole: several workers may do this at once, and none reads half a page.

    Raises:
        ValueError: nothing stands before the mark, or there is none, so that the page lost its beginning.
    """
    before, found, _ = page.read_text().partition(mark)
    if not found or not before.strip():
        raise ValueError(
            f"'{page}' has lost what stood before its mark; bring it back first: git log -p {page}"
        )
    aside = page.with_name(f".{page.name}.{os.getpid()}")
    aside.write_text(f"{before}{mark}\n\n{generated}")
    aside.replace(page)


def commands() -> Iterator[tuple[click.Context, click.Command]]:
    """Yield every command with its context, groups before their own commands."""
    context = click.Context(root, info_name="mvcs", **SETTINGS)
    yield context, root
    for name in root.list_commands(context):
        yield from _below(context, root.get_command(context, name), name)


def _below(parent, command, name):
    context = click.Context(command, info_name=name, parent=parent, **SETTINGS)
    yield context, command
    if isinstance(command, click.Group):
        for inner, made in command.commands.items():
            yield from _below(context, made, inner)


def help_text() -> str:
    """Return the help of every command."""
    return (
        "\n\n".join(
            f"$ {context.command_path} --help\n{command.get_help(context)}" for context, command in commands()
        )
        + "\n"
    )


def sections() -> str:
    """Return the generated part of docs/commands.md."""
    titles = {f"mvcs {names[0]}": title for title, names in SECTIONS.items()}
    parts = []
    for context, command in list(commands())[1:]:
        if context.command_path in titles:
            parts.append(f"## {titles[context.command_path]}")
        parts.append(_section(context, command))
    return "\n\n".join(parts) + "\n"


def _section(context, command) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    paragraphs = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    records = [param.get_help_record(context) for param in command.params if param.name != "json"]
    options = [f"| `{names}` | {text} |" for names, text in filter(None, records) if text]
    example, _, codes = (command.epilog or "").partition("\n\n\b\nExit codes:\n")
    shown = [line.strip() for line in example.splitlines() if line.startswith("  $")]
    return "\n\n".join(
        [
            f"### `{context.command_path}`",
            *paragraphs,
            "```console\n" + "\n".join(shown) + "\n```",
            f"`{usage}`",
            *(["\n".join(["| option | |", "|---|---|", *options])] if options else []),
            f"Exit codes: {codes.strip()}.",
        ]
    )
