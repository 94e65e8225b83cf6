"""`mvcs tune`: settings chosen by a function of one's own, and what bounded states cost."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import click

from mvcs.cli import completers
from mvcs.cli.declaration import FAILED
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import Finite, Whole, check_kinds, metric_option, moment_option, step
from mvcs.cli.session import Session
from mvcs.errors import UsageError
from mvcs.ui import tune_report

EXAMPLE = """
mvcs tune model.safetensors --eval validate:loss
mvcs tune model.pt --eval validate:accuracy --goal max --max-degradation 0.005 --commit -m "epoch 3"
mvcs tune model.safetensors --eval validate:loss --method inshrinkerator
mvcs tune HEAD --resume --train train:resume
mvcs tune best:val_loss --resume --train train:resume --moments light --moments resume --steps 200
"""
_STEPS, _DEGRADATION = 100, 0.01
_EVAL = {
    "method": "--method",
    "max_degradation": "--max-degradation",
    "goal": "--goal",
    "evaluations": "--evaluations",
    "seconds": "--seconds",
    "commit": "--commit",
    "message": "--message",
    "step": "--step",
    "metrics": "--metric",
    "kinds": "--moment",
}
_RESUME = {"train": "--train", "steps": "--steps", "note": "--note"}
_EXACT = "the files are committed exactly"
_NONE_KEPT = ", since no candidate kept the bound"
_REFUSED = (
    "no settings were found that keep the bound: accept more with --max-degradation, or try more with"
    " --evaluations and --seconds; --commit commits the files exactly then"
)
_COMMIT = ("message", "step", "metrics")


class Options(TypedDict):
    """What the options say."""

    function: str | None
    method: Literal["lattice", "inshrinkerator"] | None
    max_degradation: float | None
    goal: str | None
    evaluations: int | None
    seconds: float | None
    commit: bool
    message: str | None
    step: int | None
    metrics: dict[str, float]
    resume: bool
    train: str | None
    steps: int | None
    note: bool
    tiers: tuple[str, ...]
    kinds: dict[str, str] | None


@declare("tune", "settings chosen by your own evaluation", example=EXAMPLE, exits=(1, 3, 4, 5, 6, 7))
@click.argument("targets", nargs=-1, metavar="[FILE...|REV]", shell_complete=completers.words)
@click.option(
    "--eval", "function", metavar="MODULE:FUNCTION", help="Judges: function(state) gives a number or batches."
)
@click.option(
    "--method",
    type=click.Choice(["lattice", "inshrinkerator"]),
    help="What is searched: rounding steps (lattice, the default), or the published code tables.",
)
@click.option(
    "--max-degradation",
    type=Finite(0, min_open=True),
    help="How much worse a restored state may be, as a share (default 0.01, for 1 %).",
)
@click.option("--goal", type=click.Choice(["min", "max"]), help="Which way is better (default min, a loss).")
@click.option(
    "--evaluations",
    type=Whole(1),
    help="How many candidates are evaluated, at most (default 8; inshrinkerator takes what it needs).",
)
@click.option(
    "--seconds", type=Finite(0, min_open=True), help="Begin no further candidate after so many seconds."
)
@click.option("--commit", is_flag=True, help="Commit the files with what was chosen.")
@click.option("-m", "--message", help="With --commit: what this state is.")
@click.option("--step", type=Whole(), callback=step, help="With --commit: the step it was saved after.")
@metric_option
@click.option(
    "--moments",
    "tiers",
    multiple=True,
    type=click.Choice(["exact", "resume", "light", "auto"]),
    help="What is kept of an optimizer's moments (default auto). With --resume: compare the exact state"
    " with moments kept like this; repeat for more.",
)
@moment_option
@click.option("--resume", is_flag=True, help="Instead: train on from what REV restores and exactly.")
@click.option(
    "--train", metavar="MODULE:FUNCTION", help="With --resume: function(state, steps) gives losses."
)
@click.option("--steps", type=Whole(1), help="With --resume: how many steps to train (default 100).")
@click.option("--note", is_flag=True, help="With --resume: add what was measured to the commit's metrics.")
def command(session: Session, targets: tuple[str, ...], **options: Unpack[Options]) -> None:
    """Search the settings of fewest bytes that keep the quality of FILEs (default: those of HEAD).

    The function is yours: it gets the content of FILE as checkout returns it, or of several files a dict by
    file name, with tensors in host memory that it may change. It returns a number, or yields (sum, count) for
    each batch; its data must be the same each time. It is called for the files as they are, then for what
    candidates near HEAD would restore; files are never changed. Exit code 1 when no candidate is good enough;
    with --commit the files are then committed exactly, and the code is 0.

    With --resume it trains on from the commit REV (default: HEAD) twice over the same data: from its exact
    layer, and from what it restores. That function gets a state as it was committed (a nested dict) and a
    number of steps, builds model and optimizer, trains, and returns or yields the loss of every step, or
    pairs of step and loss.
    The excess is how much higher the losses are, in %, over all steps and over their second half. Steps lost
    says how far behind that is, where the exact loss falls clearly enough to tell.
    """
    if options["resume"]:
        _resume(session, targets, options)
    else:
        _choose(session, targets, options)


def _choose(session: Session, targets: tuple[str, ...], options: Options) -> None:
    function = options["function"]
    if function is None:
        raise click.UsageError("say what to measure: --eval MODULE:FUNCTION, or --resume")
    _check_choosing(options)
    from mvcs.quantize import MomentsConfig
    from mvcs.search import Bound, Goal
    from mvcs.train import Budget, tune_files

    goal: Goal | None = None if options["goal"] is None else "max" if options["goal"] == "max" else "min"
    bound = Bound.asked(options["max_degradation"] or _DEGRADATION, goal)
    kinds = options["kinds"]
    moments = MomentsConfig.described(kinds) if kinds else MomentsConfig.named(_tier(options))
    budget = Budget(options["evaluations"], options["seconds"])
    paths = [Path(target) for target in targets]
    with session.repository() as repository:
        with user_function(function) as evaluate:
            found = tune_files(
                repository,
                paths,
                evaluate,
                bound,
                method=options["method"] or "lattice",
                moments=moments,
                budget=budget,
                progress=session.progress,
            )
        if options["commit"]:
            text, metrics = options["message"] or "", options["metrics"]
            report = found.commit(repository, text, step=options["step"], metrics=metrics)
        else:
            report = found.dry_run()
        for note in (*filter(None, [report.doubt]), *(report.commit.notes if report.commit else ())):
            session.tell(note)
        session.answer(report, tune_report.tuned(report, repository.branch, session.screen))
        if report.degradation is None and (report.commit or report.candidates or not report.doubt):
            exact = _EXACT + (_NONE_KEPT if report.candidates else "")
            session.tell(exact if report.commit else _REFUSED)
    if report.degradation is None and report.commit is None:
        click.get_current_context().exit(FAILED)


def _tier(options: Options) -> str:
    return (options["tiers"] or ("auto",))[0]


def _check_choosing(options: Options) -> None:
    for name, option in _RESUME.items():
        if _is_given(options[name]):  # type: ignore[literal-required]  # one of its names
            raise click.UsageError(f"{option} goes with --resume only")
    if len(options["tiers"]) > 1:
        raise click.UsageError("--moments is given once: several are compared by --resume")
    check_kinds(options["kinds"], _tier(options))
    if not options["commit"]:
        for name in _COMMIT:
            if _is_given(options[name]):  # type: ignore[literal-required]  # one of its names
                raise click.UsageError(f"{_EVAL[name]} goes with --commit only")
    elif options["message"] is None:
        raise click.UsageError("--commit needs --message")


def _resume(session: Session, targets: tuple[str, ...], options: Options) -> None:
    function, tiers, steps = options["train"], options["tiers"], options["steps"] or _STEPS
    _check_resuming(targets, options)
    if function is None:
        raise click.UsageError("--resume needs --train MODULE:FUNCTION")
    from mvcs.train import probe_commit

    with session.repository() as repository:
        with user_function(function) as train:
            report = probe_commit(repository, targets[0] if targets else "HEAD", train, steps, tiers)
        if options["note"]:
            repository.note(report.commit.id, report.metrics)
        costs = {
            name: (probe.excess, probe.excess_late, probe.lost_steps) for name, probe in report.probes.items()
        }
        session.answer(report, tune_report.resumed(report.commit, steps, costs, session.screen))


def _check_resuming(targets: tuple[str, ...], options: Options) -> None:
    if options["function"] is not None:
        raise click.UsageError("--eval and --resume measure different things: use one of them")
    for name, option in _EVAL.items():
        if _is_given(options[name]):  # type: ignore[literal-required]  # one of its names
            raise click.UsageError(f"{option} goes with --eval only")
    if len(targets) > 1:
        raise click.UsageError("--resume takes one commit")
    if options["note"] and options["tiers"]:
        raise click.UsageError("--note is for what REV restores, not for --moments")


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != {}


@contextlib.contextmanager
def user_function(name: str) -> Iterator[Callable[..., Any]]:
    """Import a function; while it may be called, what it prints goes to stderr.

    Modules are looked for as Python does, and in the current folder first.

    Args:
        name: the module, a colon, and the function, such as `train:resume`.

    Raises:
        UsageError: there is no such module or function, or the module cannot be imported.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute.isidentifier()):
        raise UsageError(f"'{name}' is not of the form module:function", hint="such as train:resume")
    before = list(sys.path)
    sys.path.insert(0, "")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield _found(module, attribute)
    finally:
        sys.path[:] = before


def _found(module: str, attribute: str) -> Callable[..., Any]:
    try:
        loaded = import_module(module)
    except Exception as error:
        raise UsageError(
            f"'{module}' cannot be imported: {type(error).__name__}: {error}",
            hint="name a module of the current folder, or an installed one",
        ) from error
    found = getattr(loaded, attribute, None)
    if not callable(found):
        raise UsageError(f"'{module}' has no function '{attribute}'")
    return found  # type: ignore[no-any-return]  # callable
