"""`mvcs commit`: record files as they are now."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from mvcs.cli.declaration import FAILED
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import (
    QuantizerOptions,
    Whole,
    always,
    author_option,
    message_option,
    metric_option,
    quantizer_options,
    quantizer_settings,
    step,
)
from mvcs.cli.session import Session
from mvcs.ui import commits, status

if TYPE_CHECKING:
    from mvcs.repository import Repository

EXAMPLE = """
mvcs commit model.safetensors -m "warm-up done" --step 500 --metric val_loss=2.1
mvcs commit -m "every file of the last commit again" --step-size 0.5
mvcs commit --dry-run
mvcs commit --amend -m "warm-up done, at last"
mvcs commit /data/llama.safetensors --as base.safetensors -m "as downloaded"
"""


class Options(QuantizerOptions):
    """What the options say."""

    message: str | None
    amend: bool
    everything: bool
    dry_run: bool
    step: int | None
    metrics: dict[str, float]
    name: str | None
    author: str | None
    only: bool
    replace: bool
    plain: bool
    allow_empty: bool


@declare("commit", "record files as they are now", example=EXAMPLE, exits=(1, 3, 4, 5, 6, 7))
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@message_option("What this state is.")
@click.option(
    "--amend",
    is_flag=True,
    help="Take the last commit's place; without FILE only its words change.",
)
@always("--no-edit", text="With --amend: keep the message, as without -m.")
@always("-n", "--no-verify", text="Run no hooks: there are none.")
@click.option(
    "-a",
    "--all",
    "everything",
    is_flag=True,
    help="All files of the last commit, as without FILE; 'mvcs rm' leaves out one that is gone.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be committed, and commit nothing.")
@click.option("--step", type=Whole(), callback=step, help="The optimizer step it was saved after.")
@metric_option
@quantizer_options
@click.option(
    "--as", "name", metavar="NAME", help="The path to record a single FILE under; a file elsewhere needs it."
)
@click.option(
    "--only", is_flag=True, help="Commit exactly what is named; the last commit's other files leave."
)
@click.option("--replace", is_flag=True, help="What is new takes the place of what it is stored near.")
@click.option("--plain", is_flag=True, help="Keep a damaged file as it is, byte for byte.")
@click.option("--allow-empty", is_flag=True, help="Commit also where nothing is new.")
@author_option
def command(session: Session, files: tuple[Path, ...], **options: Unpack[Options]) -> None:
    """Record FILEs (default: those of the last commit) as a new commit on the current branch.

    A FILE is a .safetensors or .npz file, one of torch.save by any name, or a folder of them.
    All come back byte for byte. Other files are kept as they are; with --plain so are damaged ones.
    The last commit's other files are kept as it has them, without being read; 'mvcs rm' leaves files out.
    What is gone from a FOLDER that is named leaves the commit. What a line of .mvcsignore matches in it,
    as in a .gitignore, is left out, but for what the last commit has. Links and modes are not kept.
    A new file whose name differs by a later step alone from the only such file of the last commit
    (step_2000.pt after step_1000.pt) takes its place. The answer lists
    what was kept, what is gone from the commit, and what is new.

    A file that changes while it is read ends the commit with a conflict, and nothing is recorded.
    Only a writer that leaves no trace in a file's size and times, as one may that keeps it mapped,
    can have it recorded half old and half new.

    Where content, step and metrics are those of the last commit, nothing is recorded.

    With --amend the new commit takes the place of the last one, which the reflog keeps: without FILE
    only its message, step, metrics and author change, and what is not given stays.
    """
    if options["everything"] and files:
        raise click.UsageError("-a takes all files of the last commit: leave FILE out, or -a")
    if options["only"] and not files:
        raise click.UsageError("--only needs a FILE")
    names = _names(files, options["name"])
    said, message = _said(names, options), options["message"]
    if message is None and not options["amend"] and not options["dry_run"]:
        raise click.MissingParameter(
            ctx=click.get_current_context(), param_hint="'-m' / '--message'", param_type="option"
        )
    with session.repository() as repository:
        if options["dry_run"]:
            _plan(session, repository, files, options, said)
            return
        if options["amend"]:
            info = repository.amend(files, message=message, everything=options["everything"], **said)
        else:
            info = repository.commit_files(
                files, message=message or "", allow_empty=options["allow_empty"], **said
            )
        for note in info.notes:
            session.tell(note)
        session.answer(info, commits.created(info, repository.branch))


def _plan(
    session: Session,
    repository: "Repository",
    files: tuple[Path, ...],
    options: Options,
    said: dict[str, Any],
) -> None:
    """Say what would be committed; as in git the exit code is 1 where that is nothing."""
    which = {name: said[name] for name in ("names", "only", "replaces", "plain")}
    rounded = quantizer_settings(options)
    reread = files or options["everything"] or rounded or not options["amend"]
    found = repository.plan_commit(files, **which) if reread else []
    session.answer(found, status.planned(found, repository.branch))
    more = (
        rounded
        or options["amend"]
        or options["allow_empty"]
        or options["metrics"]
        or options["step"] is not None
    )
    if not more and all(file.state == "unmodified" for file in found):
        click.get_current_context().exit(FAILED)


def _said(names: dict[Path | str, str] | None, options: Options) -> dict[str, Any]:
    return {
        "names": names,
        "step": options["step"],
        "metrics": options["metrics"],
        "author": options["author"],
        "only": options["only"],
        "replaces": options["replace"],
        "plain": options["plain"],
        **quantizer_settings(options),
    }


def _names(files: Sequence[Path], name: str | None) -> dict[Path | str, str] | None:
    if name is None:
        return None
    if len(files) != 1:
        raise click.UsageError("--as names a single FILE")
    return {files[0]: name}
