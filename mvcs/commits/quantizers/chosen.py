"""Which coding each leaf of a bounded commit gets: by settings, statistics, and the parent's scales."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.before.parent import ParentCodes
from mvcs.commits.leaves.coded_tensor import GivenLeaf
from mvcs.commits.quantizers.layer_types import LayerTypes, Weighed, unnumbered
from mvcs.commits.quantizers.leaf_values import LeafValues, scales
from mvcs.inshrinkerator import Importance, TableCoding, TableQuantizer
from mvcs.objects import (
    STEPS_PER_OCTAVE,
    Absent,
    Commit,
    Constant,
    Derived,
    DType,
    Leaf,
    LogLattice,
    Path,
    RootLattice,
    chunk_elements,
    element_count,
)
from mvcs.quantize import (
    LOG_SCALES,
    STEADY_RATIO,
    BareCoding,
    Coding,
    KMeansConfig,
    LatticeCoding,
    LatticeConfig,
    LogCoding,
    LogGrid,
    QuantizerConfig,
    RestoredTensor,
    RootCoding,
    RootSums,
    finest_step,
    from_float32,
    lattice_step,
    root_sums,
    steady_step,
    step_of,
    step_value,
    to_float32,
)
from mvcs.store import ObjectWriter, StoredCodes

# Of its own root mean square, where only signs are asked for: what is left of most tensors is their outliers.
_MOMENTUM_STEP = 3.0
_FINE_MOMENTUM_STEP, _FEW_VALUES = 1.0, 4096  # of so few values, which take next to nothing anyway
_ITERATE_STEP = 0.25  # the same unit; twice of it cost no more either
_VARIANCE_SCALE = 16
_FINEST_SMALL = 1 / 256  # the finest step of small tensors that goes with the finest log lattice
REFINEMENTS: Final = 6  # octaves that a step may become finer by, before a tensor is kept exactly
_COARSEST_ROOT = 0.5  # of the root of the second moment, for a first one that was kept as its sign


@dataclass(frozen=True)
class MomentCodings:
    """Makes codings of moments.

    Attributes:
        config: the settings.
        parents: gives the parent's offsets.
        writer: stores offsets of rows and columns.
        leant_on: whether an exact layer is stored near what codings restore.
    """

    config: QuantizerConfig
    parents: ParentCodes
    writer: ObjectWriter
    leant_on: bool

    def variance(self, leaf: CapturedLeaf) -> Coding | None:
        """Return the coding of a running variance; None keeps it exactly.

        Scales of outputs follow it, the same way for all data, and no log lattice is finer than 1/128 octave.
        """
        if self.config.small is None or self.config.small < _FINEST_SMALL:
            return None
        return self._log(leaf, LogGrid(_VARIANCE_SCALE), LogLattice(_VARIANCE_SCALE))

    def second(self, given: GivenLeaf) -> Coding | None:
        """Return the coding of a second moment; None keeps it exactly. Stores its offsets."""
        moments = given.moments
        if moments.second == "exact":
            return None
        coding = self._on_grid(given.leaf, moments.scale, self.parents.log_grid(given.base, moments.scale))
        bare = moments.second == "rank-1" and coding.grid.rows.size and _stands_alone(coding.grid, given.leaf)
        return replace(coding, bare=True) if bare else coding

    def finer(self, leaf: CapturedLeaf, coding: LogCoding) -> LogCoding | None:
        """Return a coding with codes beside its offsets, or with steps of half as many octaves."""
        if coding.bare:
            return replace(coding, bare=False)
        scale = coding.parameters.scale - 1
        return self._on_grid(leaf, scale, None) if scale in LOG_SCALES.values() else None

    def _on_grid(self, leaf: CapturedLeaf, scale: int, old: tuple[LogLattice, LogGrid] | None) -> LogCoding:
        """Return a log lattice with offsets of rows and columns, which it stores."""
        grid = LogGrid.fit(LeafValues(leaf), leaf.shape, scale, old[1] if old else None)
        form = LogLattice(scale)
        if grid.rows.size:
            known = old[0] if old else form
            put = partial(self.writer.put_codes, leant_on=self.leant_on)
            rows = put(StoredCodes(grid.rows.tobytes(), width=2), known.rows)
            cols = put(StoredCodes(grid.cols.tobytes(), width=2), known.cols)
            form = replace(form, rows=rows, cols=cols)
        return self._log(leaf, grid, form)

    def first(self, given: GivenLeaf, second: RestoredTensor) -> Coding | None:
        """Return the coding of a first moment beside its restored second moment; None keeps it exactly."""
        leaf, kept = given.leaf, given.moments.first
        if kept == "exact" or not isinstance(second.tensor.parameters, LogLattice):
            return None
        if isinstance(kept, float):
            step = lattice_step(1.0, kept)
        else:
            sums = RootSums()
            for index, values in enumerate(LeafValues(leaf)):
                sums += root_sums(values, second.floats(index))
            step = sums.sign_step
        form = RootLattice(step, second.tensor)
        return RootCoding(form, leaf.dtype, second.floats, signs=not isinstance(kept, float))

    def _log(self, leaf: CapturedLeaf, grid: LogGrid, form: LogLattice) -> LogCoding:
        return LogCoding(form, grid, leaf.dtype, chunk_elements(leaf.dtype))


@dataclass
class Codings:
    """Makes codings for the leaves of one commit.

    Attributes:
        config: the settings.
        parents: knows the parent's tensors.
        moments: makes the codings of moments.
        importance: gives scores of weights, for k-means.
        parts: see `CommitRequest`; leaves of several parts share nothing.
        types: the layer types of weights, where tensors of one share something.
        steps: step byte of each layer type; only a lattice shared by type has any.
        frozen: the parent's step byte of each weight that did not change since.
        averages: the weight that each of some is an average of.
        on_grid: tensors of 16 bits that are kept exactly, since their steps are finer than their grid.
    """

    config: QuantizerConfig
    parents: ParentCodes
    moments: MomentCodings
    importance: Importance = field(default_factory=Importance)
    parts: Mapping[Path, str] | None = None
    types: LayerTypes = field(default_factory=LayerTypes)
    steps: dict[str, int] = field(default_factory=dict)
    frozen: Mapping[Path, int] = field(default_factory=dict)
    averages: Mapping[Path, Path] = field(default_factory=dict)
    on_grid: set[Path] = field(default_factory=set)
    _followed: Mapping[Path, tuple[CapturedLeaf, Leaf | None]] = field(default_factory=dict)
    _scales: dict[Path, float] = field(default_factory=dict)
    _coarsest: dict[str, int] = field(default_factory=dict)
    _tables: TableQuantizer | None = None

    def prepare(
        self, weights: Iterable[tuple[CapturedLeaf, Leaf | None]], before: Commit | None = None
    ) -> None:
        """Look at all weights, each with the parent's, for what tensors of a layer type have in common.

        Args:
            weights: in their order.
            before: the parent, which tells what layer types there were.
        """
        config, found = self.config, list(weights)
        if config.shares_by_type:
            weighed = self._weighed(found)
            self.types = LayerTypes.of(weighed, before)
            self._scales = {one.leaf.path: one.scale.rms for one in weighed}
        if isinstance(config, KMeansConfig):
            self._tables = TableQuantizer(config, self.importance, self.types.__getitem__)
            self._tables.prepare(leaf for leaf, _ in found)
        elif isinstance(config, LatticeConfig) and config.shares_by_type:
            self.steps = self._steps(config, found)
        elif self.averages:
            pairs = {leaf.path: (leaf, base) for leaf, base in found}
            self._followed = {path: pairs[other] for path, other in self.averages.items() if other in pairs}

    def _steps(
        self, config: LatticeConfig, weights: Iterable[tuple[CapturedLeaf, Leaf | None]]
    ) -> dict[str, int]:
        """Return the step byte of each layer type that a step is fine enough for."""
        for leaf, base in weights:
            kind, old = self.types[leaf], self.parents.step(base)
            # Tensors that were refined have finer steps: the coarsest is the type's.
            if old is not None:
                self._coarsest[kind] = max(self._coarsest.get(kind, 0), old)
        given, steps = dict(config.steps), {}
        for kind, scale in self.types.scales.items():
            own = given.get(kind, given.get(unnumbered(kind)))
            if own is None and kind in self.held:
                own = self._coarsest[kind]
            step = _step(scale.rms * config.step_size, self._coarsest.get(kind)) if own is None else own
            if step is not None:
                steps[kind] = step
        return steps | {kind: self._following(kind, steps) for kind in self.following if kind in steps}

    def _following(self, kind: str, steps: Mapping[str, int]) -> int:
        """Return the step byte of averages: never coarser than those of the weights that they are of.

        Where a search gives steps it is that one, since no evaluation sees what others do to averages.
        """
        least = min((steps[one] for one in self.following[kind] if one in steps), default=steps[kind])
        return least if self.config.steps else min(least, steps[kind])

    @cached_property
    def following(self) -> Mapping[str, frozenset[str]]:
        """The layer types of averages alone, with those of their weights; frozen ones keep their steps."""
        of: dict[str, set[str | None]] = defaultdict(set)
        for path, kind in self.types.names.items():
            of[kind].add(self.types.names.get(self.averages[path]) if path in self.averages else None)
        given = dict(self.config.steps)
        return {
            kind: frozenset(one for one in found if one is not None)
            for kind, found in of.items()
            if found.isdisjoint({None, kind}) and given.keys().isdisjoint({kind, unnumbered(kind)})
            if kind not in self.held
        }

    @property
    def held(self) -> frozenset[str]:
        """The layer types of frozen weights."""
        return frozenset(self.types.names[path] for path in self.frozen if path in self.types.names)

    def _weighed(self, weights: Sequence[tuple[CapturedLeaf, Leaf | None]]) -> list[Weighed]:
        found, parts = scales([leaf for leaf, _ in weights]), self.parts or {}
        return [
            Weighed(
                leaf,
                scale,
                was_coded=base is not None and base.exact is not None,
                is_frozen=leaf.path in self.frozen,
                part=parts.get(leaf.path),
            )
            for (leaf, base), scale in zip(weights, found, strict=True)
        ]

    def is_free(self, leaf: CapturedLeaf) -> bool:
        """Tell whether a leaf that is no moment may be rounded: it is measured, or its step is named."""
        if self.parts is None or leaf.path in self.parts:
            return True
        kind, named = self.types[leaf], dict(self.config.steps)
        return kind in named or unnumbered(kind) in named

    def refined(self, given: GivenLeaf) -> int | None:
        """Return the step byte of the parent's leaf, if it is finer than that of its type.

        Where a search gives a type its step, that alone counts: it has weighed what a change costs.
        """
        if self.config.steps:
            return None
        old = self.parents.step(given.base)
        if old is None:
            return None  # as of all moments, whose layer types nobody has looked for
        coarsest = self._coarsest.get(self.types[given.leaf])
        return old if coarsest is not None and old < coarsest else None

    def finer(
        self, leaf: CapturedLeaf, asked: Coding, coding: Coding, excess: float, before: int | None = None
    ) -> Coding | None:
        """Return a coding that loses less of a tensor than the one it was tried with; None where none does.

        Args:
            leaf: the tensor.
            asked: what the settings ask for.
            coding: what was tried.
            excess: how far off the tensor is, over what it may be. Up to 1 it is progress since a lossy
                restore that is lost, which finer steps alone can keep.
            before: the step byte that `refined` gave.
        """
        if isinstance(coding, LatticeCoding) and isinstance(asked, LatticeCoding):
            return finer_lattice(coding, excess, asked.step, before)
        if excess <= 1:
            return None
        if isinstance(coding, RootCoding) and isinstance(asked, RootCoding):
            return finer_root(coding, excess, asked)
        if isinstance(coding, LogCoding):
            return self.moments.finer(leaf, coding)
        if isinstance(coding, TableCoding) and self._tables is not None:
            return self._tables.finer(leaf, coding)
        return None

    def weight(self, given: GivenLeaf) -> Coding | None:
        """Return the coding of a weight of two and more dimensions; None keeps it exactly."""
        config, leaf = self.config, given.leaf
        if isinstance(config, LatticeConfig):
            if (own := self._as_it_lies(leaf, config.step_size)) is not None:
                return own
            step = self.steps.get(self.types[leaf])
            if step is not None:
                return self.on_step(given, step)
            if leaf.path in self.frozen:
                return self._kept(leaf, config.hysteresis)
            run = element_count(leaf.shape[1:])
            return self._no_coarser(leaf, self._lattice(given, config.step_size, config.hysteresis, run))
        return None if self._tables is None else self._tables.coding(leaf)

    def _no_coarser(self, leaf: CapturedLeaf, coding: LatticeCoding | None) -> LatticeCoding | None:
        """Return the coding of a tensor that has a step of its own; an average's is at most its weight's."""
        if coding is None or leaf.path not in self._followed or not isinstance(self.config, LatticeConfig):
            return coding
        weight, base = self._followed[leaf.path]
        step = _step(scales([weight])[0].rms * self.config.step_size, self.parents.step(base))
        return coding if step is None else replace(coding, step=min(step, coding.step))

    def on_step(self, given: GivenLeaf, step: int, hysteresis: float | None = None) -> LatticeCoding | None:
        """Return the coding of a weight by its layer type's step; None keeps it exactly.

        Frozen ones keep codes on the old one.

        Args:
            given: the weight.
            step: step byte.
            hysteresis: in steps; None takes that of the settings.
        """
        leaf = given.leaf
        if hysteresis is None:
            hysteresis = self.config.hysteresis
        if leaf.path in self.frozen and step == self._coarsest.get(self.types[leaf]):
            return self._kept(leaf, hysteresis)
        run = element_count(leaf.shape[1:])
        return self._worthwhile(given, LatticeCoding(step, leaf.dtype, hysteresis, run))

    def _kept(self, leaf: CapturedLeaf, hysteresis: float) -> LatticeCoding:
        run = element_count(leaf.shape[1:])
        return LatticeCoding(self.frozen[leaf.path], leaf.dtype, hysteresis, run, keeps=True)

    def small(self, given: GivenLeaf) -> Coding | None:
        """Return the coding of a tensor of one dimension; None keeps it exactly."""
        small = self.config.small
        if small is None:
            return None
        own = self._as_it_lies(given.leaf, small)
        return self._lattice(given, small, self.config.hysteresis) if own is None else own

    def iterate(self, given: GivenLeaf) -> Coding | None:
        """Return the coding of what weights are an average of: most of its errors average out."""
        return self._lattice(given, _ITERATE_STEP, 0.0)

    def momentum(self, given: GivenLeaf) -> Coding | None:
        """Return the coding of a momentum that has no second moment beside it; None keeps it exactly."""
        kept = given.moments.first
        if kept == "exact":
            return None
        is_small = element_count(given.leaf.shape) <= _FEW_VALUES
        usual = _FINE_MOMENTUM_STEP if is_small else _MOMENTUM_STEP
        step_size = kept if isinstance(kept, float) else usual
        return self._lattice(replace(given, base=None), step_size, 0.0)

    def _as_it_lies(self, leaf: CapturedLeaf, step_size: float) -> LatticeCoding | None:
        """Return the coding of a tensor that lies on a lattice about as coarse as asked for, which keeps it.

        `mvcs.train.channels.ErrorFeedback` trains on such tensors. Frozen ones keep their codes anyway, and
        steps that a search gives count.
        """
        if leaf.dtype.name != "float32" or self.config.steps or leaf.path in self.frozen:
            return None
        step = step_of(LeafValues(leaf), self._scale(leaf) * step_size)
        return None if step is None else LatticeCoding(step, leaf.dtype)

    def _scale(self, leaf: CapturedLeaf) -> float:
        if leaf.path not in self._scales:
            self._scales[leaf.path] = scales([leaf])[0].rms
        return self._scales[leaf.path]

    def _lattice(
        self, given: GivenLeaf, step_size: float, hysteresis: float, run: int = 0
    ) -> LatticeCoding | None:
        step = _step(self._scale(given.leaf) * step_size, self.parents.step(given.base))
        if step is None:
            return None
        return self._worthwhile(given, LatticeCoding(step, given.leaf.dtype, hysteresis, run))

    def _was_coded(self, base: Leaf | None, step: int) -> bool | None:
        if base is None:
            return None
        return False if base.exact is None else self.parents.step(base) == step or None

    def _worthwhile(self, given: GivenLeaf, coding: LatticeCoding) -> LatticeCoding | None:
        """Return the coding of a tensor; None where its values take no more, and notes that."""
        leaf, scale = given.leaf, self._scales.get(given.leaf.path, 0.0)
        if step_value(coding.step) >= finest_step(
            scale, leaf.dtype.name, was_coded=self._was_coded(given.base, coding.step)
        ):
            return coding
        self.on_grid.add(leaf.path)
        return None


def _step(target: float, parent: int | None) -> int | None:
    """Return the step byte near a target; None where no step is as fine."""
    return steady_step(target, parent) if target * STEADY_RATIO >= step_value(0) else None


def _stands_alone(grid: LogGrid, leaf: CapturedLeaf) -> bool:
    """Tell whether offsets alone may stand for a second moment: zeros stay apart, the rest is precision."""
    run = chunk_elements(leaf.dtype)
    parts = enumerate(leaf.views())
    return all(_keeps_zeros_apart(part, leaf.dtype, grid, index * run) for index, part in parts)


def _keeps_zeros_apart(part: memoryview, dtype: DType, grid: LogGrid, start: int) -> bool:
    values = to_float32(part, dtype.name)
    restored = from_float32(grid.values(None, values.size, start), dtype.name)
    pattern = f"<u{dtype.itemsize}"
    # By patterns, since a float64 may be zero in float32 alone.
    was, now = (np.frombuffer(data, pattern) == 0 for data in (part, restored))
    known = (values >= 0) & np.isfinite(values) & np.isfinite(to_float32(restored, dtype.name))
    return bool(known.all() and np.array_equal(was, now))


def absent(leaf: CapturedLeaf) -> Coding:
    """Return the coding of a tensor whose values are left out."""
    return BareCoding(Absent(), leaf.dtype, lambda _, count: bytes(count * leaf.dtype.itemsize))


def constant(leaf: CapturedLeaf) -> Coding | None:
    """Return the coding of a tensor whose elements are all the same, bit for bit; None for others."""
    width, element = leaf.dtype.itemsize, b""
    for part in leaf.views():
        element = element or bytes(part[:width])
        if part[:width] != element or part[-width:] != element or part[width:] != part[:-width]:
            return None
    if not element:
        return None
    return BareCoding(Constant(element), leaf.dtype, lambda _, count: element * count)


def derived(leaf: CapturedLeaf, master: RestoredTensor) -> Coding:
    """Return the coding of a tensor that is another one's values, rounded."""
    form = Derived(master.tensor)
    return BareCoding(form, leaf.dtype, lambda index, _: from_float32(master.floats(index), leaf.dtype.name))


def finer_lattice(
    coding: LatticeCoding, excess: float, coarsest: int, before: int | None = None
) -> LatticeCoding | None:
    """Return a coding with a finer step, or without hysteresis; None where there is none.

    Args:
        coding: what loses too much.
        excess: how far off its values are, over what they may be; of 1 and less only their moves are lost,
            which hysteresis alone may do.
        coarsest: the step byte that was asked for.
        before: the one that the parent was refined to, which comes first; None where it was not.
    """
    coding = replace(coding, keeps=False)
    if excess <= 1 and coding.hysteresis:
        return replace(coding, hysteresis=0.0)
    step = coding.step - (_finer_by(excess, STEPS_PER_OCTAVE) if excess > 1 else STEPS_PER_OCTAVE)
    if before is not None and excess > 1 and before < coding.step:
        step = before
    return replace(coding, step=step) if step >= max(coarsest - STEPS_PER_OCTAVE * REFINEMENTS, 0) else None


def finer_root(coding: RootCoding, excess: float, asked: RootCoding) -> RootCoding | None:
    """Return a coding of a first moment with steps instead of signs, or with finer steps; None for none."""
    coarsest = lattice_step(1.0, _COARSEST_ROOT) if asked.signs else asked.parameters.step
    step = coarsest if coding.signs else coding.parameters.step - STEPS_PER_OCTAVE * _finer_by(excess, 1)
    if step < max(coarsest - STEPS_PER_OCTAVE * REFINEMENTS, 0):
        return None
    return replace(coding, parameters=RootLattice(step, coding.parameters.root), signs=False)


def _finer_by(excess: float, steps: int) -> int:
    """Return how many steps, of so many an octave, finer one has to be at least, if errors are as large."""
    return max(math.ceil(steps * math.log2(excess)), 1) if excess < math.inf else steps * REFINEMENTS
