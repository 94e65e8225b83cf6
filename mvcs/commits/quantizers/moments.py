"""Codings of optimizer moments, and of running variances, whose logarithm counts as well."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.before.parent_codes import ParentCodes
from mvcs.commits.leaves.given_leaf import GivenLeaf
from mvcs.commits.quantizers.leaf_values import LeafValues
from mvcs.objects import DType, LogLattice, RootLattice, chunk_elements
from mvcs.quantize import (
    LOG_SCALES,
    Coding,
    LogCoding,
    LogGrid,
    QuantizerConfig,
    RestoredTensor,
    RootCoding,
    RootSums,
    from_float32,
    lattice_step,
    root_sums,
    to_float32,
)
from mvcs.store import ObjectWriter, StoredCodes

_VARIANCE_SCALE = 16
_FINEST_SMALL = 1 / 256  # the finest step of small tensors that goes with the finest log lattice


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
