"""What can stand for an argument or an option: asked of the repository at hand while somebody types."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mvcs.cli.session import Session
from mvcs.errors import MvcsError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mvcs.repository import Candidate, Candidates

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
Finder = Callable[["Candidates", click.Context, str], "Sequence[Candidate]"]
BEHIND = "mvcs.cli.options"  # where a command keeps what stood behind `--`
_MANY = 60


def _completer(find: Finder, *, files: bool = False) -> Completer:
    """Return what asks the repository; with `files` the shell offers the folder's where nothing is found."""

    def complete(context: click.Context, parameter: click.Parameter, start: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        given = context.params.get(parameter.name or "") or ()
        taken = given if isinstance(given, tuple) else ()
        found: list[CompletionItem] = []
        with contextlib.suppress(MvcsError, OSError, ValueError), _candidates(context) as candidates:
            found = [
                CompletionItem(one.text, type="plain" if one.whole else "part", help=one.about or None)
                for one in find(candidates, context, start)
                if one.text.startswith(start) and one.text not in taken
            ]
        return found or ([CompletionItem("", type="file")] if files else [])

    return complete


@contextlib.contextmanager
def _candidates(context: click.Context) -> "Iterator[Candidates]":
    from mvcs.repository import Candidates

    where = Path(context.find_root().params.get("where") or ".")
    with contextlib.chdir(where), Candidates(Path(), context.ensure_object(Session).trust) as found:
        yield found


def _revision(candidates: "Candidates", _: click.Context, start: str) -> "Sequence[Candidate]":
    return candidates.revisions(start)


def _revision_or_its_file(candidates: "Candidates", _: click.Context, start: str) -> "Sequence[Candidate]":
    if ":" in start:
        with contextlib.suppress(MvcsError):
            found = candidates.files_of(start)
            if found:
                return found
    return candidates.revisions(start)


def _word(candidates: "Candidates", context: click.Context, start: str) -> "Sequence[Candidate]":
    if context.meta.get(BEHIND) is not None:
        return candidates.files(start, Path())
    return _revision_or_its_file(candidates, context, start) or candidates.files(start, Path())


def _file(candidates: "Candidates", _: click.Context, start: str) -> "Sequence[Candidate]":
    return candidates.files(start, Path())


def _branch(candidates: "Candidates", _: click.Context, __: str) -> "Sequence[Candidate]":
    return candidates.refs("heads")


def _upstream(candidates: "Candidates", _: click.Context, __: str) -> "Sequence[Candidate]":
    return candidates.refs("remotes")


def _remote(candidates: "Candidates", _: click.Context, __: str) -> "Sequence[Candidate]":
    return candidates.remotes()


def _pushed(candidates: "Candidates", _: click.Context, __: str) -> "Sequence[Candidate]":
    return candidates.refs("heads", "tags")


def _setting(candidates: "Candidates", _: click.Context, __: str) -> "Sequence[Candidate]":
    return candidates.settings()


def _switched(candidates: "Candidates", context: click.Context, _: str) -> "Sequence[Candidate]":
    """Return branches; for a new one there is nothing to offer."""
    return [] if context.params.get("create") else candidates.to_switch()


def _named(candidates: "Candidates", context: click.Context, start: str) -> "Sequence[Candidate]":
    """Return what `branch` and `tag` take: their own names to change them, a revision behind a new one."""
    params = context.params
    changed = any(params.get(name) for name in ("delete", "discard", "move", "upstream", "unset", "listing"))
    if changed:
        return candidates.refs("tags" if context.info_name == "tag" else "heads")
    return candidates.revisions(start) if len(params.get("words") or ()) == 1 else []


def commands(context: click.Context, parameter: click.Parameter, start: str) -> "list[CompletionItem]":
    """Return the commands below those that stand there already."""
    from click.shell_completion import CompletionItem

    above: click.Command | None = context.find_root().command
    for word in context.params.get(parameter.name or "") or ():
        above = above.get_command(context, word) if isinstance(above, click.Group) else None
    if not isinstance(above, click.Group):
        return []
    names = [name for name in above.list_commands(context) if name.startswith(start)]
    found = [(name, above.get_command(context, name)) for name in names]
    return [CompletionItem(name, help=made.get_short_help_str()) for name, made in found if made]


def folder(context: click.Context, parameter: click.Parameter, start: str) -> "list[CompletionItem]":  # noqa: ARG001  # click's form
    """Leave it to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(start, type="dir")]


def _tensor(candidates: "Candidates", context: click.Context, start: str) -> "Sequence[Candidate]":
    from glob import escape

    from mvcs.repository import Candidate, grouped_by_part

    # Where an option lacks its value, click leaves the arguments as they were typed.
    words = context.params.get("words") or context.args or ("HEAD",)
    names = [escape(name) for name in candidates.tensors(words[0], start)]
    return grouped_by_part(names, start, ".") if len(names) > _MANY else [Candidate(name) for name in names]


def _metric(candidates: "Candidates", _: click.Context, __: str) -> "Sequence[Candidate]":
    from mvcs.repository import Candidate

    return [Candidate(f"{name}=", "metric", whole=False) for name in candidates.metrics()]


revision = _completer(_revision)
revision_or_file = _completer(_revision_or_its_file)
words = _completer(_word, files=True)
files = _completer(_file, files=True)
branch = _completer(_branch)
switched = _completer(_switched)
named = _completer(_named)
upstream = _completer(_upstream)
remote = _completer(_remote)
pushed = _completer(_pushed)
metric = _completer(_metric)
setting = _completer(_setting)
tensor = _completer(_tensor)
