"""Resume probes while a run goes on: every so many bounded commits, in a child process."""

import logging
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from mvcs.errors import EvaluationError, UsageError
from mvcs.local import Trust
from mvcs.reports import CommitInfo
from mvcs.repository import Repository
from mvcs.train.probes.probe import Train

_logger = logging.getLogger("mvcs.train")


class ProbeEvery:
    """Probes every n-th bounded commit of a run: give it to a `Checkpointer` as `on_commit`.

    A probe trains twice `steps` steps in a process of its own, on one thread, with a model of its own, and
    adds `resume_excess` and `resume_lost_steps` to the commit's metrics. Commits made meanwhile wait.

    Args:
        repo: the run's repository, on this machine or a bare store by URL.
        train: see `mvcs.train.probe`; at the top of a module, so that the other process finds it.
        every: how many bounded commits of whole states from one probe to the next; the first is probed.
        steps: how many steps to train.

    Raises:
        UsageError: a number is below 1.
    """

    def __init__(self, repo: Repository, train: Train, *, every: int = 10, steps: int = 100) -> None:
        for name, value in {"every": every, "steps": steps}.items():
            if value < 1:
                raise UsageError(f"{name} cannot be {value}", hint="use 1 or more")
        self._repo = repo
        self._train = train
        self._every = every
        self._steps = steps
        self._seen = 0

    def __call__(self, commit: CommitInfo) -> None:
        """Probe a commit when its turn has come.

        Raises:
            EvaluationError: the training function failed, or its process died.
        """
        if not commit.bounded or commit.weights_only:
            return
        self._seen += 1
        if self._seen % self._every != 1 % self._every:
            return
        found = self._probed(commit)
        self._repo.note(commit.id, found)
        told = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        _logger.info("resuming from commit %s was probed: %s", commit.short, told)

    def _probed(self, commit: CommitInfo) -> dict[str, float]:
        place = str(self._repo.top or self._repo.url)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            try:
                return pool.submit(
                    _metrics, place, self._repo.trust, commit.id, self._train, self._steps
                ).result()
            except BrokenProcessPool as error:
                raise EvaluationError(f"the process that probed commit {commit.short} died") from error


def _metrics(place: str, trust: Trust, commit: str, train: Train, steps: int) -> dict[str, float]:
    import torch

    from mvcs.train.probes.commit_probes import probe_commit

    torch.set_num_threads(1)
    with Repository.open(place, trust=trust) as repo:
        return probe_commit(repo, commit, train, steps).metrics
