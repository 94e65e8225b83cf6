"""Which coding each leaf of a bounded commit gets: by settings, statistics, and the parent's scales."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.leaves.bounded import BoundedLeaves, Quantized
from mvcs.commits.quantizers.code_tables import Tables
from mvcs.commits.quantizers.importance import Importance
from mvcs.commits.quantizers.layer_types import LayerTypes, Weighed, unnumbered
from mvcs.commits.quantizers.refined import finer_lattice, finer_root
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import (
    Absent,
    Commit,
    Constant,
    Derived,
    DType,
    Leaf,
    LogLattice,
    QuantizedTensor,
    RootLattice,
    chunk_elements,
    element_count,
)
from mvcs.quantize import (
    LOG_SCALES,
    STEADY_RATIO,
    BareCoding,
    Coding,
    Floats,
    KMeansConfig,
    LatticeCoding,
    LatticeConfig,
    LogCoding,
    LogGrid,
    QuantizerConfig,
    Restorer,
    RootCoding,
    RootSums,
    Scale,
    Sketch,
    TableCoding,
    from_float32,
    lattice_step,
    rms,
    root_sums,
    steady_step,
    step_value,
    to_float32,
)
from mvcs.store import StoredCodes

_SAMPLED = 1 << 20
_RUN = 1 << 12
_VARIANCE_SCALE = 16
_FINEST_SMALL = 1 / 256  # the finest step of small tensors that goes with the finest log lattice
_MOMENTUM_STEP = 1.0  # of its own root mean square, where only signs are asked for


@dataclass
class Codings:
    """Makes codings for the leaves of one commit.

    Attributes:
        config: the settings.
        bounded: knows the parent's tensors.
        importance: gives scores of weights, for k-means.
        types: the layer types of weights, where tensors of one share something.
        steps: step byte of each layer type; only a lattice shared by type has any.
    """

    config: QuantizerConfig
    bounded: BoundedLeaves
    importance: Importance = field(default_factory=Importance)
    types: LayerTypes = field(default_factory=LayerTypes)
    steps: dict[str, int] = field(default_factory=dict)
    _coarsest: dict[str, int] = field(default_factory=dict)
    _tables: Tables | None = None

    def prepare(
        self, weights: Iterable[tuple[CapturedLeaf, Leaf | None]], before: Commit | None = None
    ) -> None:
        """Look at all weights, each with the parent's, for what tensors of a layer type have in common.

        Args:
            weights: in their order.
            before: the parent, which tells what layer types there were.
        """
        config, found = self.config, list(weights)
        shares = config.share == "type" if isinstance(config, LatticeConfig) else config.prunes_or_protects
        if shares:
            self.types = LayerTypes.of((_weighed(leaf, base) for leaf, base in found), before)
        if isinstance(config, KMeansConfig):
            self._tables = Tables(config, self.importance, self.types)
            self._tables.prepare(leaf for leaf, _ in found)
        elif isinstance(config, LatticeConfig) and shares:
            self.steps = self._steps(config, found)

    def _steps(
        self, config: LatticeConfig, weights: Iterable[tuple[CapturedLeaf, Leaf | None]]
    ) -> dict[str, int]:
        """Return the step byte of each layer type that a step is fine enough for."""
        for leaf, base in weights:
            kind, old = self.types[leaf], self.bounded.old_step(base)
            # Tensors that were refined have finer steps: the coarsest is the type's.
            if old is not None:
                self._coarsest[kind] = max(self._coarsest.get(kind, 0), old)
        given, steps = dict(config.steps), {}
        for kind, scale in self.types.scales.items():
            own = given.get(kind, given.get(unnumbered(kind)))
            step = _step(scale.rms * config.step_size, self._coarsest.get(kind)) if own is None else own
            if step is not None:
                steps[kind] = step
        return steps

    def refined(self, leaf: CapturedLeaf, base: Leaf | None) -> int | None:
        """Return the step byte of the parent's leaf, if it is finer than that of its type.

        Where a search gives a type its step, that alone counts: it has weighed what a change costs.
        """
        if isinstance(self.config, LatticeConfig) and self.config.steps:
            return None
        coarsest, old = self._coarsest.get(self.types[leaf]), self.bounded.old_step(base)
        return old if coarsest is not None and old is not None and old < coarsest else None

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
            return self._finer_log(leaf, coding)
        if isinstance(coding, TableCoding) and self._tables is not None:
            return self._tables.finer(leaf, coding)
        return None

    def weight(self, leaf: CapturedLeaf, base: Leaf | None) -> Coding | None:
        """Return the coding of a weight of two and more dimensions; None keeps it exactly."""
        config = self.config
        if isinstance(config, LatticeConfig):
            step, run = self.steps.get(self.types[leaf]), element_count(leaf.shape[1:])
            if step is None:
                return self._lattice(leaf, base, config.step_size, config.hysteresis, run)
            return LatticeCoding(step, leaf.dtype, config.hysteresis, run)
        return None if self._tables is None else self._tables.coding(leaf)

    def small(self, leaf: CapturedLeaf, base: Leaf | None) -> Coding | None:
        """Return the coding of a tensor of one dimension; None keeps it exactly."""
        config = self.config
        hysteresis = config.hysteresis if isinstance(config, LatticeConfig) else 0.0
        return None if config.small is None else self._lattice(leaf, base, config.small, hysteresis)

    def variance(self, leaf: CapturedLeaf) -> Coding | None:
        """Return the coding of a running variance; None keeps it exactly.

        Scales of outputs follow it, the same way for all data, and no log lattice is finer than 1/128 octave.
        """
        if self.config.small is None or self.config.small < _FINEST_SMALL:
            return None
        return self._log(leaf, LogGrid(_VARIANCE_SCALE), LogLattice(_VARIANCE_SCALE))

    def second(self, leaf: CapturedLeaf, base: Leaf | None) -> Coding | None:
        """Return the coding of a second moment; None keeps it exactly. Stores its offsets."""
        moments = self.config.moments
        if moments.second == "exact":
            return None
        coding = self._on_grid(leaf, moments.scale, self._old_grid(base, moments.scale))
        bare = moments.second == "rank-1" and coding.grid.rows.size and _stands_alone(coding.grid, leaf)
        return replace(coding, bare=True) if bare else coding

    def _finer_log(self, leaf: CapturedLeaf, coding: LogCoding) -> LogCoding | None:
        """Return a coding with codes beside its offsets, or with steps of half as many octaves."""
        if coding.bare:
            return replace(coding, bare=False)
        scale = coding.parameters.scale - 1
        return self._on_grid(leaf, scale, None) if scale in LOG_SCALES.values() else None

    def _on_grid(
        self, leaf: CapturedLeaf, scale: int, old: tuple[QuantizedTensor, LogGrid] | None
    ) -> LogCoding:
        """Return a log lattice with offsets of rows and columns, which it stores."""
        grid = LogGrid.fit(_Floats(leaf), leaf.shape, scale, old[1] if old else None)
        form = LogLattice(scale)
        if grid.rows.size:
            parents = old[0].parameters if old else None
            known = parents if isinstance(parents, LogLattice) else form
            put = partial(self.bounded.value.put_codes, leant_on=self.bounded.keeps_exact)
            rows = put(StoredCodes(grid.rows.tobytes(), width=2), known.rows)
            cols = put(StoredCodes(grid.cols.tobytes(), width=2), known.cols)
            form = replace(form, rows=rows, cols=cols)
        return self._log(leaf, grid, form)

    def first(self, leaf: CapturedLeaf, second: Quantized) -> Coding | None:
        """Return the coding of a first moment beside its restored second moment; None keeps it exactly."""
        kept = self.config.moments.first
        if kept == "exact":
            return None
        if isinstance(kept, float):
            step = lattice_step(1.0, kept)
        else:
            sums = RootSums()
            for index, values in enumerate(_Floats(leaf)):
                sums += root_sums(values, second.floats(index))
            step = sums.sign_step
        form = RootLattice(step, second.tensor.id)
        return RootCoding(form, leaf.dtype, second.floats, signs=not isinstance(kept, float))

    def momentum(self, leaf: CapturedLeaf) -> Coding | None:
        """Return the coding of a momentum that has no second moment beside it; None keeps it exactly."""
        kept = self.config.moments.first
        if kept == "exact":
            return None
        return self._lattice(leaf, None, kept if isinstance(kept, float) else _MOMENTUM_STEP, 0.0)

    def _lattice(
        self, leaf: CapturedLeaf, base: Leaf | None, step_size: float, hysteresis: float, run: int = 0
    ) -> LatticeCoding | None:
        step = _step(rms(sampled(leaf)) * step_size, self.bounded.old_step(base))
        return None if step is None else LatticeCoding(step, leaf.dtype, hysteresis, run)

    def _log(self, leaf: CapturedLeaf, grid: LogGrid, form: LogLattice) -> LogCoding:
        return LogCoding(form, grid, leaf.dtype, chunk_elements(leaf.dtype))

    def _old_grid(self, base: Leaf | None, scale: int) -> tuple[QuantizedTensor, LogGrid] | None:
        old = self.bounded.old_tensor(base)
        if old is None or not isinstance(old.parameters, LogLattice) or old.parameters.scale != scale:
            return None
        try:
            restorer: Restorer = self.bounded.objects.restorer
            return old, restorer.log_grid(old)
        except (CorruptionError, NotFoundError):
            return None


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


def derived(leaf: CapturedLeaf, master: Quantized) -> Coding:
    """Return the coding of a tensor that is another one's values, rounded."""
    form = Derived(master.tensor.id)
    return BareCoding(form, leaf.dtype, lambda index, _: from_float32(master.floats(index), leaf.dtype.name))


def _weighed(leaf: CapturedLeaf, base: Leaf | None) -> Weighed:
    return Weighed(leaf, Scale.of(sampled(leaf)), was_coded=base is not None and base.exact is not None)


def sampled(leaf: CapturedLeaf) -> Sketch:
    """Return the sketch of evenly spaced runs of a tensor, a million values a chunk."""
    sketch = Sketch()
    for part in _Floats(leaf):
        sketch.add(_sample(part))
    return sketch


def _sample(values: Floats) -> Floats:
    """Take every n-th run of a chunk: where runs lie depends on its length alone."""
    skipped = values.size // _SAMPLED
    if skipped < 2:
        return values
    runs = values[: values.size // _RUN * _RUN].reshape(-1, _RUN)
    return np.ascontiguousarray(runs[::skipped])


@dataclass(frozen=True)
class _Floats:
    """The chunks of a leaf as float32, made one after the other as often as they are taken."""

    leaf: CapturedLeaf

    def __iter__(self) -> Iterator[Floats]:
        name = self.leaf.dtype.name
        return (to_float32(part, name) for part in self.leaf.views())


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
