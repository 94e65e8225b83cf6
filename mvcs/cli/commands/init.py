"""`mvcs init`: make a repository."""

from pathlib import Path

import click

from mvcs.cli.declaration import command as declare
from mvcs.cli.options import storage_option
from mvcs.cli.session import Session
from mvcs.local_files import normal_path
from mvcs.ui import printable

EXAMPLE = """
mvcs init runs/gpt
mvcs init --store s3://bucket/models/gpt
"""


@declare("init", "make a repository", example=EXAMPLE, exits=(4, 6, 7))
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option(
    "--store", metavar="URL", help="Put the shared part (packs, branches) there instead of into PATH/.mvcs."
)
@storage_option
def command(session: Session, path: Path, store: str | None, options: dict[str, object], plain: bool) -> None:
    """Make a repository in PATH (default: here).

    It lies in PATH/.mvcs. A store that exists already is joined, not changed.
    Where HEAD or mvcs.json of a repository is missing or damaged, it is written again.
    """
    from mvcs.repository import Repository

    done = "Mended the" if (path / ".mvcs").exists() else "Made a"

    with (
        session.working() as progress,
        Repository.init(
            path, store=store, options=options, plain=plain, trust=session.trust, progress=progress
        ) as made,
    ):
        for warning in made.warnings:
            session.tell(warning)
        top = str(normal_path(path))
        where = f", its store at {printable(made.url)}" if store else ""
        answer = {"path": top, "store": made.url, "branch": made.branch}
        session.answer(answer, [f"{done} repository in {printable(top)}{where}"])
