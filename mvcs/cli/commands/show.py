"""`mvcs show`: one commit in full."""

import sys
from typing import TYPE_CHECKING

import click

from mvcs.cli import completers
from mvcs.cli.commands.log import Beside
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import Whole, file_instead, listing_options
from mvcs.cli.session import Session
from mvcs.errors import NotFoundError
from mvcs.ui import commits, details

if TYPE_CHECKING:
    from mvcs.restore import FileDetails

EXAMPLE = """
mvcs show
mvcs show main~1 --all
mvcs show main~1 --stat
mvcs show HEAD:model.safetensors
mvcs show main~2:run/config.json > old.json
"""


@declare("show", "one commit in full", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("rev", default="HEAD", metavar="[REV | REV:FILE]", shell_complete=completers.revision_or_file)
@click.option(
    "-n", "--number", type=Whole(0), default=10, show_default=True, help="How many tensors to list."
)
@click.option("--all", "everything", is_flag=True, help="List every tensor.")
@listing_options
@click.option("-p", "--patch", is_flag=True, help="Instead of sizes, tensors that moved since its parent.")
def command(
    session: Session, rev: str, number: int, everything: bool, listed: str | None, patch: bool
) -> None:
    """Show what REV (default: HEAD) holds: sizes by class, its largest tensors, how it was quantized.

    Of REV:FILE it shows the tensors of that file, its bytes where it has none, or the files of a folder.
    A commit of a state has parts instead of files: HEAD:model shows those tensors and values.
    With --stat, --name-only or -p it shows what differs from its parent, as 'mvcs log -1' does.

    "stored" is what this commit itself wrote. "unchanged" tensors were written by an earlier commit;
    "shared" ones have the bytes of another tensor, and "tied" ones stand in several places.
    "depth" is how many deltas a restore follows now; descriptions of tensors ("metadata") have their own.

    "Quantizer" has the settings. "steps" are step bytes by layer type: byte 217 is a step of
    (4 + 217 % 4) * 2^(217 // 4 - 60). "first" and "second" say how an optimizer's moments are kept: "exact",
    a number of octaves a step, "rank-1" for means of rows and columns. "absent" and "carried" are left out;
    with "carried", weights are rounded where the moment would still have taken them. In "Evaluated",
    "relative" is 0 where an older version took degradation as a difference, not as a share of "baseline".
    """
    with session.repository() as repository:
        limit = None if everything else number
        try:
            info, file = repository.resolve_file(rev)
        except NotFoundError as error:
            raise file_instead(repository, rev, error) from error
        beside = Beside(repository, [file] if file else [], patch, listed)
        if beside:
            refs = repository.decorations().get(info.id, [])
            lines = [*commits.full(info, refs, session.screen), *beside.lines(info, session.screen)]
            value = {**info.to_json(), **beside.values(info)} if session.json else None
            session.answer(value, lines, paged=True)
            return
        if file is not None:
            _file(session, repository.show_file(rev), limit)
            return
        found = repository.show(rev)
        refs = repository.decorations().get(found.commit.id, [])
        session.answer(found, details.commit_details(found, refs, session.screen, limit), paged=True)


def _file(session: Session, found: "FileDetails", limit: int | None) -> None:
    """Show a file; one without tensors goes byte for byte where no terminal would obey it."""
    if found.content is not None and not session.json and not sys.stdout.isatty():
        click.echo(found.content, nl=False)
    else:
        session.answer(found, details.file_details(found, session.screen, limit), paged=True)
