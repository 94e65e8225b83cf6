"""The parts of a state that are measured, and what a commit would restore of each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch

from mvcs.commits import RestoredValues
from mvcs.errors import UsageError
from mvcs.objects import Path, path_text
from mvcs.train.evaluation.evaluator import Evaluator
from mvcs.train.evaluation.live_tensors import Weights


@dataclass(frozen=True)
class Part:
    """A part of a state that is measured by itself.

    Attributes:
        name: "model", or as "extra.ema".
        evaluator: measures it.
        place: where its state stands in that of the run.
        tensors: of it, by path in the state of the run.
        names: of an average, which the model's own evaluation measures: the parameter or buffer of the model
            that each tensor is loaded into; None where the tensors are those of the evaluated object.
    """

    name: str
    evaluator: Evaluator
    place: Path
    tensors: Mapping[Path, torch.Tensor]
    names: Mapping[Path, str] | None = None

    @cached_property
    def own(self) -> Weights | None:
        """What is evaluated as it was handed over; None where the evaluated object holds it."""
        inner = {path[len(self.place) :]: path for path in self.tensors} if self.names is None else {}
        names = self.names or {inner[path]: name for path, name in self.evaluator.copies(inner).items()}
        live = self.evaluator.live
        return {name: self.tensors[path].to(live[name].dtype) for path, name in names.items()} or None

    @cached_property
    def frozen(self) -> frozenset[Path]:
        """The paths of parameters that are not trained."""
        untrained, names = self.evaluator.frozen, self.names or {}
        return frozenset(path for path in self.tensors if names.get(path, path[-1]) in untrained)

    def weights(self, restored: RestoredValues, model: "Part | None" = None) -> "RestoredWeights":
        """Return what a commit would restore, as it is evaluated.

        Args:
            restored: what a commit would restore of the whole state.
            model: where that is restored bounded too: an average gets from it what it does not have itself.

        Raises:
            UsageError: a value that would be another one is not that of a parameter or buffer.
        """
        own, live = self.own or {}, self.evaluator.live
        beside = model._places(restored) if model is not None and self.names is not None else {}  # noqa: SLF001
        places = {name: path for name, path in beside.items() if name not in own} | self._places(restored)
        return RestoredWeights(restored, places, own, live)

    def _places(self, restored: RestoredValues) -> dict[str, Path]:
        if self.names is not None:
            return {name: path for path, name in self.names.items() if path in restored}
        inner = {path[len(self.place) :]: path for path in restored if path in self.tensors}
        found = self.evaluator.names(inner)
        for inside, path in inner.items():
            if inside not in found and restored.content(path) != bytes(restored.leaf(path).source.read()):
                raise UsageError(
                    f"the {self.name} has no ordinary parameter or buffer '{path_text(inside)}'",
                    hint="let its state_dict() hold its own tensors, not copies of them",
                )
        return {name: inner[inside] for inside, name in found.items()}


@dataclass(frozen=True)
class RestoredWeights(Mapping[str, torch.Tensor]):
    """Restored values of parameters and buffers by name, each made when it is asked for.

    Attributes:
        restored: of all leaves of a state.
        places: of those that are restored from codes, by name.
        exact: the values of others.
        live: the parameters and buffers that they are written into, whose dtypes they get.
    """

    restored: RestoredValues
    places: Mapping[str, Path]
    exact: Weights = field(default_factory=dict)
    live: Weights = field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.places.keys() | self.exact.keys())

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter({**self.exact, **self.places})

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return the values in the shape of the leaf."""
        if name not in self.places:
            return self.exact[name]
        path = self.places[name]
        leaf = self.restored.leaf(path)
        value = torch.from_numpy(self.restored[path]).reshape(leaf.shape)
        # An average may be of another type than the model: it is loaded as a checkout gives it.
        return value.to(getattr(torch, leaf.dtype.name)).to(self.live[name].dtype)
