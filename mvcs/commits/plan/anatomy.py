"""What the leaves of a state are to each other: worked out once a commit, and handed down."""

from dataclasses import dataclass
from functools import cached_property

from mvcs.checkpoint import (
    Captured,
    CapturedLeaf,
    Parameter,
    Role,
    loose_parameters,
    optimizer_parameters,
    roles_of,
)
from mvcs.commits.plan.copies import averages, masters
from mvcs.commits.plan.optimizer_states import OptimizerState
from mvcs.objects import Path, element_count

_TOO_FEW = 1 / 1000  # of the values of all parameters


@dataclass(frozen=True)
class Anatomy:
    """The parts of a state, and which belongs to which; each is worked out when it is first asked for.

    Attributes:
        captured: the state or files, as handed over.
    """

    captured: Captured

    @cached_property
    def roles(self) -> list[Role]:
        """The role of each leaf; one whose values its file has elsewhere as well is none to be rounded."""
        pairs = zip(self.captured.leaves, roles_of(self.captured), strict=True)
        return [Role.OTHER if leaf.verbatim else role for leaf, role in pairs]

    @cached_property
    def weights(self) -> list[CapturedLeaf]:
        """The leaves that are weights, in order."""
        pairs = zip(self.captured.leaves, self.roles, strict=True)
        return [leaf for leaf, role in pairs if role is Role.WEIGHT]

    @cached_property
    def copies(self) -> dict[int, int]:
        """The number of its master for each leaf that is a low-precision copy."""
        return masters(self.captured.leaves)

    @cached_property
    def averages(self) -> dict[Path, Path]:
        """The weight of the model that each weight beside it is an average of, by their paths."""
        leaves = self.captured.leaves
        copies = {leaves[index].path for index in self.copies}
        trained = {leaves[one.weight].path for one in self.parameters if one.weight is not None}
        return averages(self.weights, copies, trained)

    @cached_property
    def optimizers(self) -> list[OptimizerState]:
        """The state that each parameter has in its optimizer, in the order of `parameters`."""
        return [OptimizerState.of(parameter) for parameter in self.parameters]

    @cached_property
    def large_optimizers(self) -> list[OptimizerState]:
        """Those of `optimizers` whose parameters have a thousandth of all values or more."""
        sizes = [element_count(self.captured.leaves[one.parameter.any_leaf].shape) for one in self.optimizers]
        least = sum(sizes) * _TOO_FEW
        return [one for one, size in zip(self.optimizers, sizes, strict=True) if size >= least]

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The parameters of every optimizer, each with its weight where that is clear; then other moments."""
        grouped = optimizer_parameters(self.captured, self.roles)
        return [*grouped, *loose_parameters(self.captured, self.roles, grouped)]
