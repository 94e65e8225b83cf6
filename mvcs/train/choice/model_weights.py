"""What a commit would restore of a model, by the names of its parameters and buffers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import torch

from mvcs.commits import RestoredValues
from mvcs.errors import UsageError
from mvcs.objects import Path, path_text
from mvcs.train.choice.steps import MODEL


@dataclass(frozen=True)
class ModelWeights(Mapping[str, torch.Tensor]):
    """Restored values of a model's parameters and buffers by name, each made when it is asked for.

    Attributes:
        restored: of all leaves of a state; that of a run has the model's under its own name.
        paths: of the model's leaves, by the names of its parameters and buffers.
    """

    restored: RestoredValues
    paths: Mapping[str, Path]

    @classmethod
    def of(cls, restored: RestoredValues, names: Callable[[Iterable[Path]], Mapping[Path, str]]) -> Self:
        """Find the model's values among all.

        Args:
            restored: what a commit would restore.
            names: gives the names of parameters and buffers by paths in the state of the model.

        Raises:
            UsageError: a value that would be another one is not that of a parameter or buffer.
        """
        own = {path[1:]: path for path in restored if path[0] == MODEL}
        found = names(own)
        for inside, path in own.items():
            if inside not in found and _changes(restored, path):
                raise UsageError(
                    f"the model has no ordinary parameter or buffer '{path_text(inside)}'",
                    hint="let its state_dict() hold the model's own tensors, not copies of them",
                )
        return cls(restored, {name: own[inside] for inside, name in found.items()})

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.paths)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.paths)

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return the values in the shape and dtype of the leaf."""
        path = self.paths[name]
        leaf = self.restored.leaf(path)
        dtype = getattr(torch, leaf.dtype.name)
        return torch.from_numpy(self.restored[path]).reshape(leaf.shape).to(dtype)


def _changes(restored: RestoredValues, path: Path) -> bool:
    return restored.content(path) != bytes(restored.leaf(path).source.read())
