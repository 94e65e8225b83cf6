"""Finer and finer codes of one tensor, until they are fine enough or it is kept exactly."""

from dataclasses import dataclass

from mvcs.commits.before.snap_back import SnapBack
from mvcs.commits.leaves.coded_tensor import CodedTensor, Coder, Parts
from mvcs.commits.leaves.given_leaf import GivenLeaf
from mvcs.commits.leaves.tensor_errors import TensorErrors
from mvcs.commits.plan.treatments import Treatment
from mvcs.commits.quantizers.chosen import Codings
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.quantize import Coding

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
            if not made.is_worthwhile:
                break
            excess = self.errors.excess(made.errors, coding.parameters, before, given.kind)
            if excess <= 1 and self._keeps_progress(given, made, refined=coding is not asked):
                self._note_refined(given, too_far=too_far)
                return made
            too_far |= excess > 1
            coding = self.codings.finer(given.leaf, asked, coding, excess, before)
        self._note_exact(given, too_far=too_far, exhausted=coding is None)
        return None

    def _note_refined(self, given: GivenLeaf, *, too_far: bool) -> None:
        if too_far:
            self.errors.note_refined(given.leaf.path)

    def _note_exact(self, given: GivenLeaf, *, too_far: bool, exhausted: bool) -> None:
        if too_far:
            self.errors.note_exact(given.leaf.path)
        elif exhausted and self.snap_back is not None:
            self.snap_back.note_exact()

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
