"""`mvcs clone`: a repository of one's own from another's store."""

from pathlib import Path

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import max_bytes_option, storage_option
from mvcs.cli.session import Session
from mvcs.local_files import normal_path
from mvcs.ui import cloned

EXAMPLE = """
mvcs clone s3://bucket/models/gpt
mvcs clone ../runs/gpt elsewhere
"""


@declare("clone", "a repository of one's own from another's store", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("url", shell_complete=completers.folder)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option(
    "-b",
    "--branch",
    metavar="NAME",
    help="Stand on this branch, or detached on this tag (default: the branch that is shared as such).",
)
@storage_option
@max_bytes_option
def command(
    session: Session, url: str, path: Path | None, branch: str | None, options: dict[str, object], plain: bool
) -> None:
    """Copy the repository at URL to PATH (default: the last part of URL).

    Everything comes along but exact layers: files hold what bounded commits restore without them.
    URL becomes the remote "origin"; 'mvcs -C URL checkout REV -o PATH --exact' reads exact values there,
    where they are kept: a push sends them with --exact alone.
    """
    from mvcs.repository import Repository, store_address

    with (
        session.working() as progress,
        Repository.clone(
            url,
            path,
            branch=branch,
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
        top = str(normal_path(made.top)) if made.top else made.url
        layer = None if head is None else "value" if head.bounded else "exact"
        parts = None if head is None else made.parts()
        answer = {"path": top, "store": made.url, "branch": made.branch, "head": head, "layer": layer}
        exact = head is not None and head.bounded and made.remote_keeps_exact("origin")
        origin = store_address(made.remotes()["origin"]) if exact else None
        lines = cloned(top, origin, head, parts, session.screen)
        session.answer({**answer, "parts": parts, "exact_at_origin": exact}, lines)
