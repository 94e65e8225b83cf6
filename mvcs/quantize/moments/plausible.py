"""Whether an optimizer's settings are those that a run can have."""

import math
from collections.abc import Collection, Mapping

_BELOW_ONE = frozenset({"betas", "momentum", "alpha", "rho"})
_FROM_ZERO = frozenset({"lr", "eps", "weight_decay", "dampening"})
_NUMBERS = _BELOW_ONE | _FROM_ZERO
_PAIRS = frozenset({"betas"})
_LARGEST = 1e12  # of settings and step counters
_WIDEST = 64  # bits of an integer that a note says in full
_DIGITS = math.log10(2)


def implausible_setting(
    settings: Mapping[str, object], step: float | None = None, needed: Collection[str] = ()
) -> str | None:
    """Return a setting that no run has, as in `betas=(0.9, 1.0)`; None where there is none.

    Shares such as betas have to be from 0 and below 1, rates from 0 and finite. What is no number is passed
    over where it is not needed: other optimizers have their own.

    Args:
        settings: of a group, as an optimizer's `state_dict` has them; nothing of them is trusted.
        step: steps done; None where that is not known.
        needed: settings that the optimizer has: of them rates and shares are one number each, betas two.
    """
    if step is not None and not 0 <= step < _LARGEST:
        return f"step={step}"
    for name, value in settings.items():
        if name in needed and name in _NUMBERS and not _is_read(name, value):
            return f"{name} that are not two numbers" if name in _PAIRS else f"{name} that is not one number"
        most = 1.0 if name in _BELOW_ONE else _LARGEST if name in _FROM_ZERO else math.inf
        parts = value if isinstance(value, tuple) else (value,)
        if most < math.inf and not all(_is_within(part, most) for part in parts):
            return f"{name}={_shown(value)}"
    return None


def _is_read(name: str, value: object) -> bool:
    """Tell whether a setting is the number, or the two, that it has to be."""
    if name not in _PAIRS:
        return isinstance(value, int | float)
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, int | float) for one in value)


def _is_within(value: object, most: float) -> bool:
    # NaN is in no range; an integer may be larger than any float, which comparing does not mind.
    return not isinstance(value, int | float) or 0 <= value < most


def _shown(value: object) -> str:
    """Return a setting as a text; Python refuses to write out the largest integers, and nobody reads them."""
    if isinstance(value, tuple):
        return f"({', '.join(_shown(part) for part in value)})"
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return f"{'-' if value < 0 else ''}10^{value.bit_length() * _DIGITS:.0f}"
    return str(value)
