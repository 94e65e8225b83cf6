"""`mvcs branch`: list, make, delete and rename branches."""

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session
from mvcs.ui import names, printable

if TYPE_CHECKING:
    from mvcs.repository import Repository

EXAMPLE = """
mvcs branch -av
mvcs branch low-lr step:1200
mvcs branch -f low-lr step:1300
mvcs branch -m low-lr lr-1e-5
mvcs branch -d lr-1e-5
"""


class Options(TypedDict):
    """What is to be done, and how."""

    listing: bool
    everything: bool
    remotes: bool
    verbose: int
    current: bool
    delete: bool
    discard: bool
    move: bool
    upstream: str | None
    unset: bool
    force: bool


_ACTIONS = ("delete", "discard", "move", "upstream", "unset", "current")
_LISTINGS = ("listing", "everything", "remotes", "verbose")


@declare("branch", "list, make, delete and rename branches", example=EXAMPLE, exits=(3, 4, 5, 6, 7))
@click.argument("words", nargs=-1, metavar="[NAME] [REV]", shell_complete=completers.named)
@click.option("-l", "--list", "listing", is_flag=True, help="List; NAMEs are patterns such as 'run-*'.")
@click.option("-a", "--all", "everything", is_flag=True, help="List branches of remotes as well.")
@click.option("-r", "--remotes", is_flag=True, help="List branches of remotes, as last seen.")
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="List with steps and messages, and how far a branch is from what it follows; -vv: what that is.",
)
@click.option("--show-current", "current", is_flag=True, help="The current branch alone.")
@click.option(
    "-d", "--delete", is_flag=True, help="Delete branches NAME...; commits stay in the reflog for a while."
)
@click.option("-D", "discard", is_flag=True, help="The same, also when their commits are on no other branch.")
@click.option("-m", "-M", "--move", is_flag=True, help="Rename a branch: [OLD] NEW.")
@click.option(
    "-u",
    "--set-upstream-to",
    "upstream",
    metavar="REMOTE/BRANCH",
    shell_complete=completers.upstream,
    help="What NAME, or this branch, follows.",
)
@click.option("--unset-upstream", "unset", is_flag=True, help="Forget what NAME, or this branch, follows.")
@click.option("-f", "--force", is_flag=True, help="Move NAME to REV where it exists; with -d: as -D.")
def command(session: Session, words: tuple[str, ...], **options: Unpack[Options]) -> None:
    """List branches, or make branch NAME at REV (default: HEAD) without switching to it.

    A branch made at one of a remote, such as origin/main, follows it: push, pull and status know it.
    """
    _check(words, options)
    with session.repository() as repository:
        done = _done(repository, words, options)
        local = not options["remotes"] or options["everything"]
        found = repository.branches(
            words if options["listing"] else (),
            local=local,
            remote=options["everything"] or options["remotes"],
            details=options["verbose"] > 0,
        )
        if options["current"]:
            name = repository.branch
            session.answer({"branch": name}, [printable(name)] if name else [])
        elif done:
            session.answer(found, done)
        else:
            session.answer(found, names.branches(found, session.screen, options["verbose"]), paged=True)


def _check(words: tuple[str, ...], options: Options) -> None:
    """Refuse what goes together with nothing."""
    actions = [name for name in _ACTIONS if options[name]]  # type: ignore[literal-required]  # of those above
    listed = any(options[name] for name in _LISTINGS)  # type: ignore[literal-required]  # of those above
    if len(actions) > 1 and set(actions) != {"delete", "discard"}:
        raise click.UsageError("one thing at a time: delete, rename, or say what a branch follows")
    if actions and listed:
        raise click.UsageError("-l, -a, -r and -v list, and go with nothing that changes branches")
    if options["force"] and (listed or not words or not {"delete", "discard"}.issuperset(actions)):
        raise click.UsageError("--force moves or deletes a branch: name it")
    if words and listed and not options["listing"]:
        raise click.UsageError("-a, -r and -v list; with a pattern add -l")
    least, most = _counts(actions, listed=listed)
    if not least <= len(words) <= most:
        raise click.UsageError("name a branch" if len(words) < least else f"'{words[-1]}' is too much")


def _counts(actions: list[str], *, listed: bool) -> tuple[int, float]:
    """Return how few and how many words there may be."""
    if listed or "delete" in actions or "discard" in actions:
        return (0 if listed else 1), float("inf")
    if actions == ["current"]:
        return 0, 0
    return (1, 2) if actions == ["move"] else (0, 1) if actions else (0, 2)


def _done(repository: "Repository", words: tuple[str, ...], options: Options) -> list[str]:
    """Change branches, and say what was done; nothing where they are only listed."""
    if options["delete"] or options["discard"]:
        return _deleted(repository, words, force=options["discard"] or options["force"])
    if options["move"]:
        old, new = words if len(words) > 1 else (_current(repository), words[0])
        repository.rename_branch(old, new)
        return [f"Renamed branch {printable(old)} to {printable(new)}"]
    if options["upstream"] or options["unset"]:
        name = words[0] if words else _current(repository)
        repository.set_upstream(name, options["upstream"])
        return [_follows(repository, name)]
    if words and not options["listing"]:
        left = repository.create_branch(*words, force=options["force"])
        made = [
            f"Moved branch {printable(words[0])} (was {left[:12]})"
            if left
            else f"Made branch {printable(words[0])}"
        ]
        return made if repository.upstream(words[0]) is None else [*made, _follows(repository, words[0])]
    return []


def _deleted(repository: "Repository", unwanted: tuple[str, ...], *, force: bool) -> list[str]:
    done = []
    for name in unwanted:
        commit = repository.delete_branch(name, force=force)
        was = "" if commit is None else f" (was {commit[:12]})"
        done.append(f"Deleted branch {printable(name)}{was}")
    return done


def _current(repository: "Repository") -> str:
    if repository.branch is None:
        raise click.UsageError("HEAD is on no branch: name one")
    return repository.branch


def _follows(repository: "Repository", name: str) -> str:
    upstream = repository.upstream(name)
    return f"Branch {printable(name)} follows {printable(upstream) if upstream else 'nothing'}"
