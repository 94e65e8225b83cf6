"""Resume probes: training on from a restored state, against training on from the exact one."""

import logging
import math
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvcs.checkpoint import Captured, Role, capture_state, rebuild_state, roles_of, torch_tensor
from mvcs.errors import EvaluationError, MvcsError, NotFoundError, UsageError, some_of
from mvcs.local import Trust
from mvcs.local_files import scratch_folder
from mvcs.objects import ObjectId
from mvcs.quantize import LatticeConfig, MomentsConfig, QuantizerConfig
from mvcs.reports import DROPPED, CommitInfo, Report
from mvcs.repository import Repository
from mvcs.train.evaluation.call_evaluate import located
from mvcs.train.state import rng

Losses = Iterable[float] | Iterable[tuple[int, float]]
Train = Callable[[Any, int], Losses]

_SURE = 2.0  # standard errors that a slope has to be away from none
_FEWEST = 8
_TOLD = 6
STORED = "as stored"
EXCESS, LOST = "resume_excess", "resume_lost_steps"
_logger = logging.getLogger("mvcs.train")


@dataclass(frozen=True)
class Probe(Report):
    """Losses of two arms that trained on over the same data.

    Attributes:
        steps: where losses were taken, counted as `train` counts them, or from 1.
        exact: losses of the arm that continued from the exact state.
        restored: losses of the other arm; infinite from where one was not finite.
        excess: the mean of restored - exact over the mean magnitude of exact, in %; positive is worse.
        excess_late: the same over the second half of the losses.
        lost_steps: how many steps of progress the restored arm is behind, over the second half; None where
            the exact arm's loss does not fall clearly enough to say.
    """

    steps: list[int]
    exact: list[float]
    restored: list[float]
    excess: float
    excess_late: float
    lost_steps: float | None


def probe(train: Train, exact_state: object, restored_state: object, steps: int) -> Probe:
    """Train on from two states over the same data and compare the losses.

    Both arms start from the same state of the global random generators, which are as before in the end.

    Args:
        train: the user's function: builds model and optimizer from a state (a nested dict as `checkout`
            returns it), trains so many steps, and returns or yields a loss for each of them, or pairs
            (step, loss) for as many as it likes. It may change the state. The data must depend on nothing but
            the state.
        exact_state: what was handed over to the commit.
        restored_state: what is restored.
        steps: how many steps to train.

    Raises:
        UsageError: `train` gives no losses, too few, other steps for the second arm than for the first, or a
            loss of the exact state that is not finite.
        EvaluationError: `train` raised an error.
    """
    arms = {"restored": lambda: restored_state}
    return probe_all(train, lambda: exact_state, arms, steps)["restored"]


def probe_all(
    train: Train, exact: Callable[[], object], arms: Mapping[str, Callable[[], object]], steps: int
) -> dict[str, Probe]:
    """Train on once from an exact state, and from every other one; see `probe`.

    Args:
        train: the user's function.
        exact: makes the exact state.
        arms: make the other states, by name; each is asked for when its turn comes.
        steps: how many steps to train.
    """
    if steps < 1:
        raise UsageError(f"a probe cannot train {steps} steps", hint="use 1 or more; 100 tell enough")
    places, losses = _exact_arm(train, exact(), steps)
    return {name: _against(train, made(), name, (places, losses), steps) for name, made in arms.items()}


def _exact_arm(train: Train, state: object, steps: int) -> tuple[list[int], list[float]]:
    places, exact = _arm(train, state, steps, "exact")
    broken = next((step for step, loss in zip(places, exact, strict=True) if not math.isfinite(loss)), None)
    if broken is not None:
        raise UsageError(
            f"the loss of the exact state is not finite at step {broken} of the probe",
            hint="the function must train on from the state it is given",
        )
    return places, exact


def _against(
    train: Train, state: object, name: str, exact: tuple[list[int], list[float]], steps: int
) -> Probe:
    places, restored = _arm(train, state, steps, name)
    if places != exact[0]:
        raise UsageError(
            f"losses of the {name} state are those of other steps: {_told(places)}, not {_told(exact[0])}",
            hint="a probe's function must take the same steps whatever the state",
        )
    return compared(*exact, restored)


def compared(steps: list[int], exact: list[float], restored: list[float]) -> Probe:
    """Return a probe of losses that were measured already.

    Steps of progress are the excess over the slope of a straight line through the exact arm's losses.
    """
    seen = np.minimum.accumulate(np.isfinite(restored))
    found = np.where(seen, restored, np.inf)
    late = slice(len(steps) // 2, None)
    base, excess = np.asarray(exact), found - np.asarray(exact)
    slope = _slope(np.asarray(steps, float), base)
    lost = None if slope is None or not seen.all() else float(excess[late].mean() / -slope)
    return Probe(
        steps, exact, found.tolist(), _percent(excess, base), _percent(excess[late], base[late]), lost
    )


def _percent(excess: NDArray[np.float64], base: NDArray[np.float64]) -> float:
    scale = float(np.abs(base).mean())
    return float(100 * excess.mean() / scale) if scale else math.inf if excess.any() else 0.0


def _slope(steps: NDArray[np.float64], losses: NDArray[np.float64]) -> float | None:
    """Return how the loss moves with every step; None unless it falls clearly."""
    if len(steps) < _FEWEST:
        return None
    centered = steps - steps.mean()
    spread = float(centered @ centered)
    slope = float(centered @ losses) / spread
    rest = losses - losses.mean() - slope * centered
    error = math.sqrt(float(rest @ rest) / (len(steps) - 2) / spread)
    return slope if slope < -_SURE * error else None


def _arm(train: Train, state: object, steps: int, name: str) -> tuple[list[int], list[float]]:
    with rng.kept(), _named(name):  # so that both arms draw the same
        given = train(state, steps)
        if not isinstance(given, Iterable):
            raise UsageError(
                f"a probe's function gave a '{type(given).__name__}'",
                hint="return or yield a loss for every step, or pairs of step and loss",
            )
        items = list(given)
        pairs = [item for item in items if isinstance(item, tuple)]
        if len(items) != steps and not pairs:
            raise UsageError(
                f"a probe's function gave {len(items)} losses for {steps} steps of the {name} state",
                hint="return or yield a loss for every step, or pairs of step and loss",
            )
        found = pairs or list(enumerate(items, 1))
        return _ascending([int(step) for step, _ in found], name), [float(loss) for _, loss in found]


def _ascending(steps: list[int], name: str) -> list[int]:
    if steps != sorted(set(steps)):
        raise UsageError(
            f"the losses of the {name} state are those of steps {_told(steps)}",
            hint="give the loss of every step once, in order",
        )
    return steps


def _told(steps: list[int]) -> str:
    return some_of([str(step) for step in steps], _TOLD)


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except MvcsError:
        raise
    except Exception as error:
        raise EvaluationError(f"training on from the {name} state failed: {located(error)}") from error


@dataclass(frozen=True)
class ResumeReport(Report):
    """What training on from a commit costs.

    Attributes:
        commit: the commit.
        steps: how many steps were trained.
        probes: by what was restored: "as stored" for the commit's own values, or the name of a tier.
    """

    commit: CommitInfo
    steps: int
    probes: dict[str, Probe]

    @property
    def metrics(self) -> dict[str, float]:
        """What a note adds to the commit: the excess loss in %, and steps lost where they are known."""
        own = self.probes.get(STORED)
        if own is None:
            return {}
        return {EXCESS: own.excess} | ({} if own.lost_steps is None else {LOST: own.lost_steps})


def probe_commit(
    repo: Repository, rev: str, train: Train, steps: int, tiers: Sequence[str] = ()
) -> ResumeReport:
    """Train on from the exact state of a commit, and from what is restored from it.

    Args:
        repo: where the commit lies.
        rev: the commit: an exact one, or a bounded one whose exact layer is still stored.
        train: see `mvcs.train.probe`.
        steps: how many steps to train.
        tiers: instead of the commit's own values, the exact state with moments kept as "light", "resume",
            "exact" or "auto": bounded with the commit's settings, or with exact weights where it has none.

    Raises:
        NotFoundError: the exact layer is not stored (any more).
        UsageError: the commit is exact and no tier is named, or `train` does not do.
        EvaluationError: `train` raised an error.
    """
    commit = repo.resolve(rev)
    if commit.exact_layer == DROPPED:
        raise NotFoundError(
            f"the exact layer of commit {commit.short} is not stored (any more)",
            hint="probe one of the newest commits, a tagged one, or an exact one with --moments",
        )
    if not (commit.bounded or tiers):
        raise UsageError(
            f"commit {commit.short} is exact: nothing of it is lost",
            hint="name ways to keep moments, such as --moments light",
        )
    arms = {tier: _kept(repo, commit, MomentsConfig.named(tier)) for tier in tiers}
    arms = arms or {STORED: lambda: repo.checkout(commit.id)}
    found = probe_all(train, lambda: repo.checkout(commit.id, exact=True), arms, steps)
    return ResumeReport(commit, steps, dict(found))


def _kept(repo: Repository, commit: CommitInfo, moments: MomentsConfig) -> Callable[[], object]:
    fields = repo.show(commit.id).quantizer
    known: Mapping[str, object] = fields or {}
    config: QuantizerConfig = QuantizerConfig.from_fields(list(known.items())) if known else LatticeConfig()
    chosen = replace(config, moments=moments)
    return lambda: bounded_copy(repo.checkout(commit.id, exact=True), chosen, only_moments=not known)


def bounded_copy(state: object, quantizer: QuantizerConfig, *, only_moments: bool = False) -> object:
    """Return what the value layer of a bounded commit of a state restores, as if it were a run's first.

    The commit is made in a repository that is removed.

    Args:
        state: a nested dict, as `checkout` returns it; it is left alone.
        quantizer: how the commit is bounded.
        only_moments: let everything but optimizer moments be exact.

    Raises:
        StateError: something in the state cannot be stored.
        StorageError: the temporary folder is full.
    """
    with scratch_folder() as folder, Repository.init(folder) as scratch:
        scratch.config_set("retention.exact_layers", "0")
        scratch.commit(state, quantizer=quantizer)
        found = scratch.checkout()
    return _mixed(state, found) if only_moments else found


def _mixed(exact: object, bounded: object) -> object:
    """Return a copy of a state that has another's moments."""
    kept, other = capture_state(exact), capture_state(bounded)
    parts = roles_of(kept)

    def leaf(index: int) -> object:
        source: Captured = other if parts[index] is Role.MOMENT else kept
        found = source.leaves[index]
        return torch_tensor(found.dtype, found.shape, bytearray(found.source.read()))

    def blob(identifier: ObjectId, _: int) -> bytes:
        return bytes(kept.blobs[identifier].read())

    return rebuild_state(kept.root, leaf, blob)


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

    torch.set_num_threads(1)
    with Repository.open(place, trust=trust) as repo:
        return probe_commit(repo, commit, train, steps).metrics
