"""Which commit of a branch a run resumes from, what of it is exact, and how that is told.

The branch is found before, by `Line.find_tip`: it may be one that the run went to when it lost a race.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from mvcs.errors import CorruptionError, LostError, MvcsError, NotFoundError, UsageError
from mvcs.objects import ABBREVIATED
from mvcs.reports import CommitInfo, Restored
from mvcs.repository import Repository
from mvcs.train.saving.report import Resumed
from mvcs.train.saving.run_writer import Line
from mvcs.train.state.parts import Loaded

_logger = logging.getLogger("mvcs.train")

TRIED = 256  # states before a damaged one that are looked at; each costs up to a tenth of a second


def weights_until_state(repo: Repository, tip: CommitInfo) -> list[CommitInfo] | None:
    """Return the commits of weights alone from `tip` back to a whole state; None when there is none."""
    passed, commit = [], tip
    while commit.weights_only:
        passed.append(commit)
        if not commit.parents:
            return None
        commit = repo.resolve(commit.parents[0])
    return passed


def restored(repo: Repository, commit: str) -> Restored:
    """Return what a commit restores.

    Raises:
        CorruptionError: something of it is damaged or lost; the hint says which commit before it is whole.
    """
    try:
        return repo.restore(commit)
    except (CorruptionError, LostError) as error:
        found = error
    # Outside of the handler: what went on inside the store says no more than its message does.
    raise CorruptionError(
        f"the run cannot continue from commit {commit[:ABBREVIATED]}: {found.message}",
        hint=_with_way_on(repo, islice(repo.log(commit), 1, None), found),
    )


def found_tip(repo: Repository, line: Line, wanted: str | None) -> CommitInfo | None:
    """Return the commit that a run stands on; None in a new repository.

    Raises:
        ConflictError: several runs may be meant.
        NotFoundError: none is the one that is wanted.
        CorruptionError: it cannot be read; the hint says which commit, where the branch was before, is whole.
    """
    branch = line.branch or "HEAD"
    try:
        return line.find_tip(wanted)
    except CorruptionError as error:
        found: MvcsError = error
    except NotFoundError as error:
        if wanted is not None:
            raise
        found = error
    raise CorruptionError(
        f"the run cannot continue on branch '{branch}': {found.message}",
        hint=_with_way_on(repo, _where_it_was(repo, branch), found),
    )


def _where_it_was(repo: Repository, branch: str) -> Iterator[CommitInfo]:
    """Yield the commits that a branch was at before, as far as they can be read."""
    for entry in repo.reflog(branch):
        with suppress(MvcsError):
            if entry.commit is not None:
                yield repo.resolve(entry.commit)


def _with_way_on(repo: Repository, before: Iterable[CommitInfo], error: MvcsError) -> str:
    """Say which is the newest whole state among commits and how a run goes on from that, beside a hint."""
    return "; ".join(filter(None, [_way_on(repo, before), error.hint]))


def _way_on(repo: Repository, before: Iterable[CommitInfo]) -> str:
    looked = list[str]()
    with suppress(MvcsError):
        states = (info for info in before if info.run and not info.weights_only and not info.data_dropped)
        for info in islice(states, TRIED):
            looked.append(info.id)
            if repo.is_whole(info.id):
                return (
                    f"step {info.step}, commit {info.short}, is the newest before it that is whole: "
                    f"after 'mvcs branch NAME {info.short}', branch='NAME' continues from there"
                )
    if not looked:
        return "no other state of a run is before it whose data were not dropped"
    return f"of the states of a run before it {len(looked)} were looked at, and none is whole"


def state_of_run(repo: Repository, found: Restored) -> dict[str, Any]:
    """Return the state that was restored, once it is known for that of a training run.

    Raises:
        UsageError: it is none; the hint names the newest commit before it that is one.
    """
    state = found.state
    if isinstance(state, dict) and {"model", "optimizer", "step"} <= state.keys():
        return state
    earlier = (info for info in repo.log(found.commit.id) if info.run and not info.weights_only)
    run = next(earlier, None)
    raise UsageError(
        f"commit {found.commit.short} does not hold the state of a training run",
        hint="resume on a branch whose commits come from this hook"
        if run is None
        else f"step {run.step} of a run is commit {run.short}: after 'mvcs branch NAME {run.short}', "
        "branch='NAME' continues from there; or 'mvcs reset "
        f"{run.short}' takes what was committed since off this branch, and leaves files alone",
    )


def resumed_from(repo: Repository, found: Restored, loaded: Loaded, passed: list[CommitInfo]) -> Resumed:
    """Describe what a run continued from: a state that came back, and what became of its parts."""
    tensors = repo.show(found.commit.id).tensors if found.lossy else []
    bounded = {tensor.path.partition(".")[0] for tensor in tensors if tensor.exact_id}
    return Resumed(
        commit=found.commit,
        layer=found.layer,
        lossy=found.lossy,
        exact=tuple(name for name in loaded.parts if name not in bounded),
        bounded=tuple(name for name in loaded.parts if name in bounded),
        anew=loaded.anew,
        skipped=tuple(commit.step or 0 for commit in reversed(passed)),
        damaged=tuple(found.damaged),
    )


def tell_resumed(resumed: Resumed) -> None:
    """Say in the log what was loaded: loudly where it is not what was handed over, or not the newest."""
    if resumed.skipped:
        steps = ", ".join(str(step) for step in resumed.skipped)
        _logger.warning("skipped commits that hold weights alone, those of steps %s", steps)
    if resumed.damaged:
        _logger.error(
            "the exact layer of commit %s is damaged, in %s: nothing of it was removed; for the exact state "
            "copy these files from a clone or remote that has them, before any commit, and resume again",
            resumed.commit.short,
            ", ".join(f"'{path}'" for path in resumed.damaged),
        )
    if resumed.lossy:
        _logger.warning("%s, which differs from what was committed: descendants will say so", resumed)
    else:
        _logger.info("%s", resumed)
