"""What a whole run costs as a history: every checkpoint committed, sizes from the bytes that were written."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mvcs.bench.runs.checkpoint_files import checkpoints
from mvcs.checkpoint import Role
from mvcs.commits import Mechanisms
from mvcs.local import Trust, find
from mvcs.local_files import scratch_folder
from mvcs.progress import Progress
from mvcs.reports import ClassInfo, CommitDetails, Report
from mvcs.repository import Repository

NAME = "checkpoint"


@dataclass(frozen=True)
class CommittedStep(Report):
    """One checkpoint as a commit.

    Attributes:
        step: of the checkpoint.
        raw_bytes: of the whole state.
        stored_bytes: written, all but the exact layer.
        exact_bytes: written for the exact layer.
        weights: bytes of the weights of two and more dimensions, in the types that they have.
        weights_stored: bytes written for them.
        metadata: bytes written for trees, ids, tables and footers.
        relative: root mean square error over root mean square value of the weights; 0.0 for an exact commit.
        depth: the longest chain of deltas.
        seconds: of the commit, reading the file included.
    """

    step: int
    raw_bytes: int
    stored_bytes: int
    exact_bytes: int
    weights: int
    weights_stored: int
    metadata: int
    relative: float
    depth: int
    seconds: float


@dataclass(frozen=True)
class HistoryReport(Report):
    """A whole run as a history.

    Attributes:
        folder: of the checkpoints.
        quantizer: as the first commit records it; None for exact commits.
        weights: CR-w, the weights' bytes over bytes written for them.
        weights_later: the same without the first commit.
        everything: CR-all, bytes of all states over all bytes written but exact layers.
        everything_later: the same without the first commit.
        metadata: bytes a commit.
        seconds: of all commits.
        commits: one for each checkpoint.
    """

    folder: str
    quantizer: dict[str, object] | None
    weights: float
    weights_later: float
    everything: float
    everything_later: float
    metadata: float
    seconds: float
    commits: list[CommittedStep]


def with_mechanisms(place: Path, mechanisms: Mechanisms) -> Repository:
    """Open a repository whose commits leave mechanisms out."""
    return Repository(find(str(place), None, Trust.of_user()), mechanisms=mechanisms)


def commit_all(
    folder: Path,
    quantizer: Mapping[str, Any],
    *,
    every: int | None = None,
    without: Sequence[str] = (),
    progress: Progress,
) -> HistoryReport:
    """Commit the checkpoints of a run, one after another, into a repository that is removed at the end.

    Args:
        folder: of checkpoints.
        quantizer: the options of `Repository.commit_files` that say how weights are quantized.
        every: commit every so many checkpoints.
        without: mechanisms that are left out.
        progress: is told of every checkpoint.

    Raises:
        UsageError: there is no mechanism of such a name.
        NotFoundError: there are fewer than two checkpoints.
    """
    found, mechanisms = checkpoints(folder)[:: every or 1], Mechanisms.without(without)
    progress.start("committing", len(found), "checkpoints")
    commits, settings = [], None
    with _scratch(folder) as place, with_mechanisms(place, mechanisms) as repository:
        for checkpoint in found:
            started = time.perf_counter()
            name = NAME + checkpoint.path.suffix
            repository.commit_files(
                [checkpoint.path],
                names={checkpoint.path: name},
                message=checkpoint.path.name,
                step=checkpoint.step,
                **quantizer,
            )
            seconds = time.perf_counter() - started
            details = repository.show()
            settings = settings or details.quantizer
            commits.append(committed_step(checkpoint.step, details, seconds))
            progress.advance(1)
    progress.finish()
    return history_of(folder, settings, commits)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Give the folder of a new repository, and remove it at the end."""
    with scratch_folder(folder) as scratch:
        Repository.init(scratch).close()
        yield scratch


def committed_step(step: int, details: CommitDetails, seconds: float) -> CommittedStep:
    """Return what `show` tells of the commit of a checkpoint, as sizes."""
    info = details.commit
    classes = {one.name: one for one in details.classes}
    weights = classes.get(Role.WEIGHT.value, ClassInfo(Role.WEIGHT.value, 0, 0, 0))
    wide = sum(one.raw_bytes for one in details.tensors if one.role == Role.WEIGHT.value)
    return CommittedStep(
        step=step,
        raw_bytes=info.raw_bytes,
        stored_bytes=info.stored_bytes,
        exact_bytes=info.exact_bytes,
        weights=wide,
        weights_stored=weights.stored_bytes,
        metadata=classes["metadata"].stored_bytes,
        relative=info.errors.get("weight", {}).get("relative", 0.0),
        depth=0 if details.restore is None else details.restore.depth,
        seconds=seconds,
    )


def history_of(
    folder: Path, settings: dict[str, object] | None, commits: list[CommittedStep]
) -> HistoryReport:
    """Return the ratios of a whole history."""
    later = commits[1:]
    return HistoryReport(
        folder=str(folder),
        quantizer=settings,
        weights=_ratio([(one.weights, one.weights_stored) for one in commits]),
        weights_later=_ratio([(one.weights, one.weights_stored) for one in later]),
        everything=_ratio([(one.raw_bytes, one.stored_bytes) for one in commits]),
        everything_later=_ratio([(one.raw_bytes, one.stored_bytes) for one in later]),
        metadata=sum(one.metadata for one in commits) / len(commits),
        seconds=sum(one.seconds for one in commits),
        commits=commits,
    )


def _ratio(sizes: list[tuple[int, int]]) -> float:
    return sum(raw for raw, _ in sizes) / max(sum(stored for _, stored in sizes), 1)
