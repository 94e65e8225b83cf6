"""Kinds of options that several commands share."""

import math
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from mvcs.cli import completers
from mvcs.cli.completers import BEHIND
from mvcs.cli.foreign_words import Command
from mvcs.cli.session import Session
from mvcs.errors import LostError, MvcsError, NotFoundError, UsageError
from mvcs.memory import parse_size

_Option = click.Parameter | None
_Context = click.Context | None
Function = TypeVar("Function", bound=Callable[..., Any])
_LONGEST_NAME = 200
_LAST_STEP = (1 << 63) - 1
_ALLOWED = "mvcs.cli.options.allow_empty_message"
_NEEDED = {"hysteresis": "--step-size", "prune": "--bins", "protect": "--bins", "sigma": "--bins"}
_NO_FILE = re.compile(r"^(?:best:|step:)|[~^][0-9]*$|@\{[0-9]+\}")
_COUNT = re.compile(r"-([0-9]+)")


def _range(limits: click.IntRange | click.FloatRange) -> str:
    """Return a range in words; empty where every number is in it."""
    low = "" if limits.min is None else f"{'above' if limits.min_open else 'at least'} {limits.min:.6g}"
    high = "" if limits.max is None else f"{'below' if limits.max_open else 'at most'} {limits.max:.6g}"
    return ", ".join(filter(None, (low, high)))


class Finite(click.FloatRange):
    """A number in a range; nan and infinities are in none."""

    name = "number"
    _describe_range = _range

    def convert(self, value: Any, param: _Option, ctx: _Context) -> float:  # noqa: ANN401  # click's form
        """Read the number."""
        with suppress(click.BadParameter):
            number = float(super().convert(value, param, ctx))
            if math.isfinite(number):
                return number
        raise _not_in(_range(self), "a number", value, param, ctx)


class Whole(click.IntRange):
    """A whole number in a range."""

    name = "number"
    _describe_range = _range

    def convert(self, value: Any, param: _Option, ctx: _Context) -> int:  # noqa: ANN401  # click's form
        """Read the number."""
        with suppress(click.BadParameter):
            return int(super().convert(value, param, ctx))
        raise _not_in(_range(self), "a whole number", value, param, ctx)


def _not_in(limits: str, kind: str, value: object, option: _Option, context: _Context) -> UsageError:
    """Return the error for what is no number of a range; what the option is for is its hint."""
    name = max(option.opts, key=len) if option else "this"
    told = f"{name} takes {kind}{limits and f' ({limits})'}, not '{value}'"
    command = context.command_path if context else "mvcs"
    return UsageError(told, hint=f"{getattr(option, 'help', '')} See '{command} --help'")


def step(context: click.Context, parameter: click.Parameter, value: int | None) -> int | None:
    """Check a step number; its limit is the format's and too large to be shown in help."""
    if value is not None and not 0 <= value <= _LAST_STEP:
        raise click.BadParameter(f"{value} is not a step number", context, parameter)
    return value


def always(
    *names: str, text: str, callback: Callable[..., Any] | None = None
) -> Callable[[Function], Function]:
    """Add a flag of git for what a command does with and without it, or for what the callback does."""
    return click.option(*names, is_flag=True, expose_value=False, callback=callback, help=text)


def listing_options(function: Function) -> Function:
    """Add `--stat`, `--name-only` and `--name-status`, handed over as `listed`: one of them, or None."""
    for name, text in (
        ("--name-status", "Only their names, each with A (added), D (deleted) or M (modified)."),
        ("--name-only", "Only the names of files, or parts of a state, that differ."),
        ("--stat", "One line for each file, or part of a state, that differs; no values are read."),
    ):
        function = click.option(name, "listed", flag_value=name[2:], help=text)(function)
    return function


def files_argument(function: Function) -> Function:
    """Add `FILE...`, files and folders of the last commit, handed over as paths `files`; one at least."""
    return click.argument(
        "files",
        nargs=-1,
        required=True,
        type=click.Path(path_type=Path),
        metavar="FILE...",
        shell_complete=completers.files,
    )(function)


def exact_option(function: Function) -> Function:
    """Add `--exact`, for what restores a commit."""
    text = "The exact layer of a bounded commit; fails when it was dropped."
    return click.option("--exact", is_flag=True, help=text)(function)


def force_option(function: Function) -> Function:
    """Add `--force`, for what writes files in place."""
    text = "Overwrite files whose content is stored nowhere."
    return click.option("-f", "--force", is_flag=True, help=text)(function)


def author_option(function: Function) -> Function:
    """Add `--author`, for what makes a commit."""
    text = "Who commits (default: user.name of the configuration)."
    return click.option("--author", help=text)(function)


def message_option(text: str, *, required: bool = False) -> Callable[[Function], Function]:
    """Add `-m`, described by `text`, and `--allow-empty-message`, without which it has to say something."""
    message = click.option("-m", "--message", required=required, callback=_message, help=text)
    allow = click.option(
        "--allow-empty-message",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_allow_empty_message,
        help="Take a message that is empty.",
    )
    return lambda function: message(allow(function))


def _allow_empty_message(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001  # click's form
    context.meta[_ALLOWED] = value


def _message(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001  # click's form
    if value is not None and not value.strip() and not context.meta.get(_ALLOWED):
        raise UsageError(
            "the message is empty", hint="say something with -m, or commit without with --allow-empty-message"
        )
    return value


def metric_option(function: Function) -> Function:
    """Add `--metric NAME=NUMBER`, handed over as a dict `metrics`; nan, inf and -inf are numbers."""
    return click.option(
        "--metric",
        "metrics",
        metavar="NAME=NUMBER",
        multiple=True,
        shell_complete=completers.metric,
        callback=_metrics,
        help="A measurement, such as val_loss=2.1; repeat for more.",
    )(function)


def _metrics(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for value in values:
        # At the last equals sign: a name may hold one, a number may not.
        name, _, text = (part.strip() for part in value.rpartition("="))
        if not name or len(name) > _LONGEST_NAME:
            raise click.BadParameter(f"'{value}' is not of the form NAME=NUMBER", context, parameter)
        if name in found:
            raise click.BadParameter(f"'{name}' is given twice", context, parameter)
        found[name] = _number(text, name, context, parameter)
    return found


def _number(text: str, name: str, context: click.Context, parameter: click.Parameter) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"'{text}' is not a number, for metric '{name}'"
        raise click.BadParameter(message, context, parameter) from None


def _kinds(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for value in values:
        name, _, kind = (part.strip() for part in value.rpartition("="))
        if not name:
            raise click.BadParameter(f"'{value}' is not of the form NAME=KIND", context, parameter)
        if found.setdefault(name, kind) != kind:
            raise click.BadParameter(f"'{name}' is given twice", context, parameter)
    return found or None


moment_option = click.option(
    "--moment",
    "kinds",
    metavar="NAME=KIND",
    multiple=True,
    callback=_kinds,
    help="What a tensor in the state of an optimizer that is not known is: first, second, momentum,"
    " weight, iterate or exact; repeat for more. Later commits continue with it.",
)


def check_kinds(kinds: dict[str, str] | None, tier: object) -> None:
    """Refuse `--moment` beside a tier that somebody chose.

    Raises:
        click.UsageError: that is not auto.
    """
    if kinds is not None and tier != "auto":
        raise click.UsageError("--moment goes with --moments auto, which is its default")


class QuantizerOptions(TypedDict):
    """What the options of a quantizer say."""

    step_size: float | None
    hysteresis: float | None
    bins: int | None
    prune: float | None
    protect: float | None
    sigma: float | None
    moments: str | None
    kinds: dict[str, str] | None


_QUANTIZER_OPTIONS = (
    click.option(
        "--step-size",
        type=Finite(2**-16, 16),
        help="Round weights to multiples of this share of their layer type's root mean square, such as 0.5.",
    ),
    click.option(
        "--hysteresis",
        type=Finite(0, 0.5),
        help="With --step-size: how many steps beyond half of one a weight keeps its code (default 0.5).",
    ),
    click.option("--bins", type=Whole(2, 253), help="Quantize weights to N values each by k-means."),
    click.option(
        "--prune",
        type=Finite(0, 1, max_open=True),
        help="With --bins: the share of least important weights that becomes zero (default 0).",
    ),
    click.option(
        "--protect",
        type=Finite(0, 0.5, max_open=True),
        help="With --bins: the share of most important weights kept exactly (default 0).",
    ),
    click.option(
        "--sigma",
        type=Finite(0, 1),
        help="With --bins: how much k-means weighs frequency against magnitude.",
    ),
    click.option(
        "--moments",
        type=click.Choice(["exact", "resume", "light", "auto"]),
        help="With a quantizer: what is kept of an optimizer's moments (default resume);"
        " auto goes by the optimizer.",
    ),
    moment_option,
)


def quantizer_options(function: Function) -> Function:
    """Add the options that say how a commit is bounded, handed over as `QuantizerOptions`."""
    for option in reversed(_QUANTIZER_OPTIONS):
        function = option(function)
    return function


def quantizer_settings(options: QuantizerOptions) -> dict[str, Any]:
    """Return the keywords of `Repository.commit_files` that were given; none for an exact commit.

    Raises:
        click.UsageError: an option that means nothing without another, or does not go with it.
    """
    names = QuantizerOptions.__annotations__
    found = {name: value for name, value in options.items() if name in names and value is not None}
    found.pop("kinds", None)
    kinds = options["kinds"]
    if kinds is not None:
        check_kinds(kinds, found.setdefault("moments", "auto"))
    if "bins" in found and "step_size" in found:
        raise click.UsageError("--bins and --step-size are two ways to quantize: use one of them")
    chosen = {"--bins": "bins" in found, "--step-size": "step_size" in found}
    for name in found:
        needed = _NEEDED.get(name)
        if needed and not chosen[needed]:
            raise click.UsageError(f"--{name} needs {needed}: without a quantizer a commit is exact")
        if name == "moments" and not any(chosen.values()):
            given = "--moments" if kinds is None else "--moment"
            raise click.UsageError(f"{given} needs --step-size or --bins: without them a commit is exact")
    return found if kinds is None else found | {"moments": kinds}


def max_bytes_option(function: Function) -> Function:
    """Add `--max-bytes`, which the session keeps for the repository it opens."""
    return click.option(
        "--max-bytes",
        metavar="SIZE",
        expose_value=False,
        callback=_keep_max_bytes,
        help="Restore no more than this, such as 20GB (default: what memory, or the disk, holds).",
    )(function)


def _keep_max_bytes(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Session).max_bytes = _size(context, parameter, value)


def _size(context: click.Context, parameter: click.Parameter, value: str) -> int:
    """Read a number of bytes: 5000000, 500MB, 1.5GiB."""
    found = parse_size(value)
    if found is None:
        message = f"'{value}' is not a size such as 500MB or 1.5GiB"
        raise click.BadParameter(message, context, parameter)
    return found


def storage_option(function: Function) -> Function:
    """Add `--option KEY=VALUE`, a dict `options` of what a backend needs to know, and `--plain`."""
    return click.option(
        "--option",
        "options",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_options,
        help="An option of the store, such as endpoint_url=http://host:9000; repeat for more.",
    )(plain_option(function))


def plain_option(function: Function) -> Function:
    """Add `--plain`, which lets an unknown option of a store stand in a plain file."""
    return click.option(
        "--plain",
        is_flag=True,
        help="Let an option that is not known to be harmless stand in config.toml; secrets never do.",
    )(function)


def _options(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not key or not sign:
            raise click.BadParameter(f"'{value}' is not of the form KEY=VALUE", context, parameter)
        found[key] = _value(text)
    return found


def _value(text: str) -> object:
    """Return true, false and whole numbers as such: backends are picky about types."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


if TYPE_CHECKING:
    from mvcs.repository import Repository


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
