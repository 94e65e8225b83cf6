"""Resume probes of a commit: what is restored from it, against what was handed over."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mvcs.checkpoint import Captured, Role, capture_state, rebuild_state, roles_of, torch_tensor
from mvcs.errors import NotFoundError, UsageError
from mvcs.local_files import scratch_folder
from mvcs.objects import ObjectId
from mvcs.quantize import LatticeConfig, MomentsConfig, QuantizerConfig
from mvcs.reports import DROPPED, CommitInfo, Report
from mvcs.repository import Repository
from mvcs.train.probes.probe import Probe, Train, probe_all

STORED = "as stored"
EXCESS, LOST = "resume_excess", "resume_lost_steps"


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
