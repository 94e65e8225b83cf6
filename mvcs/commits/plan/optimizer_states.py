"""What the state of an optimizer is for each of its parameters: told by its kind, or by a description."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from mvcs.checkpoint import KnownOptimizer, Moment, Parameter, known_optimizer
from mvcs.errors import some_of
from mvcs.quantize import UNNAMED, UpdateRule, implausible_setting, tier_class, update_rule

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
