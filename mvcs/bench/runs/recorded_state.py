"""One checkpoint of a run as methods see it: weights by name, their moments, and the state put together."""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from blake3 import blake3
from numpy.typing import NDArray

from mvcs.bench.runs.checkpoint_files import Checkpoint, checkpoints
from mvcs.checkpoint import (
    Captured,
    CapturedLeaf,
    Role,
    capture_files,
    capture_state,
    optimizer_parameters,
    path_components,
    rebuild_state,
    roles_of,
    torch_tensor,
)
from mvcs.errors import NotFoundError, UsageError
from mvcs.objects import ObjectId
from mvcs.quantize import from_float32, to_float32
from mvcs.repository import Repository

Floats = NDArray[np.float32]
_FEWEST = 2
_GRADIENTS = ("exp_avg", "momentum_buffer")


@dataclass(frozen=True)
class RecordedState:
    """A checkpoint taken apart.

    Attributes:
        step: after which it was saved.
        captured: its structure and leaves, which are read when they are asked for.
        sensitivity: float32, by name, instead of `scores`; empty where gradients are not known.
    """

    step: int
    captured: Captured = field(repr=False)
    sensitivity: Mapping[str, Floats] = field(repr=False, default_factory=dict)

    @classmethod
    def of_file(cls, checkpoint: Checkpoint) -> "RecordedState":
        """Read a checkpoint file.

        Raises:
            FileFormatError: it is none.
        """
        files = capture_files([checkpoint.path], checkpoint.path.parent, any_names=True)
        return cls(checkpoint.step, files)

    @cached_property
    def _weights(self) -> Mapping[str, int]:
        """The leaf of each float weight of two and more dimensions; the file's own name is left out."""
        start = 0 if self.captured.files is None else 1
        return {
            ".".join(path_components(leaf.path[start:])): index
            for index, (leaf, role) in enumerate(zip(self.captured.leaves, self._roles, strict=True))
            if role is Role.WEIGHT and len(leaf.shape) > 1 and leaf.dtype.quantizable
        }

    @cached_property
    def _roles(self) -> list[Role]:
        return roles_of(self.captured)

    @cached_property
    def _moments(self) -> Mapping[str, Mapping[str, int]]:
        """The leaves of moments of these weights, by kind and by the weight's name."""
        names = {index: name for name, index in self._weights.items()}
        found: dict[str, dict[str, int]] = {}
        for parameter in optimizer_parameters(self.captured, self._roles):
            if parameter.weight in names:
                for kind, leaf in parameter.leaves.items():
                    if self.captured.leaves[leaf].shape == self.captured.leaves[parameter.weight].shape:
                        found.setdefault(kind, {})[names[parameter.weight]] = leaf
        return found

    @cached_property
    def weights(self) -> dict[str, Floats]:
        """The weights as float32, by name, in their shapes."""
        return {name: self._floats(index) for name, index in self._weights.items()}

    @cached_property
    def moments(self) -> dict[str, dict[str, Floats]]:
        """The optimizer's tensors by kind, and by the weight that they belong to."""
        return {
            kind: {name: self._floats(index) for name, index in own.items()}
            for kind, own in self._moments.items()
        }

    @cached_property
    def scores(self) -> dict[str, Floats]:
        """Sensitivity, or |m w| with the first moment, of each weight that has one."""
        if self.sensitivity:
            return {name: self.sensitivity[name] for name in self._weights if name in self.sensitivity}
        firsts = ChainMap(*(self.moments.get(kind, {}) for kind in _GRADIENTS))
        return {name: np.abs(m * self.weights[name]) for name, m in firsts.items()}

    @property
    def raw_bytes(self) -> int:
        """Bytes of everything."""
        return self.captured.raw_bytes

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights, in the types that they have."""
        return sum(self.captured.leaves[index].raw_bytes for index in self._weights.values())

    def rest(self) -> Iterator[tuple[str, CapturedLeaf]]:
        """Yield every leaf that is no such weight, with the kind of its moment or an empty string."""
        kinds = {index: kind for kind, own in self._moments.items() for index in own.values()}
        weights = set(self._weights.values())
        for index, leaf in enumerate(self.captured.leaves):
            if index not in weights:
                yield kinds.get(index, ""), leaf

    def blob_bytes(self) -> Iterable[bytes]:
        """Return the content of everything that is no tensor."""
        return (bytes(blob.read()) for blob in self.captured.blobs.values())

    def state(
        self,
        weights: Mapping[str, Floats] | None = None,
        moments: Mapping[str, Mapping[str, Floats]] | None = None,
    ) -> Any:  # noqa: ANN401  # a state is anything
        """Return the state, in memory of its own.

        Args:
            weights: stand for its own, rounded to the types that these have.
            moments: likewise, by kind.
        """
        replaced = {self._weights[name]: values for name, values in (weights or {}).items()}
        for kind, own in (moments or {}).items():
            replaced |= {self._moments[kind][name]: values for name, values in own.items()}

        def leaf(index: int) -> torch.Tensor:
            found, values = self.captured.leaves[index], replaced.get(index)
            content = (
                found.source.read() if values is None else from_float32(values.ravel(), found.dtype.name)
            )
            return torch_tensor(found.dtype, found.shape, content)

        def blob(identifier: ObjectId, _: int) -> bytes:
            return bytes(self.captured.blobs[identifier].read())

        files = self.captured.files
        return rebuild_state(self.captured.root if files is None else files[0].node, leaf, blob)

    def _floats(self, index: int) -> Floats:
        leaf = self.captured.leaves[index]
        values = to_float32(np.frombuffer(leaf.source.read(), np.uint8), leaf.dtype.name)
        return values.reshape(leaf.shape)


@dataclass(frozen=True)
class RecordedRun:
    """The checkpoints of a run, which are read one at a time.

    Attributes:
        source: where they are: a folder, or revisions of a repository.
        digest: BLAKE3 of their contents, or of their commits' ids.
        folder: where their files lie; None for commits.
        every: of how many there, one is used.
        readers: what reads each, by step, in order.
    """

    source: str
    digest: str
    folder: Path | None
    every: int
    readers: Mapping[int, Callable[[], RecordedState]] = field(repr=False)

    @classmethod
    def of_folder(cls, folder: Path, every: int = 1) -> "RecordedRun":
        """Find the checkpoint files of a folder, of which every so many count.

        Raises:
            NotFoundError: there are fewer than two, or fewer than two count.
        """
        found = checkpoints(folder)[::every]
        if len(found) < _FEWEST:
            raise NotFoundError(f"of the checkpoints in '{folder}' {len(found)} is used, and two are needed")
        hasher = blake3()
        for one in found:
            hasher.update(blake3(max_threads=blake3.AUTO).update_mmap(one.path).digest())
        readers = {one.step: partial(RecordedState.of_file, one) for one in found}
        return cls(str(folder), hasher.hexdigest(), folder, every, readers)

    @classmethod
    def of_commits(cls, repository: Repository, revisions: str, every: int = 1) -> "RecordedRun":
        """Find the commits of a range, of which every so many count.

        Args:
            repository: that has them.
            revisions: a revision for its whole history, or `A..B` for what B has and A has not.
            every: one of so many is used.

        Raises:
            NotFoundError: there are fewer than two, or no such revisions.
            UsageError: a commit has no step, or two have the same.
        """
        old, dots, new = revisions.partition("..")
        left_out = {one.id for one in repository.log(old or "HEAD")} if dots else set()
        tip = (new or "HEAD") if dots else revisions
        found = [one for one in repository.log(tip) if one.id not in left_out][::-1][::every]
        if len(found) < _FEWEST:
            hint = "name a revision for its whole history, or two with dots between them, such as v1..main"
            raise NotFoundError(
                f"there are {len(found)} commits in '{revisions}', and two are needed", hint=hint
            )
        steps = [one.step for one in found]
        if None in steps or len(set(steps)) < len(steps):
            hint = "commit with --step, or save the checkpoints as files and name their folder"
            raise UsageError(f"the commits of '{revisions}' need a step each, all different", hint=hint)

        def read(step: int, revision: str) -> RecordedState:
            state, files = repository.restore(revision).state, repository.show(revision).files
            return RecordedState(step, capture_state(state[files[0]] if files and len(files) == 1 else state))

        readers = {one.step: partial(read, one.step, one.id) for one in found if one.step is not None}
        digest = blake3(" ".join(one.id for one in found).encode()).hexdigest()
        return cls(revisions, digest, None, every, readers)
