"""`mvcs clone`: a repository of one's own from another's store."""

from pathlib import Path

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.options import max_bytes_option, storage_option
from mvcs.cli.session import Session
from mvcs.ui.commits import oneline
from mvcs.ui.text import printable

EXAMPLE = """
mvcs clone s3://bucket/models/gpt
mvcs clone ../runs/gpt elsewhere
"""


@declare("clone", "a repository of one's own from another's store", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("url")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@storage_option
@max_bytes_option
def command(session: Session, url: str, path: Path | None, options: dict[str, object], plain: bool) -> None:
    """Copy the repository at URL to PATH (default: the last part of URL).

    Everything comes along but exact layers that nobody pushed; URL becomes the remote "origin".
    """
    from mvcs.repository import Repository

    with (
        session.working() as progress,
        Repository.clone(
            url,
            path,
            options=options,
            plain=plain,
            max_bytes=session.max_bytes,
            trust=session.trust,
            progress=progress,
        ) as made,
    ):
        for warning in made.warnings:
            session.tell(warning)
        head = made.head()
        top = str(made.top.absolute()) if made.top else made.url
        answer = {"path": top, "store": made.url, "branch": made.branch, "head": head}
        lines = [f"Cloned into {printable(top)}"]
        session.answer(
            answer, [*lines, oneline(head, [], session.screen) if head else "It has no commits yet"]
        )
