"""The steps that can be chosen at one commit of a run, as the search sees them."""

import math
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits import LatticeTrial
from mvcs.objects import STEP_BYTES, STEPS_PER_OCTAVE, Path, element_count
from mvcs.quantize import UNPACED
from mvcs.search import SEARCH_DEFAULTS, SearchSettings, StepCost


@dataclass(frozen=True)
class Steps:
    """The steps that can be chosen at one commit, as the search sees them.

    Attributes:
        trial: of the state.
        settings: what the search goes by.
        frozen: paths of parameters that are not trained.
        holds: whether weights that did not change since the parent keep their steps.
        within: paths of the weights whose steps are chosen; None for all.
        hysteresis: the one that the steps of other weights were chosen with; None where none were.
    """

    trial: LatticeTrial
    settings: SearchSettings = SEARCH_DEFAULTS
    frozen: Collection[Path] = ()
    holds: bool = True
    within: Container[Path] | None = None
    hysteresis: float | None = None

    @cached_property
    def kinds(self) -> Mapping[str, Sequence[CapturedLeaf]]:
        """The weights by layer type, of which each is of one part of the state."""
        own = self.within
        return {
            kind: leaves for kind, leaves in self.trial.kinds.items() if own is None or leaves[0].path in own
        }

    @cached_property
    def held(self) -> frozenset[str]:
        """The layer types whose steps stay, since their weights are frozen."""
        return self.trial.held.intersection(self.kinds) if self.holds else frozenset()

    @cached_property
    def starts(self) -> Mapping[str, int]:
        """The parent's step byte of each layer type, else the one that the settings give."""
        return {kind: self._start(kind, self.trial.starts[kind]) for kind in self.kinds}

    def _start(self, kind: str, own: int) -> int:
        if kind in self.held:
            return own
        parent = self.trial.parents.get(kind)
        if parent is None:
            return min(own, self.coarsest[kind])
        # A model that has not learned anything, or no longer does, does not mind any step.
        octaves = math.ceil(max(parent - self.coarsest[kind], 0) / STEPS_PER_OCTAVE)
        return parent - octaves * STEPS_PER_OCTAVE

    @cached_property
    def settled(self) -> Container[str]:
        """The layer types most of whose codes stay what they are as long as their step does."""
        return {
            kind
            for kind in self.trial.parents
            if kind in self.kinds and self._bits(kind) < self.settings.settled
        }

    def _bits(self, kind: str) -> float:
        """Return what a weight of a layer type takes at the step that it begins with."""
        weights = sum(element_count(leaf.shape) for leaf in self.trial.kinds[kind])
        return 8 * self.cost(kind, self.starts[kind], max(self.hystereses)).stored / weights

    @cached_property
    def coarsest(self) -> Mapping[str, int]:
        """Four times what the settings give: larger ones leave most weights zero."""
        most = self.settings.coarser
        return {kind: min(self.trial.starts[kind] + most, STEP_BYTES - 1) for kind in self.kinds}

    @property
    def hystereses(self) -> Sequence[float]:
        """Those up to what the settings allow; the largest alone where codes that are kept keep pace.

        At the same quality those take fewer bytes than the nearest.
        """
        if self.hysteresis is not None:
            return (self.hysteresis,)
        earlier, most, known = self.trial.earlier, self.trial.config.hysteresis, self.settings.hystereses
        if earlier is None or not self.trial.parents:
            return (0.0,)
        if earlier.drifts:
            return (max(hysteresis for hysteresis in known if hysteresis <= most),)
        return tuple(hysteresis for hysteresis in known if hysteresis <= min(most, UNPACED))

    def cost(self, kind: str, step: int, hysteresis: float) -> StepCost:
        """Return what a step means for a layer type."""
        tried = self.trial.tried(kind, step, hysteresis)
        return StepCost(tried.stored, tried.loss)

    @property
    def begins_frozen(self) -> bool:
        """Whether this is a first commit, and some of its weights are never trained."""
        paths = (leaf.path for leaves in self.kinds.values() for leaf in leaves)
        return self.trial.parents.keys().isdisjoint(self.kinds) and any(path in self.frozen for path in paths)
