"""Whether an optimizer's settings are those that a run can have."""

import math
from collections.abc import Mapping

_BELOW_ONE = frozenset({"betas", "momentum", "alpha", "rho"})
_FROM_ZERO = frozenset({"lr", "eps", "weight_decay", "dampening"})
_LARGEST = 1e12  # of settings and step counters


def implausible_setting(settings: Mapping[str, object], step: float | None = None) -> str | None:
    """Return a setting that no run has, as in `betas=(0.9, 1.0)`; None where there is none.

    Shares such as betas have to be from 0 and below 1, rates from 0 and finite. What is no number is passed
    over: whoever needs it as one refuses it.

    Args:
        settings: of a group, as an optimizer's `state_dict` has them; nothing of them is trusted.
        step: steps done; None where that is not known.
    """
    if step is not None and not 0 <= step < _LARGEST:
        return f"step={step}"
    for name, value in settings.items():
        most = 1.0 if name in _BELOW_ONE else _LARGEST if name in _FROM_ZERO else math.inf
        parts = value if isinstance(value, tuple) else (value,)
        if most < math.inf and not all(_is_within(part, most) for part in parts):
            return f"{name}={value}"
    return None


def _is_within(value: object, most: float) -> bool:
    # NaN is in no range; an integer may be larger than any float, which comparing does not mind.
    return not isinstance(value, int | float) or 0 <= value < most
