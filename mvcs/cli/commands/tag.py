"""`mvcs tag`: names that stay."""

from contextlib import suppress
from dataclasses import replace

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.errors import MvcsError
from mvcs.ui import names, printable

EXAMPLE = """
mvcs tag
mvcs tag release main -m "what the paper reports"
mvcs tag -l 'v1.*'
mvcs tag -n5
mvcs tag -d release
"""


_LINES = "List N lines (default: 1) of each message; of a tag without one that of its commit."


@declare("tag", "names that stay", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("words", nargs=-1, metavar="[NAME] [REV]", shell_complete=completers.named)
@click.option("-m", "--message", help="What the tag means.")
@click.option(
    "-a", "--annotate", is_flag=True, help="Refuse a tag without -m; every tag has author and date."
)
@click.option("-l", "--list", "listing", is_flag=True, help="List tags; NAMEs are patterns such as 'v1.*'.")
@click.option("-n", "lines", is_flag=False, flag_value="1", metavar="[N]", help=_LINES)
@click.option("-d", "--delete", is_flag=True, help="Delete the tags NAME...")
def command(
    session: Session,
    words: tuple[str, ...],
    message: str | None,
    annotate: bool,
    listing: bool,
    lines: str | None,
    delete: bool,
) -> None:
    """List tags, or tag REV (default: HEAD) as NAME. The exact layer of a tagged commit is kept."""
    listing |= lines is not None
    if lines is not None and not lines.isdecimal():  # a pattern, as git takes it
        words, lines = (lines, *words), "1"
    making = bool(words) and not listing and not delete
    _check(words, message, making=making, annotate=annotate, listing=listing, delete=delete)
    with session.repository() as repository:
        done = []
        if making:
            name, rev = [*words, "HEAD"][:2]
            repository.create_tag(name, rev, message=message or "")
            done = [f"Tagged {printable(rev)} as {printable(name)}"]
        for name in words if delete else ():
            repository.delete_tag(name)
            done.append(f"Deleted tag {printable(name)}")
        found = repository.tags(words if listing else ())
        for index, tag in enumerate(found if lines else ()):
            with suppress(MvcsError):  # of a commit that cannot be read its tag is listed all the same
                found[index] = replace(tag, message=tag.message or repository.resolve(tag.commit).message)
        session.answer(found, done or names.tags(found, session.screen, int(lines or 1)), paged=not done)


def _check(
    words: tuple[str, ...],
    message: str | None,
    *,
    making: bool,
    annotate: bool,
    listing: bool,
    delete: bool,
) -> None:
    """Refuse what goes together with nothing."""
    if listing and delete:
        raise click.UsageError("list or delete tags, not both")
    if delete and not words:
        raise click.UsageError("-d needs the NAME of a tag")
    if making and len(words) > 2:
        raise click.UsageError("a tag has one NAME and one REV")
    if (message is not None or annotate) and not making:
        raise click.UsageError("-m and -a go with a new tag: name it")
    if message is not None and not message.strip():
        raise click.UsageError("the message is empty: say what the tag means, or leave out -m")
    if annotate and message is None:
        raise click.UsageError("-a opens no editor: say what the tag means with -m MESSAGE")
