"""The leaves of a bounded commit, group by group: each gets its coding, and is stored by it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from mvcs.checkpoint import Captured, CapturedLeaf, Role
from mvcs.commits.before.momentum import Momentum
from mvcs.commits.bounded.next_update_error import NextUpdate
from mvcs.commits.leaves.bounded import BoundedLeaves, CodedTensor, Parts, Quantized, worthwhile
from mvcs.commits.leaves.exact import ExactLeaves, Stored
from mvcs.commits.leaves.tensor_errors import FIRST_MOMENT, SECOND_MOMENT
from mvcs.commits.leaves.wide_types import beyond
from mvcs.commits.plan.treatments import Planned, Treatment, plan
from mvcs.commits.quantizers.chosen import Codings, absent, constant, derived
from mvcs.commits.quantizers.importance import importance_of
from mvcs.commits.quantizers.refined import Refined, Refining
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import Commit, Leaf, LogLattice, Path
from mvcs.quantize import CARRIED_MOMENT, Coding, QuantizerConfig, cheapest_tier

_GUARDED = frozenset({Treatment.WEIGHT, Treatment.FINE})
_CODED = frozenset({Role.WEIGHT, Role.SMALL, Role.MOMENT})
_FIRST_MOMENTS = frozenset({Treatment.FIRST, Treatment.MOMENTUM})

CLASSES = {
    Treatment.WEIGHT: "weight",
    Treatment.COPY: "weight",
    Treatment.FINE: "small",
    Treatment.VARIANCE: "small",
    Treatment.SECOND: SECOND_MOMENT,
    Treatment.FIRST: FIRST_MOMENT,
    Treatment.MOMENTUM: FIRST_MOMENT,
}


@dataclass(frozen=True)
class BoundedGroups:
    """Stores the leaves of one bounded commit.

    Attributes:
        codings: chooses how each is quantized.
        bounded: stores what is quantized.
        keeper: stores what is not.
        update: compares the optimizer's next update.
        beyond: the tensors that no coding fits, since float32 does not reach their values.
    """

    codings: Codings
    bounded: BoundedLeaves
    keeper: ExactLeaves
    update: NextUpdate
    beyond: frozenset[Path] = frozenset()

    @property
    def captured(self) -> Captured:
        """What was handed over."""
        return self.keeper.captured

    @classmethod
    def prepare(
        cls,
        config: QuantizerConfig,
        bounded: BoundedLeaves,
        keeper: ExactLeaves,
        given: Mapping[str, ArrayLike],
        before: Commit | None = None,
    ) -> "BoundedGroups":
        """Look at the whole state for what its tensors have in common.

        Args:
            config: the settings.
            bounded: stores what is quantized.
            keeper: stores what is not.
            given: scores of weights.
            before: the parent.
        """
        anatomy = keeper.anatomy
        update = NextUpdate.of(anatomy.captured, anatomy.parameters)
        if config.moments.is_auto:
            config = replace(config, moments=cheapest_tier(update.rules, config.moments.max_degradation))
        if config.moments.first == CARRIED_MOMENT:
            bounded.momentum = Momentum(anatomy)
        codings = Codings(config, bounded, importance_of(anatomy, config, given))
        leaves = zip(anatomy.captured.leaves, anatomy.roles, strict=True)
        outside = beyond(leaf for leaf, role in leaves if role in _CODED)
        weights = [leaf for leaf in anatomy.weights if leaf.path not in outside]
        codings.prepare(((leaf, keeper.bases.find(leaf)) for leaf in weights), before)
        return cls(codings, bounded, keeper, update, outside)

    def groups(self) -> list[list[Planned]]:
        """Return all leaves in groups: a leaf, then those that refer to it."""
        moments = self.codings.config.moments
        return plan(
            self.captured.leaves,
            self.keeper.anatomy.roles,
            self.keeper.anatomy.copies,
            moments=(moments.first, moments.second) != ("exact", "exact"),
        )

    def store(self, group: list[Planned]) -> Stored:
        """Store a group."""
        done: dict[int, Quantized] = {}
        stored = []
        for item in group:
            quantized = self._quantized(item, done)
            if quantized is not None:
                done[item.index] = quantized
            self.update.note(item.index, quantized)
            stored.append((item.index, quantized.leaf if quantized else self.keeper.keep(item.index)))
        return stored

    def _quantized(self, item: Planned, done: Mapping[int, Quantized]) -> Quantized | None:
        leaf = self.captured.leaves[item.index]
        coded = self.coded(item, leaf, self.keeper.bases.find(leaf), done)
        return None if coded is None else self.bounded.store(leaf, coded, CLASSES[item.treatment])

    def coded(
        self, item: Planned, leaf: CapturedLeaf, base: Leaf | None, done: Mapping[int, Quantized]
    ) -> CodedTensor | None:
        """Return a leaf in codes that are fine enough, beside those of its group that are done.

        They are as fine as asked for, or finer, until the tensor is no farther off than any may be, and
        progress since a lossy restore survives. None keeps it exactly: that was asked for, too many values
        would have to be exceptions, a few bytes would stand for more than readers allow, or no coding is fine
        enough.
        """
        asked = self.asked(item, leaf, base, done)
        if asked is None:
            if leaf.path in self.beyond and item.treatment is not Treatment.EXACT:
                self.bounded.errors.note_exact(leaf.path)
            return None
        try:
            return self._fine_enough(item, leaf, base, asked)
        except (CorruptionError, NotFoundError):
            if self.bounded.snap_back is None:
                raise
            # What the state continued from cannot be read: nothing of the state may be lost.
            self.bounded.snap_back.note_exact()
            return None

    def asked(
        self, item: Planned, leaf: CapturedLeaf, base: Leaf | None, done: Mapping[int, Quantized]
    ) -> Coding | None:
        """Return how the settings quantize a leaf; None keeps it exactly."""
        if item.treatment is Treatment.EXACT:
            return None
        found = constant(leaf) or self._left_out(item, leaf)
        if found is not None or leaf.path in self.beyond:
            return found
        return self._coding(item, leaf, base, done)

    def _left_out(self, item: Planned, leaf: CapturedLeaf) -> Coding | None:
        leaves_out = self.codings.config.moments.leaves_out_first
        return absent(leaf) if leaves_out and item.treatment in _FIRST_MOMENTS else None

    def _coding(
        self, item: Planned, leaf: CapturedLeaf, base: Leaf | None, done: Mapping[int, Quantized]
    ) -> Coding | None:
        if item.source is not None:
            source = done.get(item.source)
            return None if source is None else self._beside(item, leaf, source)
        match item.treatment:
            case Treatment.WEIGHT:
                return self.codings.weight(leaf, base)
            case Treatment.FINE:
                return self.codings.small(leaf, base)
            case Treatment.VARIANCE:
                return self.codings.variance(leaf)
            case Treatment.SECOND:
                return self.codings.second(leaf, base)
            case _:
                return self.codings.momentum(leaf)

    def _beside(self, item: Planned, leaf: CapturedLeaf, source: Quantized) -> Coding | None:
        if item.treatment is Treatment.COPY:
            return derived(leaf, source)
        usable = isinstance(source.tensor.parameters, LogLattice)
        return self.codings.first(leaf, source) if usable else None

    def _fine_enough(
        self, item: Planned, leaf: CapturedLeaf, base: Leaf | None, asked: Coding
    ) -> CodedTensor | None:
        parts, errors, before = Parts.of(leaf), self.bounded.errors, self.codings.refined(leaf, base)

        def coded(coding: Coding) -> CodedTensor | None:
            made = self.bounded.coded(parts, base, coding)
            return made if worthwhile(leaf, made.chunks) else None

        found = Refining(
            coded,
            excess=lambda made: errors.excess(made.errors, made.coding.parameters, before),
            keeps=lambda made: self._keeps_progress(item, leaf, made, refined=made.coding is not asked),
            finer=lambda coding, excess: self.codings.finer(leaf, asked, coding, excess, before),
        ).of(asked)
        self._note(leaf, found)
        return found.made

    def _note(self, leaf: CapturedLeaf, found: Refined[CodedTensor]) -> None:
        errors, guard = self.bounded.errors, self.bounded.snap_back
        if found.too_far and found.made is not None:
            errors.note_refined(leaf.path)
        elif found.too_far:
            errors.note_exact(leaf.path)
        elif found.exhausted and guard is not None:
            guard.note_exact()

    def _keeps_progress(
        self, item: Planned, leaf: CapturedLeaf, coded: CodedTensor, *, refined: bool
    ) -> bool:
        """Tell whether progress since a lossy restore survives a tensor's codes."""
        guard = self.bounded.snap_back
        before = guard.before(leaf) if guard and item.treatment in _GUARDED else None
        if guard is None or before is None:
            return True
        sums = self.bounded.retained(leaf, coded, before)
        if guard.keeps(sums):
            guard.note(sums, refined=refined)
            return True
        return False
