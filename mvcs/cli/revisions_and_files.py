"""What stands behind a command: revisions first, then files, as in git; `--` parts them."""

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mvcs.cli.completers import BEHIND
from mvcs.cli.foreign_words import Command
from mvcs.cli.session import Session
from mvcs.errors import LostError, MvcsError, NotFoundError, UsageError

if TYPE_CHECKING:
    from mvcs.repository import Repository

_NO_FILE = re.compile(r"^(?:best:|step:)|[~^][0-9]*$|@\{[0-9]+\}")
_COUNT = re.compile(r"-([0-9]+)")


class RevisionsAndFiles(Command):
    """A command that remembers what stood behind `--`, and where it has `--number` takes `-3` for that."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before `--`; what stands behind is files."""
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta[BEHIND] = args[cut + 1 :] if "--" in args else None
        counts = any("--number" in parameter.opts for parameter in self.params)
        return super().parse_args(ctx, [_spelled_out(word) if counts else word for word in args[:cut]])


def _spelled_out(word: str) -> str:
    match = _COUNT.fullmatch(word)
    return f"--number={match[1]}" if match else word


def sorted_words(
    session: Session,
    repository: "Repository",
    words: Sequence[str],
    most: int | None = None,
    *,
    elsewhere: bool = False,
) -> tuple[list[str], list[str]]:
    """Return which of some words are revisions and which are files, with those behind `--`.

    Args:
        session: is told of a word that could be both.
        repository: knows both.
        words: what stands before `--`.
        most: how many revisions there may be.
        elsewhere: whether a branch that only remotes have counts as a revision.

    Raises:
        MvcsError: a word is neither.
        click.UsageError: there are too many revisions.
    """
    behind: list[str] | None = click.get_current_context().meta.get(BEHIND)
    revisions: list[str] = []
    for index, word in enumerate(words):
        is_file = behind is None and repository.knows_file(word)
        problem = _problem(repository, word)
        if problem is not None and elsewhere and repository.is_only_remote(word):
            problem = None
        if problem is not None and is_file:
            return _few(revisions, most), list(words[index:])
        if problem is not None:
            raise _neither(problem, words, word, dashed=behind is not None)
        if is_file:
            session.tell(f"'{word}' was taken as a revision; the file of that name is meant behind --")
        revisions.append(word)
    return _few(revisions, most), behind or []


def file_instead(repository: "Repository", word: str, error: NotFoundError) -> NotFoundError:
    """Return the error for a word that is no revision; where it is a file, with what is said of that."""
    if not repository.knows_file(word):
        return error
    changed = f"'mvcs log -- {shlex.quote(word)}' lists the commits that changed this one"
    return NotFoundError(error.message, hint=f"'mvcs show HEAD:FILE' shows a file of HEAD; {changed}")


def _few(revisions: list[str], most: int | None) -> list[str]:
    if most is not None and len(revisions) > most:
        raise click.UsageError(f"at most {most} revisions can be named, and '{revisions[most]}' is one more")
    return revisions


def _problem(repository: "Repository", word: str) -> MvcsError | None:
    """Return why a word is no revision; None where it is one."""
    try:
        repository.resolve(word)
    except MvcsError as error:
        return error
    return None


def _neither(problem: MvcsError, words: Sequence[str], word: str, *, dashed: bool) -> MvcsError:
    typed = None if dashed or not isinstance(problem, UsageError) else _files_behind(words)
    if typed is not None:
        return UsageError(problem.message, hint=f"files stand behind the commits: {typed}")
    is_named = isinstance(problem, LostError)  # it is a revision, whose commit is gone
    if dashed or is_named or not isinstance(problem, NotFoundError) or _NO_FILE.search(word):
        return problem
    hint = f"{problem.hint}; a file that is gone stands behind two dashes: -- {word}"
    return NotFoundError(problem.message, hint=hint)


def _files_behind(words: Sequence[str]) -> str | None:
    """Return what to type instead of `REV:FILE` where a commit is wanted; None where files differ."""
    from mvcs.history import split_revision_file

    pairs = [split_revision_file(word) or (word, None) for word in words]
    files = {file for _, file in pairs if file}
    if len(files) != 1 or any("://" in word for word in words):  # an address may hold a secret
        return None
    return shlex.join(
        [*click.get_current_context().command_path.split(), *(rev for rev, _ in pairs), "--", *files]
    )
