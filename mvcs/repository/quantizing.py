"""The bounded half of the commit flow: each group of leaves gets its codings, and is stored by them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from mvcs.checkpoint.captured import Captured, CapturedLeaf
from mvcs.checkpoint.roles import Role, roles
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects.commit import Commit
from mvcs.objects.forms import LogLattice
from mvcs.objects.tree import Leaf
from mvcs.quantize.coding import Coding, LatticeCoding
from mvcs.quantize.config import QuantizerConfig
from mvcs.quantize.moments import CARRIED
from mvcs.quantize.tiers import tier_of
from mvcs.repository.bounding import Bounding, Parts, Quantized
from mvcs.repository.codings import Codings, absent, constant, derived
from mvcs.repository.importance import importance_of
from mvcs.repository.planning import Planned, Treatment, plan
from mvcs.repository.snapback import SnapBack
from mvcs.repository.storing import Keeper, Stored
from mvcs.repository.updating import NextUpdate

OCTAVE = 4  # step bytes
REFINEMENTS = 6  # octaves that a step may become finer by, before a tensor is kept exactly

_FIRST = frozenset({Treatment.FIRST, Treatment.MOMENTUM})

CLASSES = {
    Treatment.WEIGHT: "weight",
    Treatment.COPY: "weight",
    Treatment.FINE: "small",
    Treatment.VARIANCE: "small",
    Treatment.SECOND: "second moment",
    Treatment.FIRST: "first moment",
    Treatment.MOMENTUM: "first moment",
}


@dataclass(frozen=True)
class Quantizing:
    """Stores the leaves of one bounded commit.

    Attributes:
        captured: what was handed over.
        codings: chooses how each is quantized.
        bounding: stores what is quantized.
        keeper: stores what is not.
        update: compares the optimizer's next update.
    """

    captured: Captured
    codings: Codings
    bounding: Bounding
    keeper: Keeper
    update: NextUpdate

    @classmethod
    def prepare(
        cls,
        config: QuantizerConfig,
        bounding: Bounding,
        keeper: Keeper,
        given: Mapping[str, ArrayLike],
        before: Commit | None = None,
    ) -> "Quantizing":
        """Look at the whole state for what its tensors have in common.

        Args:
            config: the settings.
            bounding: stores what is quantized.
            keeper: stores what is not.
            given: scores of weights.
            before: the parent.
        """
        captured, kinds = keeper.captured, roles(keeper.captured)
        update = NextUpdate.of(captured, keeper.momentum.parameters)
        if config.moments.is_auto:
            config = replace(config, moments=tier_of(update.rules, config.moments.max_degradation))
        if config.moments.first == CARRIED:
            bounding.momentum = keeper.momentum
        codings = Codings(config, bounding, importance_of(captured, config, given))
        weights = zip(captured.leaves, kinds, strict=True)
        bases = ((leaf, keeper.bases.find(leaf)) for leaf, role in weights if role is Role.WEIGHT)
        codings.prepare(bases, before)
        return cls(captured, codings, bounding, keeper, update)

    def groups(self) -> list[list[Planned]]:
        """Return all leaves in groups: a leaf, then those that refer to it."""
        moments = self.codings.config.moments
        return plan(
            self.captured.leaves,
            roles(self.captured),
            self.keeper.copies,
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
        if item.treatment is Treatment.EXACT:
            return None
        leaf = self.captured.leaves[item.index]
        base = self.keeper.bases.find(leaf)
        coding = self.coding(item, leaf, base, done)
        return None if coding is None else self.bounding.store(leaf, base, coding, CLASSES[item.treatment])

    def coding(
        self, item: Planned, leaf: CapturedLeaf, base: Leaf | None, done: Mapping[int, Quantized]
    ) -> Coding | None:
        """Return how a leaf is quantized, beside those of its group that are done; None keeps it exactly."""
        coding = constant(leaf) or self._left_out(item, leaf) or self._coding(item, leaf, base, done)
        if coding is not None and item.treatment in {Treatment.WEIGHT, Treatment.FINE}:
            coding = self._retaining(leaf, base, coding)
        return coding

    def _left_out(self, item: Planned, leaf: CapturedLeaf) -> Coding | None:
        leaves_out = self.codings.config.moments.leaves_out_first
        return absent(leaf) if leaves_out and item.treatment in _FIRST else None

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

    def _retaining(self, leaf: CapturedLeaf, base: Leaf | None, coding: Coding) -> Coding | None:
        """Return a coding fine enough for progress since a lossy restore to survive it; None if none is."""
        guard = self.bounding.snap_back
        if guard is None:
            return coding
        try:
            if guard.before(leaf) is None:
                return coding
            kept = self._fine_enough(leaf, base, coding, guard)
        except (CorruptionError, NotFoundError):
            kept = None  # what the state continued from cannot be read: nothing of the state may be lost
        if kept is None:
            guard.note_exact()
        return kept

    def _fine_enough(
        self, leaf: CapturedLeaf, base: Leaf | None, coding: Coding, guard: SnapBack
    ) -> Coding | None:
        parts, finer = Parts.of(leaf), [coding, *_finer(coding)]
        for candidate in finer:
            chunks = self.bounding.coded(leaf, parts, candidate, self.bounding.comparable(base, candidate))
            sums = self.bounding.retained(leaf, parts, candidate, chunks, guard.before(leaf) or iter(()))
            if guard.keeps(sums):
                guard.note(sums, refined=candidate is not coding)
                return candidate
        return None


def _finer(coding: Coding) -> Iterator[Coding]:
    """Yield codings that keep more of small movements: without hysteresis, then finer by octaves."""
    if not isinstance(coding, LatticeCoding):
        return
    if coding.hysteresis:
        coding = replace(coding, hysteresis=0.0)
        yield coding
    for octaves in range(1, REFINEMENTS + 1):
        if coding.step >= OCTAVE * octaves:
            yield replace(coding, step=coding.step - OCTAVE * octaves)
