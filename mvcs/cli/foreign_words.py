"""Words of git that mvcs does not have, each with what to type instead; and the nearest of its own words."""

import re
from collections.abc import Iterable

import click

from mvcs.errors import UsageError, meant

_STAGED = "nothing is staged"
_LATER = "mvcs does not have '{}' yet"
_NEARNESS = 0.8  # a letter too many, too few or swapped; less than that is another word
_BELOW_ZERO = re.compile(r"-\.?[0-9].*")

COMMANDS = {
    "add": f"{_STAGED}, so 'add' is not needed: mvcs commit FILE -m MESSAGE",
    "stage": f"{_STAGED}, so 'stage' is not needed: mvcs commit FILE -m MESSAGE",
    "stash": "there is no 'stash': mvcs switch -c NAME and mvcs commit -m MESSAGE put changes aside, "
    "mvcs switch main goes back",
    "rebase": "commits are not moved to another place, so there is no 'rebase': "
    "mvcs switch -c NAME REV continues from any commit",
    "clean": "mvcs deletes no file that it does not have, so there is no 'clean': "
    "mvcs status lists those files",
    "merge": _LATER.format("merge") + ": mvcs pull moves a branch forward, mvcs diff A B compares two",
    "revert": _LATER.format("revert") + ": mvcs restore --source REV~1 FILE, then mvcs commit -m MESSAGE",
    "cherry-pick": _LATER.format("cherry-pick")
    + ": mvcs restore --source REV FILE, then mvcs commit -m MESSAGE",
    "blame": _LATER.format("blame") + ": mvcs diff A B tells which tensors moved between two commits",
    "annotate": _LATER.format("annotate") + ": mvcs diff A B tells which tensors moved between two commits",
    "bisect": _LATER.format("bisect") + ": mvcs log shows metrics, and best:val_loss names the best commit",
    "grep": _LATER.format("grep") + ": mvcs checkout REV -o FILE --tensor GLOB writes the tensors that match",
    "merge-base": _LATER.format("merge-base") + ": mvcs log --graph --all shows where branches part",
    "mergetool": _LATER.format("merge") + ": mvcs diff A B compares two commits",
    "difftool": "there is no 'difftool': mvcs diff A B compares two commits",
    "worktree": "there is no 'worktree': mvcs clone URL FOLDER, or mvcs checkout REV -o FOLDER",
    "submodule": "there is no 'submodule': mvcs -C FOLDER works in another repository",
    "sparse-checkout": "there is no 'sparse-checkout': mvcs checkout REV FILE brings single files",
    "archive": "there is no 'archive': mvcs checkout REV -o FOLDER writes the files of a commit",
    "describe": "there is no 'describe': mvcs log --oneline shows the tags there are",
    "notes": "there is no 'notes': mvcs note REV --metric NAME=NUMBER adds what is learned later",
    "shortlog": "there is no 'shortlog': mvcs log --oneline",
    "whatchanged": "there is no 'whatchanged': mvcs diff A B tells what changed between two commits",
    "ls-tree": "there is no 'ls-tree': mvcs show REV lists the files and tensors of a commit",
    "ls-remote": "there is no 'ls-remote': mvcs fetch NAME, then mvcs log NAME/main",
    "show-ref": "there is no 'show-ref': mvcs branch, mvcs tag",
    "for-each-ref": "there is no 'for-each-ref': mvcs branch --json, mvcs tag --json",
    "update-ref": "there is no 'update-ref': mvcs reset REV moves the current branch",
    "symbolic-ref": "there is no 'symbolic-ref': mvcs switch NAME, mvcs rev-parse --abbrev-ref HEAD",
    "apply": "commits are not patches, so there is no 'apply': mvcs pull brings those of others",
    "am": "commits are not patches, so there is no 'am': mvcs pull brings those of others",
    "format-patch": "commits are not patches, so there is no 'format-patch': mvcs push gives them to others",
    "bundle": "there is no 'bundle': mvcs remote add NAME FOLDER and mvcs push NAME copy into any folder",
    "prune": "there is no 'prune': mvcs gc deletes what nothing needs",
    "repack": "there is no 'repack': mvcs compact rewrites commits, mvcs gc deletes what nothing needs",
    "maintenance": "there is no 'maintenance': mvcs gc deletes what nothing needs, mvcs fsck checks all",
    "lfs": "large files are what mvcs is for, so there is no 'lfs': mvcs commit FILE -m MESSAGE",
    "filter-branch": "history is not rewritten, so there is no 'filter-branch'",
}

_HUNKS = "there are no parts of tensors to choose from: name whole files"
_INDEX = f"{_STAGED}: mvcs diff compares the last commit with the folder"
_DELETED = "mvcs -C URL branch -d NAME deletes a branch over there"
_FIELDS = "mvcs log --json gives every field, mvcs log --oneline one line a commit"

_TRACK = "a branch that is made at one of a remote follows it: mvcs switch -c NAME origin/NAME"
_SIGNED = "commits are not signed: their ids are hashes of all they hold"

OPTIONS = {
    ("commit", "-p"): _HUNKS,
    ("commit", "--patch"): _HUNKS,
    ("commit", "--fixup"): "history is not rewritten later, but mvcs commit --amend replaces the last commit",
    ("checkout", "-p"): _HUNKS,
    ("checkout", "--patch"): _HUNKS,
    ("checkout", "-B"): "mvcs branch -f NAME REV moves a branch that exists, then mvcs switch NAME",
    ("checkout", "-t"): _TRACK,
    ("checkout", "--track"): _TRACK,
    ("switch", "-t"): _TRACK,
    ("switch", "--track"): _TRACK,
    ("commit", "-S"): _SIGNED,
    ("commit", "--gpg-sign"): _SIGNED,
    ("switch", "-C"): "mvcs branch -f NAME REV moves a branch that exists, then mvcs switch NAME",
    ("switch", "-d"): "mvcs checkout --detach REV stands on a commit without a branch",
    ("switch", "--detach"): "mvcs checkout --detach REV stands on a commit without a branch",
    ("restore", "-p"): _HUNKS,
    ("restore", "--patch"): _HUNKS,
    ("restore", "-S"): f"{_STAGED}, so there is nothing to unstage",
    ("restore", "--staged"): f"{_STAGED}, so there is nothing to unstage",
    ("reset", "-p"): _HUNKS,
    ("reset", "--keep"): "mvcs reset --hard refuses to lose what is stored nowhere, as '--keep' does",
    ("reset", "--merge"): "mvcs reset --hard refuses to lose what is stored nowhere, as '--merge' does",
    ("diff", "--staged"): _INDEX,
    ("diff", "--cached"): _INDEX,
    ("init", "--bare"): "mvcs init --store URL puts what is shared into a folder of its own, or behind a URL",
    ("init", "-b"): "the first branch is 'main': before the first commit, mvcs switch -c NAME changes that",
    ("init", "--initial-branch"): "the first branch is 'main': before the first commit, "
    "mvcs switch -c NAME changes that",
    ("clone", "--depth"): "a clone has the whole history, which is small: leave out '--depth'",
    ("clone", "--bare"): "mvcs remote add NAME FOLDER and mvcs push NAME --all copy a store alone",
    ("push", "-d"): _DELETED,
    ("push", "--delete"): _DELETED,
    ("fetch", "--all"): "mvcs remote lists the remotes, and mvcs fetch NAME fetches from one",
    ("log", "--pretty"): _FIELDS,
    ("log", "--format"): _FIELDS,
    (
        "log",
        "--follow",
    ): "a file is looked for by its name: mvcs log takes several names, and so the older one too",
    ("branch", "-c"): "mvcs branch NEW OLD makes a branch where another one is",
    ("branch", "--copy"): "mvcs branch NEW OLD makes a branch where another one is",
    ("tag", "-f"): "tags do not move: mvcs tag -d NAME, then mvcs tag NAME REV",
    ("tag", "--force"): "tags do not move: mvcs tag -d NAME, then mvcs tag NAME REV",
    ("pull", "--rebase"): "commits are not moved to another place: where both sides moved on, "
    "mvcs branch NAME keeps yours",
    ("retention set", "--pinned"): "pinned commits stay whatever the rules say: mvcs retention pin REV",
}


def nearest(word: str, words: Iterable[str]) -> str:
    """Return `; did you mean 'WORD'?` for the word that was meant; nothing where none is near enough."""
    near = meant(word, list(words), _NEARNESS)
    return f"; {near}" if near else ""


def refuse_command(context: click.Context, path: str, word: str, words: Iterable[str]) -> None:
    """Say what to type instead of a command that is not there.

    Args:
        context: where it was typed.
        path: the words before it, with a space behind; empty at the top.
        word: what was typed.
        words: the commands there are.

    Raises:
        UsageError: it is a word of git, and this is the answer.
        click.UsageError: it is nobody's.
    """
    answer = COMMANDS.get(path + word)
    if answer is not None:
        raise UsageError(answer)
    context.fail(f"there is no command '{path}{word}'{nearest(word, words)}")


class Command(click.Command):
    """A command that says what to type instead of an option that is not there."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read what was typed.

        Raises:
            UsageError: there is an option of git in it, and this is the answer.
            click.NoSuchOption: there is an option in it that is nobody's.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            answer = OPTIONS.get((ctx.command_path.partition(" ")[2], error.option_name))
            if answer is not None:
                raise UsageError(answer) from error
            long = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
            message = f"no such option '{error.option_name}'{nearest(error.option_name, long)}"
            raise click.NoSuchOption(error.option_name, message, ctx=ctx) from error


class ValueCommand(Command):
    """A command whose last argument is a value: a number below zero is one, and no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read what was typed; numbers below zero go behind two dashes, unless somebody put them there."""
        if "--" not in args:
            below = [word for word in args if _BELOW_ZERO.fullmatch(word)]
            args = [word for word in args if word not in below] + (["--", *below] if below else [])
        return super().parse_args(ctx, args)


class Group(Command, click.Group):
    """A command with commands of its own."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed; say what to type where there is none."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            path = "" if ctx.parent is None else f"{self.name} "
            refuse_command(ctx, path, args[0], known)
        return super().resolve_command(ctx, args)
