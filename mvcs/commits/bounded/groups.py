"""The leaves of a bounded commit, group by group: each gets its coding, and is stored by it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from mvcs.commits.before.snap_back import SnapBack
from mvcs.commits.leaves.coded_tensor import CodedTensor, Coder, GivenLeaf, Parts, worthwhile
from mvcs.commits.leaves.stored_tree import BoundedLeaves, ExactLeaves, Stored
from mvcs.commits.leaves.tensor_errors import TensorErrors
from mvcs.commits.plan.treatments import MomentKinds, MomentTiers, Planned, Treatment, plan
from mvcs.commits.quantizers.chosen import Codings, absent, constant, derived
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import Absent, Leaf, Path, QuantizedTensor
from mvcs.quantize import Coding, RestoredTensor

_FIRST_MOMENTS = frozenset({Treatment.FIRST, Treatment.MOMENTUM})
_NOTHING: Mapping[int, RestoredTensor] = {}
_GUARDED = frozenset({Treatment.WEIGHT, Treatment.FINE})


@dataclass(frozen=True)
class Refinement:
    """Quantizes tensors as finely as a commit needs.

    Attributes:
        coder: makes codes.
        codings: knows finer ways to.
        errors: says how far off a tensor may be, and is told of those that had to be refined.
        snap_back: what keeps progress since a lossy restore; None where there was none.
    """

    coder: Coder
    codings: Codings
    errors: TensorErrors
    snap_back: SnapBack | None

    def of(self, given: GivenLeaf, asked: Coding) -> CodedTensor | None:
        """Return a tensor in codes, as fine as asked for or finer.

        That is until it is no farther off than any may be, and progress since a lossy restore survives. None
        keeps it exactly: too many values would have to be exceptions, a few bytes would stand for more than
        readers allow, no coding is fine enough, or what the state continued from cannot be read.
        """
        try:
            return self._fine_enough(given, asked)
        except (CorruptionError, NotFoundError):
            if self.snap_back is None:
                raise
            self.snap_back.note_exact()
            return None

    def _fine_enough(self, given: GivenLeaf, asked: Coding) -> CodedTensor | None:
        parts, before = Parts.of(given.leaf), self.codings.refined(given)
        coding: Coding | None = asked
        too_far = False
        while coding is not None:
            made = self.coder.coded(given, parts, coding)
            if not worthwhile(given.leaf, made.chunks):
                break
            excess = self.errors.excess(made.errors, coding.parameters, before, given.kind)
            if excess <= 1 and self._keeps_progress(given, made, refined=coding is not asked):
                if too_far:
                    self.errors.note(self.errors.refined, given.leaf.path)
                return made
            too_far |= excess > 1
            coding = self.codings.finer(given.leaf, asked, coding, excess, before)
        if too_far:
            self.errors.note(self.errors.exact, given.leaf.path)
        elif coding is None and self.snap_back is not None:
            self.snap_back.note_exact()
        return None

    def _keeps_progress(self, given: GivenLeaf, made: CodedTensor, *, refined: bool) -> bool:
        """Tell whether progress since a lossy restore survives a tensor's codes."""
        guard = self.snap_back
        before = guard.before(given.leaf) if guard and given.treatment in _GUARDED else None
        if guard is None or before is None:
            return True
        sums = made.retained(before)
        if guard.keeps(sums, made.errors):
            guard.note(sums, refined=refined)
            return True
        return False


@dataclass(frozen=True)
class BoundedGroups:
    """Stores the leaves of one bounded commit.

    Attributes:
        codings: chooses how each is quantized.
        refinement: quantizes it, as finely as it has to be.
        bounded: stores what is quantized.
        keeper: stores what is not.
        kinds: what moments are.
        tiers: what is kept of them.
        beyond: the tensors that no coding fits, since float32 does not reach their values.
        weights: what is stored of weights so far that averages follow, by the number of the leaf.
    """

    codings: Codings
    refinement: Refinement
    bounded: BoundedLeaves
    keeper: ExactLeaves
    kinds: MomentKinds
    tiers: MomentTiers
    beyond: frozenset[Path] = frozenset()
    weights: dict[int, QuantizedTensor] = field(default_factory=dict)

    @property
    def errors(self) -> TensorErrors:
        """How far off tensors are."""
        return self.refinement.errors

    @property
    def snap_back(self) -> SnapBack | None:
        """What keeps progress since a lossy restore; None where there was none."""
        return self.refinement.snap_back

    @property
    def coder(self) -> Coder:
        """What knows of the parent's codes, and of earlier weights."""
        return self.refinement.coder

    def groups(self) -> list[list[Planned]]:
        """Return all leaves in groups: a leaf, then those that refer to it."""
        anatomy = self.keeper.anatomy
        leaves = anatomy.captured.leaves
        return plan(leaves, anatomy.roles, self._copies, self.kinds, self.tiers, self.codings.is_free)

    @property
    def _copies(self) -> Mapping[int, int]:
        """The master of each low-precision copy that is measured where its master is."""
        anatomy, parts = self.keeper.anatomy, self.codings.parts or {}
        of = [parts.get(leaf.path) for leaf in anatomy.captured.leaves]
        return {copy: master for copy, master in anatomy.copies.items() if of[copy] == of[master]}

    def waves(self) -> list[list[list[Planned]]]:
        """Return all groups in waves: averages that are new after the weights that they are stored near."""
        groups = self.groups()
        if not self.beginning:
            return [groups]
        is_late = [any(item.index in self.beginning for item in group) for group in groups]
        return [
            [group for group, late in zip(groups, is_late, strict=True) if late is wave]
            for wave in (False, True)
        ]

    @cached_property
    def beginning(self) -> Mapping[int, int]:
        """The averages that the parent does not have, with the weights that they are of, by their numbers."""
        anatomy, bases = self.keeper.anatomy, self.keeper.bases
        places = {leaf.path: index for index, leaf in enumerate(anatomy.captured.leaves)}
        pairs = ((places[path], places[other]) for path, other in anatomy.averages.items())
        leaves = anatomy.captured.leaves
        return {own: other for own, other in pairs if bases.find(leaves[own]) is None}

    def store(self, group: list[Planned]) -> Stored:
        """Store a group."""
        done: dict[int, RestoredTensor] = {}
        return [(item.index, self._store(item, done)) for item in group]

    def _store(self, item: Planned, done: dict[int, RestoredTensor]) -> Leaf:
        given = self.given(item, done)
        coded = self.coded(given)
        if coded is None:
            return self.keeper.keep(item.index)
        leaf, done[item.index] = self.bounded.store(given, coded)
        if item.index in self._followed:
            self.weights[item.index] = done[item.index].tensor
        is_left_out = isinstance(coded.coding.parameters, Absent)
        self.errors.add(given.kind, given.leaf.path, coded.errors, left_out=is_left_out)
        return leaf

    @cached_property
    def _followed(self) -> frozenset[int]:
        return frozenset(self.beginning.values())

    def given(self, item: Planned, done: Mapping[int, RestoredTensor] = _NOTHING) -> GivenLeaf:
        """Return a leaf with what its codes need, beside those of its group that are done."""
        leaf = self.keeper.anatomy.captured.leaves[item.index]
        source = None if item.source is None else done.get(item.source)
        base, beside = self.keeper.bases.find(leaf), self.beginning.get(item.index)
        weight = None if beside is None else self.weights.get(beside)
        return GivenLeaf(leaf, item.treatment, base, source, self.tiers[item.index], weight)

    def coded(self, given: GivenLeaf) -> CodedTensor | None:
        """Return a leaf in codes that are fine enough; None keeps it exactly."""
        asked = self.asked(given)
        if asked is not None:
            return self.refinement.of(given, asked)
        if given.leaf.path in self.beyond and given.treatment is not Treatment.EXACT:
            self.errors.note(self.errors.exact, given.leaf.path)
        elif given.leaf.path in self.codings.on_grid:
            self.errors.note(self.errors.on_grid, given.leaf.path)
        return None

    def asked(self, given: GivenLeaf) -> Coding | None:
        """Return how the settings quantize a leaf; None keeps it exactly."""
        if given.treatment is Treatment.EXACT:
            return None
        found = constant(given.leaf)
        if found is None and given.moments.leaves_out_first and given.treatment in _FIRST_MOMENTS:
            found = absent(given.leaf)
        if found is not None or given.leaf.path in self.beyond:
            return found
        return self._coding(given)

    def _coding(self, given: GivenLeaf) -> Coding | None:
        codings = self.codings
        makers = {
            Treatment.WEIGHT: codings.weight,
            Treatment.FINE: codings.small,
            Treatment.SECOND: codings.moments.second,
            Treatment.MOMENTUM: codings.momentum,
            Treatment.ITERATE: codings.iterate,
        }
        if given.treatment in makers:
            return makers[given.treatment](given)
        if given.treatment is Treatment.VARIANCE:
            return codings.moments.variance(given.leaf)
        if given.source is None:
            return None
        if given.treatment is Treatment.COPY:
            return derived(given.leaf, given.source)
        return codings.moments.first(given, given.source)
