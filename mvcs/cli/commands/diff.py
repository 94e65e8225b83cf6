"""`mvcs diff`: which tensors moved, and how far."""

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import RevisionsAndFiles, Whole, listing_options, max_bytes_option, sorted_words
from mvcs.cli.session import Session
from mvcs.ui import FILES_LISTED, changes

EXAMPLE = """
mvcs diff
mvcs diff main~1 main
mvcs diff main~1 main model.safetensors
mvcs diff --stat main~1
mvcs diff --exact HEAD~1 HEAD
"""


@declare(
    "diff",
    "which tensors moved, and how far",
    example=EXAMPLE,
    exits=(1, 3, 5, 6, 7),
    cls=RevisionsAndFiles,
)
@click.argument("words", nargs=-1, metavar="[REV] [REV] [--] [FILE]...", shell_complete=completers.words)
@listing_options
@click.option(
    "--exact/--values",
    default=None,
    help="Compare exact values, and fail where they were dropped; or what a checkout restores"
    " (default: exact values where both sides have them).",
)
@click.option(
    "-n",
    "--number",
    type=Whole(0),
    default=FILES_LISTED,
    show_default=True,
    help="How many tensors to list.",
)
@click.option("--all", "everything", is_flag=True, help="List every tensor.")
@max_bytes_option
def command(  # one argument for each option
    session: Session,
    words: tuple[str, ...],
    listed: str | None,
    exact: bool | None,
    number: int,
    everything: bool,
) -> None:
    """Compare two commits; or REV (default: HEAD) with the working files.

    With FILE, only files of that name, or parts of a state. Where HEAD holds a state, which has no files,
    REV alone is compared with HEAD.

    The first line says what stands on either side. Tensors of the model come first, the largest change first.
    "relative" is the root mean square of the change over that of the left values. "rounding" marks a change
    that a quantizer can have made by itself: no element differs by more than a step of it.
    """
    with session.repository() as repository:
        revs, files = sorted_words(session, repository, words, most=2)
        left, right = [*revs, "HEAD"][0], revs[1] if len(revs) > 1 else None
        if listed:
            counts = repository.changed_files(left, right, files=files)
            session.answer(counts, changes.listing(counts, listed, session.screen), paged=True)
        else:
            found = repository.diff(left, right, files=files, exact=exact)
            lines = changes.lines(found, session.screen, None if everything else number)
            session.answer(found, lines, paged=True)
