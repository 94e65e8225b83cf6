"""Which commit of a branch a run resumes from, what of it is exact, and how that is told.

The branch is found before, by `train.runs`: it may be one that the run went to when it lost a race.
"""

import logging

from mvcs.repository import Repository
from mvcs.repository.reports import CommitInfo
from mvcs.train.report import Resumed

_logger = logging.getLogger("mvcs.train")


def weights_until_state(repo: Repository, tip: CommitInfo) -> list[CommitInfo] | None:
    """Return the commits of weights alone from `tip` back to a whole state; None when there is none."""
    passed, commit = [], tip
    while commit.weights_only:
        passed.append(commit)
        if not commit.parents:
            return None
        commit = repo.resolve(commit.parents[0])
    return passed


def bounded_parts(repo: Repository, commit: CommitInfo) -> set[str]:
    """Return the first name of every path at which something is quantized."""
    return {tensor.path.partition(".")[0] for tensor in repo.show(commit.id).tensors if tensor.exact_id}


def tell_resumed(resumed: Resumed) -> None:
    """Say in the log what was loaded: loudly where it is not what was handed over, or not the newest."""
    if resumed.skipped:
        steps = ", ".join(str(step) for step in resumed.skipped)
        _logger.warning("skipped commits that hold weights alone, those of steps %s", steps)
    if resumed.lossy:
        _logger.warning("%s, which differs from what was committed: descendants will say so", resumed)
    else:
        _logger.info("%s", resumed)
