"""What a check found and a repair mended, and what keeps something in a store."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mvcs.errors import some_of
from mvcs.ui.commits import moment
from mvcs.ui.text import Screen, count, printable, size

TENSORS_NAMED = 4  # tensors of one commit
LOSSES = 12  # lines
_LAYERS = {"value": "", "exact": "exact values of "}
NAMED = 3
_IDS = frozenset({"commit", "tree", "chunk", "blob", "pack"})


if TYPE_CHECKING:
    from mvcs.reports import (
        DropInfo,
        FsckReport,
        LookReport,
        Loss,
        Mended,
        NewestWhole,
        Problem,
        RepairReport,
        SampleReport,
        Why,
        WhyStep,
    )


def repaired(
    report: "RepairReport", screen: Screen, *, verbose: bool = False, give_up: bool = False
) -> list[str]:
    """Return what was mended, what is still wrong, what that costs, and what to do next.

    With `verbose`, all commits that restore are listed; `give_up` is what the command was told.
    """
    lines = [printable(note) for note in report.notes]
    lines += [_mended(one, executed=report.executed) for one in report.mended]
    if report.aside:
        lines.append(f"what lay there is kept below .mvcs/damaged: {count(len(report.aside), 'file')}")
    lines += problem_lines(report.problems, screen)
    lines += [screen.paint(_loss(loss), "bad") for loss in report.losses[:LOSSES]]
    if len(report.losses) > LOSSES:
        lines.append(f"and {count(len(report.losses) - LOSSES, 'loss', 'losses')} more, which --json names")
    lines += map(_newest, report.newest)
    if verbose:
        lines += [f"restores whole: {commit[:12]}" for commit in report.whole]
    elif report.losses and report.whole:
        lines.append("'mvcs repair --dry-run -v' lists all commits that restore")
    if report.given_up:
        verb = "gave up" if report.executed else "would give up"
        names = some_of([commit[:12] for commit in report.given_up], LOSSES)
        lines.append(f"{verb} what is lost of {count(len(report.given_up), 'commit')}: {names}")
    elif report.losses and not give_up:
        lines.append(
            "'mvcs repair --give-up' goes on without it; first look for a copy in every clone and backup"
        )
    return [*lines, _verdict(report, screen)]


def _newest(one: "NewestWhole") -> str:
    branch = printable(one.branch)
    if one.commit is None:
        return f"of branch {branch} no commit restores"
    step = "" if one.step is None else f" step {one.step}"
    message = f" '{printable(one.message)}'" if one.message else ""
    rounded = "" if one.exact else ", its values alone: exact ones are lost"
    back = "" if one.tip else f"; 'mvcs reset --hard --force {one.commit[:12]}' moves the branch there"
    return f"newest of branch {branch} that restores: {one.commit[:12]}{step}{message}{rounded}{back}"


def _mended(one: "Mended", *, executed: bool) -> str:
    verb = "mended" if executed else "would mend"
    rest = "" if one.whole else "; it is not as it was, and what was whole of it can be read again"
    return f"{verb} {printable(one.path)} ({size(one.bytes)}): {printable(one.how)}{rest}"


def _loss(loss: "Loss") -> str:
    message = f" '{printable(loss.message)}'" if loss.message else ""
    commit = f"lost of {loss.commit[:12]}{message}: {_LAYERS.get(loss.layer, '')}"
    if loss.count is None:
        return f"{commit}everything: what it holds cannot be read"
    named = some_of([printable(name) for name in loss.tensors], TENSORS_NAMED)
    return f"{commit}{count(loss.count, 'tensor')}, {named}"


def _verdict(report: "RepairReport", screen: Screen) -> str:
    lossy = len({loss.commit for loss in report.losses})
    whole = report.commits - lossy
    verb = "mended" if report.executed else "would be mended"
    done = f"{count(len(report.mended), 'file')} {verb}"
    restore = f"{whole} of {count(report.commits, 'commit')} {'restores' if whole == 1 else 'restore'} whole"
    left = "" if report.ok else f"{count(len(report.problems), 'problem')} left, "
    verdict = screen.paint("ok", "good") if report.ok else screen.paint("damaged", "bad")
    return f"{verdict}: {done}, {left}{restore}"


def _looked(look: "LookReport", *, now: bool) -> str:
    """Say since when packs were not looked at; they are `now` where everything was."""
    packs = f"{count(look.packs, 'pack')} in '{look.folder}' ({size(look.bytes)})"
    if look.since is None:
        return f"{packs}: never looked at by this clone{' until now' * now}"
    return f"{packs}: not looked at by this clone since {look.since:%Y-%m-%d %H:%M} UTC{', until now' * now}"


def _sampled(sample: "SampleReport") -> str:
    packs = f"{count(sample.packs, 'pack')} of all in turn ({size(sample.bytes)})"
    so_far = f"{packs}: {sample.done:.0%} of this round, begun {sample.begun:%Y-%m-%d %H:%M} UTC"
    if sample.since is None:
        return f"{so_far}; every pack was read when it ends"
    return f"{so_far}; every pack was read since {sample.since:%Y-%m-%d %H:%M} UTC"


def checked(report: "FsckReport", screen: Screen) -> list[str]:
    """Return what a check found, problem by problem."""
    result = [printable(note) for note in report.notes]
    looks = [_looked(look, now=report.level == "full") for look in report.looks]
    result += looks if report.sample is None else [_sampled(report.sample)]
    result += problem_lines(report.problems, screen)
    verdict = (
        screen.paint("ok", "good")
        if report.ok
        else screen.paint(count(len(report.problems), "problem"), "bad")
    )
    return [*result, f"{verdict}: {_extent(report)}"]


def _extent(report: "FsckReport") -> str:
    """Say what was checked, and what was not."""
    objects, stored = count(report.objects, "object"), size(report.bytes)
    if report.level == "quick":
        return f"names and history of {objects}, {stored}; contents not read"
    if report.level == "packs":
        return f"{objects}, {stored} compared with checksums; nothing decoded"
    return f"{objects}, {stored} checked"


def problem_lines(problems: "Iterable[Problem]", screen: Screen) -> list[str]:
    """Return each problem with what it concerns and its hint; those that say the same once."""
    alike: dict[tuple[str, str, str | None], list[str]] = {}
    for problem in problems:
        alike.setdefault((problem.kind, problem.message, problem.hint), []).append(problem.subject)
    lines: list[str] = []
    for (kind, message, hint), subjects in alike.items():
        line = f"{kind}: {printable(some_of(subjects, NAMED))}: {printable(message)}"
        lines += [screen.paint(line, "bad"), *([f"  hint: {printable(hint)}"] if hint else [])]
    return lines


def why(value: "Why", screen: Screen) -> list[str]:
    """Return what it is, where it lies, and what keeps it or gave it up."""
    amount = "" if value.bytes is None else f", {size(value.bytes)}"
    title = f"{value.kind} {screen.paint(value.id, 'id')}{amount}"
    places = (
        [] if value.kind == "pack" and value.packs else [f"  in {printable(path)}" for path in value.packs]
    )
    return [
        title,
        *places,
        *_needed_by(value),
        *(f"  {_step(step, screen)}" for step in value.steps),
        *map(_drop, value.drops),
        *_standing(value),
        *map(printable, value.notes),
    ]


def _needed_by(value: "Why") -> list[str]:
    if value.state == "needed":
        return ["needed by:"]
    if value.state == "past":
        left = "" if value.until is None else f", which went elsewhere at {moment(value.until)}"
        return [f"kept by the past of a ref alone{left}:"]
    if value.state == "dropped":
        return ["gone; it was of:" if value.steps else "gone"]
    since = "" if value.written is None else f"; it was written at {moment(value.written)}"
    return [f"nothing needs it{since}", *([] if value.standing else ["'mvcs gc' says when it goes"])]


def _standing(value: "Why") -> list[str]:
    """Say what a collector said of it."""
    if value.standing is None or value.stands is None:
        return []
    said = {
        "condemned": "'mvcs gc' marked it for deletion at {}, and deletes it later",
        "going": "'mvcs gc' began to delete it at {}",
        "gone": "'mvcs gc' deleted it at {}",
    }
    return [said[value.standing].format(moment(value.stands))]


def _step(step: "WhyStep", screen: Screen) -> str:
    name = screen.paint(step.name[:12], "id") if step.kind in _IDS else printable(step.name)
    said = f": {printable(step.said)}" if step.kind == "reflog" else f", {printable(step.said)}"
    return f"{step.kind} {name}{said if step.said else ''}"


def _drop(drop: "DropInfo") -> str:
    what = f"{count(drop.packs, 'pack')} of the exact layer" if drop.packs else "the data"
    why = "" if drop.why is None else f": {printable(drop.why)}"
    back = "" if drop.taken_back is None else f"; record {drop.taken_back} took that back: the data stayed"
    return f"record {drop.record} dropped {what} of {drop.commit[:12]} at {moment(drop.time)}{why}{back}"
