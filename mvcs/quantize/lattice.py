"""Lattices: values to codes, multiples of a step, and back; which step; and lattices of moments."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import mvcs_native
from mvcs.objects import MAX_OFFSETS, column_count, row_count
from mvcs.quantize.float_values import Floats, Halves
from mvcs.quantize.outliers import EXCEPTION, Codes
from mvcs.quantize.sketch import Sketch, points_of_few

MOVED = 0.75  # steps that a code which is moved may be off
_NONE = np.zeros(0, np.int16)
_LARGEST = 32767
_FIRST = 64  # values
_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal
ZERO_OFFSET = -32768
_OFFSETS_PAY = 8  # values for each offset, below which offsets cost more than they save
_BYTES = np.arange(256)
_STEPS = (4 + _BYTES % 4) * np.exp2(_BYTES // 4 - 60.0)
_MIDDLES = _STEPS[:-1] * _STEPS[1:]  # squares of the geometric means of neighbours, exact

STEADY_RATIO = 2**0.3

_GRIDS = {"float16": (2.0**-11, 2.0**-24), "bfloat16": (2.0**-8, 2.0**-133)}
_WORTH = 2**-0.75  # of a grid: with finer steps codes take more than values do
_STAYS = 2**0.5  # either way, where the parent has one of them to be near


def lattice_codes(values: Floats, step: int, base: Codes | None = None, hysteresis: float = 0.0) -> Codes:
    """Give every value the nearest multiple of a step, half to even, or the base's code where that is near.

    With u the value over the step, rounded to float32, the base's code c stays where |u - c| is at most
    0.5 + hysteresis; so no restored value is off by more than 0.5 + hysteresis steps, but for that rounding.

    Args:
        values: float32 [n].
        step: a step byte.
        base: int16 [n] on the same step, or None.
        hysteresis: in steps, from 0 up to, not including, 1.

    Returns:
        int16 [n]; -32768 marks what is kept exactly: subnormals, what is not finite, and multiples of more
        than 32767.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    codes = mvcs_native.empty(flat.size, np.int16)
    mvcs_native.lattice(flat, step, _NONE if base is None else base, hysteresis, codes)
    return codes


def balance_rows(values: Floats, codes: Codes, step: int, run: int, start: int = 0) -> None:
    """Move codes by one, in place, so that the errors of each row add up to at most half a step.

    Inputs of a layer often have a mean, after a ReLU always: errors of a row of its weight that add up to
    something shift that output for every input alike. Codes that are off most are moved, and none that is off
    by a quarter of a step or less: what is moved is then off by less than 0.75 steps. Rows without such
    codes keep the rest. See Nagel et al. 2019, "Data-free quantization through weight equalization and bias
    correction", section 4.2, and Guo et al. 2022, "SQuant".

    Args:
        values: float32 [n], elements of a tensor from its element `start` on.
        codes: int16 [n], theirs; of rows with an exception none is moved.
        step: their step byte.
        run: elements of a row, at least one. What the values have of a row at either end is balanced by
            itself; fewer than 8 elements of a row are left as they are.
        start: of the first value.
    """
    mvcs_native.balance(np.ascontiguousarray(values).reshape(-1), step, run, start, codes)


def keep_pace(values: Floats, past: Halves, codes: Codes, step: int, run: int, start: int = 0) -> None:
    """Move codes by one, in place, so that no row lags behind where training moves it.

    Codes that are kept near a base lag: their errors point back along the way that values have come. With
    errors u - code in steps and moves value - past, the lag of a row is the sum of their products. Where it
    is above zero, codes that have most of it move towards their values until it is near zero, and none that
    is off by a quarter of a step or less: what moves is then off by less than 0.75 steps. A row that is ahead
    stays.

    Args:
        values: float32 [n], elements of a tensor from its element `start` on.
        past: uint16 [n], upper halves of what they were at an earlier commit, the base's at best: what was
            learned since is a part of the move. What its upper half does not tell is no move.
        codes: int16 [n], theirs; of rows with an exception none is moved.
        step: their step byte.
        run: elements of a row, as `balance_rows` takes them.
        start: of the first value.
    """
    mvcs_native.keep_pace(np.ascontiguousarray(values).reshape(-1), past, step, run, start, codes)


def largest_error(hysteresis: float) -> float:
    """Return how many steps a value on a lattice may be off, whatever the history."""
    return max(MOVED, 0.5 + hysteresis)


def carried(values: Floats, ahead: Floats, step: int) -> Floats:
    """Return values where momentum would still take them, a step farther at most.

    What has no code stays what it is: subnormals, infinities and NaNs.
    """
    limit = np.float32(step_value(step))
    moved = values + np.clip(ahead, -limit, limit)
    kept = (np.abs(values) < _SMALLEST_NORMAL) & (values != 0)
    moved[kept] = values[kept]
    return moved


def confine(values: Floats, codes: Codes, step: int, most: float) -> None:
    """Move codes of moved values, in place, so that none is off from the value itself by more than so much.

    Args:
        values: float32 [n], before they were moved.
        codes: int16 [n], theirs; exceptions stay, and a value without such a code becomes one.
        step: their step byte.
        most: steps, at least half of one.
    """
    units = values / np.float32(step_value(step))
    far = np.flatnonzero((np.abs(units - codes) > np.float32(most)) & (codes != EXCEPTION))
    near = units[far].astype(np.float64)
    found = np.clip(codes[far], np.ceil(near - most), np.floor(near + most))
    codes[far] = np.where(np.abs(found) <= _LARGEST, found, EXCEPTION)


def lattice_values(codes: Codes, step: int, out: Floats | None = None) -> Floats:
    """Return code times step as float32, exactly; of an exception a number that stands for nothing.

    Args:
        codes: int16 [n].
        step: a step byte.
        out: float32 [n], where they are put; None for new memory.
    """
    values = mvcs_native.empty(codes.size, np.float32) if out is None else out
    mvcs_native.unlattice(codes, step, values)
    return values


def _none() -> Codes:
    return np.zeros(0, np.int16)


def on_lattice(values: Floats, step: int) -> Floats:
    """Return the nearest multiples of a step; what has no code, see `lattice_codes`, stays as it is.

    Args:
        values: float32 of any shape.
        step: a step byte.
    """
    codes = lattice_codes(values, step)
    restored = lattice_values(codes, step)
    return np.where(codes == EXCEPTION, values.reshape(-1), restored).reshape(values.shape)


def step_of(chunks: Iterable[Floats], near: float) -> int | None:
    """Return the byte of the coarsest step near a number that all values are multiples of; None for none.

    Args:
        chunks: float32 [n] each; taken several times, so no iterator.
        near: at least half of the step, and at most twice.
    """
    if near < step_value(0):
        return None
    steps = range(nearest_step(2 * near), nearest_step(near / 2) - 1, -1)
    return next((step for step in steps if all(_are_multiples(values, step) for values in chunks)), None)


def _are_multiples(values: Floats, step: int) -> bool:
    few = values[:_FIRST]  # hardly any other tensor needs a look at the rest
    return all(np.array_equal(on_lattice(part, step), part) for part in (few, values))


@dataclass(frozen=True)
class LogGrid:
    """Where the values of one tensor lie on a log lattice.

    Attributes:
        scale: the step is 2^scale units of the pattern, 2^23 of which are an octave; 16 to 24.
        columns: of the tensor seen as a matrix of shape[0] rows; at least 1.
        rows: int16 [rows], in quarters of the step, -32768 for a row of zeros; empty for no offsets.
        cols: int16 [columns], likewise.
    """

    scale: int
    columns: int = 1
    rows: Codes = field(default_factory=_none)
    cols: Codes = field(default_factory=_none)

    @classmethod
    def fit(
        cls,
        chunks: Iterable[Floats],
        shape: Sequence[int],
        scale: int,
        parent: "LogGrid | None" = None,
    ) -> "LogGrid":
        """Find the offsets of a tensor: the means of its patterns by row, then of what is left by column.

        A rank-1 model of the logarithm (Adafactor's factors, in the log domain). Means are sums of integers,
        over the positive normal values alone. An offset that moved by one quarter step at most stays the
        parent's, so that codes can be compared.

        Args:
            chunks: float32, the values of the tensor's chunks in their order; taken twice, so no iterator.
            shape: the tensor's.
            scale: of the step.
            parent: the grid of the same tensor before, or None.
        """
        height, width = row_count(shape), max(1, column_count(shape))
        grid = cls(scale, width)
        if not _offsets_pay(height, width):
            return grid
        rows = _means(chunks, grid, height, by_column=False)
        cols = _means(chunks, cls(scale, width, rows), width, by_column=True)
        if parent is None or parent.scale != scale or parent.rows.shape != rows.shape:
            return cls(scale, width, rows, cols)
        if parent.cols.shape != cols.shape:
            return cls(scale, width, rows, cols)
        return cls(scale, width, _steady(rows, parent.rows), _steady(cols, parent.cols))

    def codes(self, values: Floats, start: int = 0) -> Codes:
        """Return the codes of a run of values, the first of which is element `start` of the tensor.

        Returns:
            int16 [n]; -32767 is a zero, -32768 an exception: negative, subnormal, or not finite.
        """
        codes = mvcs_native.empty(values.size, np.int16)
        mvcs_native.log_lattice(values, self.scale, self.rows, self.cols, self.columns, start, codes)
        return codes

    def values(self, codes: Codes | None, count: int, start: int = 0) -> Floats:
        """Return the float32 values of codes, or of `count` codes that are all 0."""
        values, found = mvcs_native.empty(count, np.float32), _none() if codes is None else codes
        mvcs_native.log_unlattice(found, self.scale, self.rows, self.cols, self.columns, start, values)
        return values


def _offsets_pay(height: int, width: int) -> bool:
    few = _OFFSETS_PAY * (height + width) <= height * width
    return few and height <= MAX_OFFSETS and width <= MAX_OFFSETS


def _means(chunks: Iterable[Floats], grid: LogGrid, number: int, *, by_column: bool) -> Codes:
    sums, counts = np.zeros(number, np.int64), np.zeros(number, np.int64)
    start = 0
    for values in chunks:
        mvcs_native.log_sums(values, grid.scale, grid.rows, grid.columns, start, by_column, sums, counts)
        start += values.size
    return _quarters(sums, counts, grid.scale)


def _quarters(sums: NDArray[np.int64], counts: NDArray[np.int64], scale: int) -> Codes:
    """Return the means in quarter steps, to the nearest; -32768 where there was nothing but zeros."""
    means = sums // np.maximum(counts, 1)
    quarters = (means + (1 << (scale - 3))) >> (scale - 2)
    return np.where(counts > 0, np.minimum(np.maximum(quarters, -32767), 32767), ZERO_OFFSET).astype("<i2")


def _steady(offsets: Codes, parent: Codes) -> Codes:
    near = np.abs(offsets.astype(np.int32) - parent) <= 1
    return np.where(near & (parent != ZERO_OFFSET) & (offsets != ZERO_OFFSET), parent, offsets)


@dataclass(frozen=True)
class RootSums:
    """Sums over values m and restored second moments v, where v is above zero and finite.

    Attributes:
        count: number of values.
        total: the sum of |m| / sqrt(v).
    """

    count: int = 0
    total: float = 0.0

    def __add__(self, other: "RootSums") -> "RootSums":
        """Return the sums over the values of both."""
        return RootSums(self.count + other.count, self.total + other.total)

    @property
    def sign_step(self) -> int:
        """The byte of the step nearest to the mean, which signs restore to times the root of v."""
        return nearest_step(self.total / self.count if self.count else 0.0)


def root_sums(values: Floats, roots: Floats) -> RootSums:
    """Add up first moments in units of the roots of restored second moments, both float32 [n]."""
    total, count = mvcs_native.root_sums(values, roots)
    return RootSums(count, total)


def root_codes(values: Floats, roots: Floats, step: int) -> Codes:
    """Give every value a multiple of step times the root of its restored second moment.

    It is the one nearest to the value less 0.05 steps of its magnitude, so no error is above 0.55 steps.
    First moments are noise around zero, where the bits saved are worth more than the error: a dead zone, as
    usual for the coefficients of transforms.

    Args:
        values: float32 [n], the first moments.
        roots: float32 [n], the second moments as they are restored.
        step: a step byte.

    Returns:
        int16 [n]; 0 where the second moment is zero or not finite, -32768 for an exception: not finite, or a
        multiple of more than 32767.
    """
    codes = mvcs_native.empty(values.size, np.int16)
    mvcs_native.root_lattice(values, roots, step, codes)
    return codes


def root_signs(values: Floats, roots: Floats) -> Codes:
    """Give every value its sign, -1, 0 or 1, as a code; the rest as in `root_codes`."""
    codes = mvcs_native.empty(values.size, np.int16)
    mvcs_native.root_signs(values, roots, codes)
    return codes


def root_values(codes: Codes, roots: Floats, step: int) -> Floats:
    """Return code times step times root as float32, always finite."""
    values = mvcs_native.empty(codes.size, np.float32)
    mvcs_native.root_unlattice(codes, roots, step, values)
    return values


@dataclass(frozen=True)
class Scale:
    """How large values are.

    Attributes:
        count: how many there are.
        squares: the sum of their squares.
    """

    count: int = 0
    squares: float = 0.0

    @property
    def rms(self) -> float:
        """Root of the mean square; 0.0 where there are no values."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    @classmethod
    def of(cls, sketch: Sketch) -> "Scale":
        """Return that of a sketch's finite values, each taken as the middle of its bucket.

        The root mean square is within 1/256 of the true one, and the same on every machine and in any order
        of values: integers were counted, and the sum is exact.
        """
        values, counts = sketch.points()
        return cls(int(counts.sum()), math.fsum((counts * np.square(values)).tolist()))

    @classmethod
    def of_few(cls, parts: Sequence[Floats]) -> list["Scale"]:
        """Return what sketches of some parts would give, of few values each: they are looked at together."""
        return [
            cls(int(counts.sum()) + zeros, math.fsum((counts * np.square(values)).tolist()))
            for values, counts, zeros in points_of_few(parts)
        ]

    @classmethod
    def total(cls, parts: Iterable["Scale"]) -> "Scale":
        """Return that of several tensors together, the same in any order."""
        found = list(parts)
        return cls(sum(one.count for one in found), math.fsum(one.squares for one in found))


def step_value(step: int) -> float:
    """Return the step of a step byte: (4 + step % 4) * 2^(step // 4 - 60), exact in float32."""
    return float(_STEPS[step])


def nearest_step(target: float) -> int:
    """Return the byte of the step nearest to a positive number, by ratio; of 0 the smallest."""
    return int(np.searchsorted(_MIDDLES, target * target))


def lattice_step(scale: float, step_size: float) -> int:
    """Return the byte of the step of `step_size` root mean squares `scale`."""
    return nearest_step(scale * step_size)


def steady_step(target: float, parent: int | None) -> int:
    """Return the parent's step byte while its step is within a factor 2^0.3 of the target, else the nearest.

    Codes on one step compare best, and the root mean square of weights drifts slowly.
    """
    if parent is None or not target / STEADY_RATIO <= step_value(parent) <= target * STEADY_RATIO:
        return nearest_step(target)
    return parent


def finest_step(scale: float, dtype: str, *, was_coded: bool | None) -> float:
    """Return the finest step that codes of a tensor are worth: with finer ones its values take no more.

    Args:
        scale: root mean square of the tensor.
        dtype: name of its element type. Only types of 16 bits have a grid that is as coarse as steps are.
        was_coded: whether the parent has codes on that step; false where it has values, None for neither.

    Returns:
        a step, 0.0 for a wider type.
    """
    relative, least = _GRIDS.get(dtype, (0.0, 0.0))
    stays = {True: 1 / _STAYS, False: _STAYS, None: 1.0}[was_coded]
    return max(scale * relative, least) * _WORTH * stays
