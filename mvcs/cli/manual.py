"""Manual pages, made from the help of the commands: `python -m mvcs.cli.manual FOLDER VERSION` builds them.

A wheel brings them. Nothing but click is needed, so a build does not have to install what mvcs runs on.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from mvcs.cli.declaration import SETTINGS
from mvcs.cli.group import SECTIONS, root

_UNWRAPPED = "\b\n"  # click's mark of a paragraph whose lines stay


def pages(version: str) -> Iterator[tuple[str, str]]:
    """Yield the file name and the content of each page: one for `mvcs`, and one for each command.

    Args:
        version: what stands in their last line.
    """
    context = click.Context(root, info_name="mvcs", **SETTINGS)
    yield "mvcs.1", _page(context, "git for model checkpoints", version)
    for name in root.list_commands(context):
        made = root.get_command(context, name)
        if made is not None:
            below = click.Context(made, info_name=name, parent=context, **SETTINGS)
            yield f"mvcs-{name}.1", _page(below, made.get_short_help_str(100), version)


def _page(context: click.Context, summary: str, version: str) -> str:
    name = context.command_path.replace(" ", "-")
    lines = [
        f'.TH "{_plain(name).upper()}" 1 "" "mvcs {version}" "mvcs"',
        ".nh",
        ".ad l",
        ".SH NAME",
        f"{_plain(name)} \\- {_plain(summary)}",
        ".SH SYNOPSIS",
        *_usage(context),
        ".SH DESCRIPTION",
        *_paragraphs(context.command.help or ""),
        *_options(context),
        *_commands(context),
        *_ending(context.command.epilog or ""),
        ".SH SEE ALSO",
        _bold("mvcs(1)" if context.parent else "mvcs help COMMAND"),
    ]
    return "\n".join(lines) + "\n"


def _usage(context: click.Context) -> list[str]:
    pieces = context.command.collect_usage_pieces(context)
    return [f"{_bold(context.command_path)} {_plain(' '.join(pieces))}"]


def _paragraphs(text: str) -> Iterator[str]:
    for part in text.strip().split("\n\n"):
        yield ".PP"
        if part.startswith(_UNWRAPPED):
            yield from [".nf", *map(_line, part.removeprefix(_UNWRAPPED).splitlines()), ".fi"]
        else:
            yield _line(" ".join(part.split()))


def _options(context: click.Context, title: str = ".SH OPTIONS") -> Iterator[str]:
    records = [parameter.get_help_record(context) for parameter in context.command.get_params(context)]
    found = [record for record in records if record is not None and record[1]]
    if found:
        yield title
    for names, text in found:
        yield from [".TP", _bold(names), _line(text)]


def _commands(context: click.Context) -> Iterator[str]:
    """Yield the commands below: of `mvcs` their names, and of others all there is to say."""
    command = context.command
    if not isinstance(command, click.Group):
        return
    yield ".SH COMMANDS"
    if context.parent is None:
        yield from _listed(context, command)
        return
    for name in command.list_commands(context):
        made = command.get_command(context, name)
        if made is not None:
            below = click.Context(made, info_name=name, parent=context, **SETTINGS)
            yield f".SS {_plain(below.command_path)}"
            yield from _usage(below)
            yield from _paragraphs(made.help or "")
            yield from _options(below, ".PP")


def _listed(context: click.Context, command: click.Group) -> Iterator[str]:
    for title, names in SECTIONS.items():
        yield f".SS {_plain(title)}"
        for name in names:
            made = command.get_command(context, name)
            if made is not None:
                yield from [".TP", _bold(f"mvcs-{name}(1)"), _line(made.get_short_help_str(100))]


def _ending(epilog: str) -> Iterator[str]:
    """Yield what help ends with: examples and exit codes."""
    titles = {"Example": "EXAMPLES", "Exit codes": "EXIT STATUS"}
    for part in epilog.split("\n\n"):
        title, _, text = part.removeprefix(_UNWRAPPED).partition(":\n")
        yield f".SH {titles[title]}"
        yield from [".nf", *(_line(line.strip()) for line in text.splitlines()), ".fi"]


def _bold(text: str) -> str:
    return f"\\fB{_plain(text)}\\fR"


def _line(text: str) -> str:
    """Return text that stands at the beginning of a line, where a dot or a quote would command."""
    return re.sub(r"^(?=[.'])", r"\\&", _plain(text))


def _plain(text: str) -> str:
    """Return text as the formatter prints it; a hyphen is one that can be copied."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")


def _write(folder: Path, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in pages(version):
        folder.joinpath(name).write_text(content, "utf-8")


if __name__ == "__main__":
    _write(Path(sys.argv[1]), sys.argv[2])
