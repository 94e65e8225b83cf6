"""What the leaves of a state are to each other: worked out once a commit, and handed down."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mvcs.checkpoint import (
    MODELS,
    Captured,
    CapturedLeaf,
    KnownOptimizer,
    Moment,
    Parameter,
    Role,
    known_optimizer,
    loose_parameters,
    optimizer_parameters,
    path_components,
    roles_of,
)
from mvcs.errors import some_of
from mvcs.objects import Path, element_count
from mvcs.quantize import (
    UNNAMED,
    Floats,
    UpdateRule,
    from_float32,
    implausible_setting,
    tier_class,
    to_float32,
    update_rule,
)

_TOO_FEW = 1 / 1000  # of the values of all parameters
HALVES = frozenset({"float16", "bfloat16"})
MASTER = "float32"
_FIRST = 1 << 12  # elements that tell most strangers apart
_NEAR = 0.5  # of the squares of the weights: those of two runs are four times as far apart
KEPT_EXACTLY = "moments are kept exactly"  # in notes; whoever tells them once looks for it
DESCRIBED, _EXACTLY = "described", "kept exactly"
_RULES = frozenset({"Adam", "SGD"})
_NAMED = 6
_BY_NAME = {
    "exp_avg": Moment.FIRST,
    "exp_avg_sq": Moment.SECOND,
    "max_exp_avg_sq": Moment.SECOND,
    "square_avg": Moment.SECOND,
    "momentum_buffer": Moment.MOMENTUM,
}
_MEAN = "grad_avg"  # beside a second moment: their difference is a variance, which stays exact


@dataclass(frozen=True)
class OptimizerState:
    """One parameter's state in an optimizer.

    Attributes:
        parameter: as the optimizer has it.
        known: which optimizer that is; None where it is not known.
    """

    parameter: Parameter
    known: KnownOptimizer | None

    @classmethod
    def of(cls, parameter: Parameter) -> "OptimizerState":
        """Tell which optimizer a parameter's state belongs to."""
        return cls(parameter, known_optimizer(parameter.names, parameter.settings.keys()))

    @cached_property
    def odd(self) -> str | None:
        """A setting that no run has, such as a beta of 1, as a text; None where none is odd."""
        needed = self.known.has if self.known is not None and self.known.rounds else ()
        return implausible_setting(self.parameter.settings, self.parameter.step, needed)

    @cached_property
    def rule(self) -> UpdateRule | None:
        """How the parameter is updated; None where that is not known."""
        known = self.known is not None and self.known.name in _RULES
        return update_rule(self.parameter.settings, self.parameter.step) if known and not self.odd else None

    @property
    def name(self) -> str | None:
        """What a commit calls its optimizer, and the settings that a tier goes by; None of an unknown one."""
        return str(self.rule or self.known.name) if self.known else None

    def told(self, described: Mapping[str, Moment]) -> str | None:
        """Return what a commit records of its optimizer: of an unknown one what it keeps, and in which way.

        None where it keeps nothing.
        """
        if self.name is not None or self.parameter.is_named or not self.parameter.names:
            return self.name
        way = _EXACTLY if self.tier_class(described) is None else DESCRIBED
        return f"unknown ({some_of(sorted(self.parameter.names), _NAMED)}; {way})"

    def moments(self, described: Mapping[str, Moment]) -> Iterator[tuple[int, Moment]]:
        """Yield what each of its tensors is; a description goes before what is known."""
        for name, index in self.parameter.leaves.items():
            yield index, described.get(name, self._moment(name))
        for found in self.parameter.nested.values():
            yield from ((index, Moment.EXACT) for index in found)

    def _moment(self, name: str) -> Moment:
        if self.parameter.is_named:
            found = _BY_NAME.get(name, Moment.EXACT)
            centered = found is Moment.SECOND and _MEAN in self.parameter.leaves
            return Moment.EXACT if centered else found
        return self.known.moment(name) if self.known and not self.odd else Moment.EXACT

    def tier_class(self, described: Mapping[str, Moment]) -> str | None:
        """Return what it counts as where tiers are chosen; None where nothing of it may be rounded."""
        if any(described.get(name, Moment.EXACT) is not Moment.EXACT for name in self.parameter.leaves):
            return DESCRIBED
        if self.parameter.is_named:
            return None if _BY_NAME.keys().isdisjoint(self.parameter.leaves) else UNNAMED
        if self.known is None or self.odd or not self.known.rounds:
            return None
        return tier_class(self.known.name, self.parameter.settings)

    def doubt(self, described: Mapping[str, Moment]) -> str | None:
        """Return a note on why its moments are kept exactly; None where that needs no saying."""
        names = sorted(self.parameter.names - described.keys())
        if not names or self.parameter.is_named:
            return None
        if self.known is not None and not (self.odd and self.known.rounds):
            return None
        if self.known is not None:
            return f"the {self.known.name} with {self.odd}: its {KEPT_EXACTLY}, since no run has that"
        told = f'"{names[0]}": "momentum"' + (", ..." if len(names) > 1 else "")
        return (
            f"the optimizer that keeps {some_of(names, _NAMED)} is not known: its {KEPT_EXACTLY};"
            f" say what they are with moments={{{told}}}, where each is {', '.join(Moment)}"
        )


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


def masters(leaves: Sequence[CapturedLeaf]) -> dict[int, int]:
    """Return, for each tensor that is a rounded copy of a float32 one, the number of that one.

    A copy equals its master rounded to nearest, ties to even, in every bit; mixed-precision training
    keeps both in one state.
    """
    by_shape: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, leaf in enumerate(leaves):
        if leaf.dtype.name == MASTER and leaf.raw_bytes:
            by_shape[leaf.shape].append(index)
    found = {}
    for index, leaf in enumerate(leaves):
        if leaf.dtype.name in HALVES:
            candidates = sorted(by_shape[leaf.shape], key=lambda other: -_alike(leaf, leaves[other]))
            master = next((other for other in candidates if _is_copy(leaf, leaves[other])), None)
            if master is not None:
                found[index] = master
    return found


def _alike(leaf: CapturedLeaf, other: CapturedLeaf) -> int:
    """Count the parts at the end of both paths that are the same: the likeliest master is tried first."""
    pairs = zip(reversed(path_components(leaf.path)), reversed(path_components(other.path)), strict=False)
    return next((count for count, (one, two) in enumerate(pairs) if one != two), len(leaf.path))


def _is_copy(leaf: CapturedLeaf, master: CapturedLeaf) -> bool:
    if _rounded(master.source.part(0, 4 * _FIRST), leaf) != leaf.source.part(0, 2 * _FIRST):
        return False
    # The grid counts elements, so that chunks of both cover the same ones.
    pairs = zip(leaf.views(), master.views(), strict=True)
    return all(_rounded(part, leaf) == own for own, part in pairs)


def _rounded(original: memoryview, leaf: CapturedLeaf) -> bytes:
    return from_float32(to_float32(original, MASTER), leaf.dtype.name)


def averages(
    weights: Sequence[CapturedLeaf], copies: Container[Path] = (), trained: Container[Path] = ()
) -> dict[Path, Path]:
    """Return the weight of a model that each weight beside it is an average of, by their paths.

    It has the weight's name and shape, and most of its values.

    Args:
        weights: of two and more dimensions.
        copies: low-precision copies of other tensors: these follow nothing, and nothing follows them.
        trained: weights that an optimizer has moments of: these follow nothing.
    """
    found = [leaf for leaf in weights if leaf.path not in copies]
    models = _by_name(found)
    beside = (leaf for leaf in found if leaf.path not in trained and _name(leaf.path) is None)
    pairs = ((leaf, _followed(leaf, models)) for leaf in beside)
    return {leaf.path: weight.path for leaf, weight in pairs if weight is not None and _near(leaf, weight)}


def _name(path: Path) -> tuple[str, ...] | None:
    """Return a weight's name in the model that it is of; None where it is of none."""
    at = next((at for at, key in enumerate(path[:2]) if key in MODELS), None)
    return None if at is None else tuple(path_components(path[at + 1 :]))


def _by_name(weights: Sequence[CapturedLeaf]) -> Mapping[tuple[str, ...], CapturedLeaf]:
    """Return the weights of models by their names, without those of names that two models have."""
    named = [(name, leaf) for leaf in weights if (name := _name(leaf.path))]
    counts: dict[tuple[str, ...], int] = {}
    for name, _ in named:
        counts[name] = counts.get(name, 0) + 1
    return {name: leaf for name, leaf in named if counts[name] == 1}


def _followed(leaf: CapturedLeaf, models: Mapping[tuple[str, ...], CapturedLeaf]) -> CapturedLeaf | None:
    """Return the weight with the longest name that a path ends with."""
    parts = tuple(path_components(leaf.path))
    named = (models.get(parts[at:]) for at in range(1, len(parts)))
    return next((one for one in named if one is not None and one.shape == leaf.shape), None)


def _near(leaf: CapturedLeaf, weight: CapturedLeaf) -> bool:
    own, other = _begin(leaf), _begin(weight)
    with np.errstate(all="ignore"):
        return bool(np.sum(np.square(own - other)) <= _NEAR * np.sum(np.square(other)))


def _begin(leaf: CapturedLeaf) -> Floats:
    count = min(_FIRST, element_count(leaf.shape))
    return to_float32(leaf.source.part(0, count * leaf.dtype.itemsize), leaf.dtype.name)
