"""Values to multiples of a step and back."""

import numpy as np

import mvcs_native
from mvcs.quantize.float_values import Floats, Halves
from mvcs.quantize.lattices.steps import step_value
from mvcs.quantize.outliers import EXCEPTION, Codes

MOVED = 0.75  # steps that a code which is moved may be off
_NONE = np.zeros(0, np.int16)
_LARGEST = 32767
_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


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


def lattice_values(codes: Codes, step: int) -> Floats:
    """Return code times step as float32, exactly; of an exception a number that stands for nothing."""
    values = mvcs_native.empty(codes.size, np.float32)
    mvcs_native.unlattice(codes, step, values)
    return values
