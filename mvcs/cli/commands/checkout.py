"""`mvcs checkout`: bring a state back, in place or elsewhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import RevisionsAndFiles, exact_option, force_option, max_bytes_option, sorted_words
from mvcs.cli.session import Session
from mvcs.machine import load
from mvcs.ui import checkouts

if TYPE_CHECKING:
    from mvcs.reports import ExportReport
    from mvcs.repository import Repository

EXAMPLE = """
mvcs checkout main~2
mvcs checkout best:val_loss -o best.safetensors
mvcs checkout main -o head.npz --tensor 'blocks.3.*'
mvcs checkout HEAD:model -o model.safetensors
mvcs checkout HEAD:model -o model.safetensors --strip-prefix module.
mvcs checkout main~2 model.safetensors
mvcs checkout -b low-lr step:1200
mvcs checkout --plan main~2
"""


class _Chosen(TypedDict):
    tensor: str | None
    strip_prefix: str | None
    plan: bool
    measure: bool
    detach: bool


@declare(
    "checkout",
    "bring a state back, in place or elsewhere",
    example=EXAMPLE,
    exits=(1, 3, 4, 5, 6, 7),
    cls=RevisionsAndFiles,
)
@click.argument("words", nargs=-1, metavar="[REV] [--] [FILE]...", shell_complete=completers.words)
@click.option("--detach", is_flag=True, help="Stand on the commit of REV (default: HEAD), on no branch.")
@click.option("-b", "branch", metavar="NAME", help="Make branch NAME at REV (default: HEAD), and go there.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Write there instead; the suffix says in which format, and a slash at the end that it is a folder.",
)
@click.option(
    "--tensor",
    metavar="GLOB",
    shell_complete=completers.tensor,
    help="With -o: only tensors whose name matches.",
)
@click.option(
    "--strip-prefix",
    metavar="TEXT",
    help="With -o: only tensors whose name begins so, or matches --tensor, named without it;"
    " 'module.' of DDP or '_orig_mod.' of torch.compile goes.",
)
@click.option(
    "--plan", is_flag=True, help="Say what would be read, and how long that takes; nothing is restored."
)
@click.option("--measure", is_flag=True, help="With --plan: measure this machine again, for two seconds.")
@exact_option
@force_option
@max_bytes_option
def command(  # one argument for each option
    session: Session,
    words: tuple[str, ...],
    branch: str | None,
    output: str | None,
    exact: bool,
    force: bool,
    **chosen: Unpack[_Chosen],
) -> None:
    """Restore the files of REV, in place, and move HEAD there; or write them elsewhere.

    In place, a branch name continues that branch, HEAD undoes changes, anything else detaches HEAD.
    Files that are already as REV has them are left alone. A file whose content is stored nowhere is refused.
    With FILEs only those come back, as REV (default: HEAD) has them, and HEAD stays.
    With -o nothing moves, and REV:FILE names a single file. A folder holds a commit of several files,
    or what lies in a FOLDER of one: REV:hf -o out writes out/config.json.
    A commit of a state has parts instead of files: HEAD:model -o model.safetensors writes one.

    With --plan nothing is restored: it says how many bytes are read in how many requests, and in what
    time, for which the first plan measures this machine. That is time of the processor, for reading,
    decoding and hashing; writing files is not counted. For a state without -o it is what Python's checkout
    takes. Footers and trees are read for it, and no values.
    """
    if chosen["tensor"] is not None and output is None:
        raise click.UsageError("--tensor needs -o: a part of a state cannot stand in for the whole")
    if chosen["strip_prefix"] is not None and output is None:
        raise click.UsageError("--strip-prefix needs -o: files in place keep their tensors' names")
    if branch is not None and output is not None:
        raise click.UsageError("-b goes to a branch and -o writes elsewhere: choose one")
    if chosen["detach"]:
        if len(words) > 1 or branch is not None or output is not None or chosen["plan"]:
            raise click.UsageError("--detach takes one REV alone")
        words = (f"{words[0] if words else 'HEAD'}~0",)
    if chosen["plan"] and branch is not None:
        raise click.UsageError("--plan says what restoring REV takes: leave -b out")
    if chosen["measure"] and not chosen["plan"]:
        raise click.UsageError("--measure goes with --plan")
    with session.repository() as repository:
        if chosen["plan"]:
            _plan(session, repository, words, output, chosen, exact=exact, force=force)
        elif branch is not None:
            _make_branch(session, repository, branch, words, exact=exact, force=force)
        elif output is not None:
            report = repository.export(
                _only(words),
                output,
                tensors=chosen["tensor"],
                strip_prefix=chosen["strip_prefix"],
                exact=exact,
                force=force,
            )
            _tell_export(session, report)
        else:
            _go(session, repository, words, exact=exact, force=force)


def _plan(
    session: Session,
    repository: "Repository",
    words: Sequence[str],
    output: str | None,
    chosen: _Chosen,
    *,
    exact: bool,
    force: bool,
) -> None:
    if len(words) > 1:
        raise click.UsageError("with --plan, name one REV, or one REV:FILE")
    rev = words[0] if words else "HEAD"
    in_place = output is None and repository.parts(rev) is None and repository.resolve_file(rev)[1] is None
    found = repository.checkout_plan(
        rev,
        output,
        in_place=in_place,
        tensors=chosen["tensor"],
        strip_prefix=chosen["strip_prefix"],
        exact=exact,
        force=force,
        measure=chosen["measure"],
    )
    session.answer(found, checkouts.planned(found, session.screen, load()))


def _only(words: Sequence[str]) -> str:
    if len(words) != 1:
        raise click.UsageError("with -o, name one REV, or one REV:FILE")
    return words[0]


def _make_branch(  # what was typed, for one call
    session: Session,
    repository: "Repository",
    name: str,
    words: Sequence[str],
    *,
    exact: bool,
    force: bool,
) -> None:
    if len(words) > 1:
        raise click.UsageError("-b takes the name of a branch and one REV where it starts")
    report = repository.switch(name, create_from=words[0] if words else "HEAD", exact=exact, force=force)
    session.answer(report, checkouts.checked_out(report, session.screen))


def _go(
    session: Session, repository: "Repository", words: Sequence[str], *, exact: bool, force: bool
) -> None:
    if list(words) == ["-"]:
        report = repository.switch("-", exact=exact, force=force)
        session.answer(report, checkouts.checked_out(report, session.screen))
        return
    revs, files = list(words), list[str]()
    if not _names_file(repository, words):
        revs, files = sorted_words(session, repository, words, most=1, elsewhere=True)
        if not revs and not files:
            raise click.UsageError("name a REV to go to, or FILEs to bring back")
        if not files:
            report = repository.checkout_files(revs[0], exact=exact, force=force)
            session.answer(report, checkouts.checked_out(report, session.screen))
            return
    found = repository.restore_files(files, rev=revs[0] if revs else "HEAD", exact=exact, force=force)
    session.answer(found, checkouts.restored(found, session.screen))


def _names_file(repository: "Repository", words: Sequence[str]) -> bool:
    """Tell whether a single word is of the form REV:FILE."""
    if len(words) != 1 or ":" not in words[0] or repository.knows_file(words[0]):
        return False
    return repository.resolve_file(words[0])[1] is not None


def _tell_export(session: Session, report: "ExportReport") -> None:
    note = checkouts.left_out(report)
    if note is not None:
        session.tell(note)
    session.answer(report, checkouts.exported(report, session.screen))
