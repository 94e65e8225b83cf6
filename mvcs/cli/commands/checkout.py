"""`mvcs checkout`: bring a state back, in place or elsewhere."""

from typing import TYPE_CHECKING

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.options import max_bytes_option
from mvcs.cli.session import Session
from mvcs.ui.checkouts import checked_out, exported, left_out

if TYPE_CHECKING:
    from mvcs.repository import Repository

EXAMPLE = """
mvcs checkout main~2
mvcs checkout best:val_loss -o best.safetensors
mvcs checkout main -o head.npz --tensor 'blocks.3.*'
"""


@declare("checkout", "bring a state back, in place or elsewhere", example=EXAMPLE, exits=(1, 3, 4, 5, 6, 7))
@click.argument("rev")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Write there instead; the suffix says in which format, and a slash at the end that it is a folder.",
)
@click.option("--tensor", metavar="GLOB", help="With -o: only tensors whose name matches.")
@click.option("--exact", is_flag=True, help="The exact layer of a bounded commit; fails when it was dropped.")
@click.option("--force", is_flag=True, help="Overwrite files whose content is stored nowhere.")
@max_bytes_option
def command(
    session: Session, rev: str, output: str | None, tensor: str | None, exact: bool, force: bool
) -> None:
    """Restore the files of REV, in place, and move HEAD there; or write them elsewhere.

    In place, a branch name continues that branch, HEAD undoes changes, anything else detaches HEAD.
    Files that are already as REV has them are left alone. A file whose content is stored nowhere is refused.
    With -o nothing moves.
    A folder holds a commit of several files.
    """
    if tensor is not None and output is None:
        raise click.UsageError("--tensor needs -o: a part of a state cannot stand in for the whole")
    with session.repository() as repository:
        if output is None:
            report = repository.checkout_files(rev, exact=exact, force=force)
            session.answer(report, checked_out(report, session.screen))
        else:
            _export(session, repository, rev, output, tensor, exact, force)


def _export(  # what was typed, for one call
    session: Session,
    repository: "Repository",
    rev: str,
    output: str,
    tensor: str | None,
    exact: bool,
    force: bool,
) -> None:
    report = repository.export(rev, output, tensors=tensor, exact=exact, force=force)
    if report.left_out:
        session.tell(left_out(report))
    session.answer(report, exported(report, session.screen))
