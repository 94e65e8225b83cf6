"""Files as the states that checkout returns, with their own values or with those a commit would restore."""

import functools
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import torch

from mvcs.checkpoint import Captured, rebuild_state, torch_tensor
from mvcs.commits import RestoredValues
from mvcs.objects import ObjectId, Path
from mvcs.train.evaluation.live_tensors import OtherWeights


@dataclass(frozen=True)
class FileStates:
    """Makes states of files that were taken apart; each has memory of its own."""

    captured: Captured

    def make(self, values: RestoredValues | None = None, bad: Container[Path] = ()) -> Any:  # noqa: ANN401 - a state is anything
        """Return the content of the file, or of several files a dict by their paths in the commit.

        Args:
            values: what the quantized leaves would restore to; None leaves everything as it is in the files.
            bad: leaves that get quite other values.

        Raises:
            ConflictError: a file changed since it was taken apart.
        """

        @functools.cache
        def leaf(index: int) -> torch.Tensor:
            found = self.captured.leaves[index]
            bounded = values is not None and found.path in values
            content = values.content(found.path) if values and bounded else found.source.read()
            made = torch_tensor(found.dtype, found.shape, content)
            return OtherWeights({"": made})[""] if found.path in bad else made

        files = self.captured.files or ()
        states = {entry.path: rebuild_state(entry.node, leaf, self._blob) for entry in files}
        return states if len(states) != 1 else states.popitem()[1]

    def _blob(self, identifier: ObjectId, _: int) -> bytes:
        return bytes(self.captured.blobs[identifier].read())
