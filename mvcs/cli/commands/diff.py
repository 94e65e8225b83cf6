"""`mvcs diff`: which tensors moved, and how far."""

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.options import max_bytes_option
from mvcs.cli.session import Session
from mvcs.cli.words import RevisionsAndFiles, sorted_words
from mvcs.ui.changes import changes
from mvcs.ui.stat import stat

EXAMPLE = """
mvcs diff
mvcs diff main~1 main
mvcs diff main~1 main model.safetensors
mvcs diff --stat main~1
"""


@declare(
    "diff",
    "which tensors moved, and how far",
    example=EXAMPLE,
    exits=(1, 3, 5, 6, 7),
    cls=RevisionsAndFiles,
)
@click.argument("words", nargs=-1, metavar="[REV] [REV] [--] [FILE]...")
@click.option("--stat", "short", is_flag=True, help="One line a file; no values are read.")
@max_bytes_option
def command(session: Session, words: tuple[str, ...], short: bool) -> None:
    """Compare two commits; or REV (default: HEAD) with the working files. With FILE, only files of that name.

    "relative" is the root mean square of the change over that of the left values.
    """
    with session.repository() as repository:
        revs, files = sorted_words(session, repository, words, most=2)
        left, right = [*revs, "HEAD"][0], revs[1] if len(revs) > 1 else None
        if short:
            listed = repository.changed_files(left, right, files=files)
            session.answer(listed, stat(listed, session.screen), paged=True)
        else:
            found = repository.diff(left, right, files=files)
            session.answer(found, changes(found, session.screen), paged=True)
