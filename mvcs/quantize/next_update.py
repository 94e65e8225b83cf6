"""The next update of an optimizer if the next gradient is zero: what moments and settings alone decide."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from mvcs.quantize.float_values import Floats

Settings = Mapping[str, object]

_ADAM = frozenset({"lr", "betas", "eps", "weight_decay", "amsgrad"})
_SGD = frozenset({"lr", "momentum", "dampening", "nesterov", "weight_decay"})
_FOREIGN = frozenset({"momentum_decay", "alpha", "rho", "lr_decay"})
_BELOW_ONE = frozenset({"betas", "momentum", "alpha", "rho"})
_FROM_ZERO = frozenset({"lr", "eps", "weight_decay", "dampening"})
_NUMBERS = _BELOW_ONE | _FROM_ZERO
_PAIRS = frozenset({"betas"})
_LARGEST = 1e12  # of settings and step counters
_WIDEST = 64  # bits of an integer that a note says in full
_DIGITS = math.log10(2)


@dataclass(frozen=True)
class AdamRule:
    """Adam and AdamW (Kingma and Ba 2015, algorithm 1; Loshchilov and Hutter 2019, algorithm 2).

    Attributes:
        rate: the learning rate.
        betas: decay of the first and of the second moment.
        eps: added to the root.
        decoupled: whether it is AdamW, whose decay is beside the moments.
        amsgrad: whether the largest second moment so far counts (Reddi et al. 2018).
        step: steps done.
    """

    rate: float
    betas: tuple[float, float]
    eps: float
    decoupled: bool
    amsgrad: bool
    step: int

    def __str__(self) -> str:
        return f"{'AdamW' if self.decoupled else 'Adam'} betas={self.betas[0]},{self.betas[1]}"

    @property
    def persistence(self) -> float:
        """The share of the first moment that is left a step later."""
        return self.betas[0]

    @property
    def moments(self) -> tuple[str, ...]:
        """Names of the moments that it needs."""
        return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if self.amsgrad else ()))

    def update(self, moments: Mapping[str, Floats]) -> Floats:
        """Return what moments, float32 [n] by name, take from the weights next: all but decay."""
        beta1, beta2 = self.betas
        first, second = beta1 * moments["exp_avg"], beta2 * moments["exp_avg_sq"]
        if self.amsgrad:
            second = np.maximum(second, moments["max_exp_avg_sq"])
        root = np.sqrt(second * np.float32(1 / (1 - beta2 ** (self.step + 1))))
        taken = first / (root + np.float32(self.eps)) * np.float32(self.rate / (1 - beta1 ** (self.step + 1)))
        return np.asarray(taken, np.float32)


@dataclass(frozen=True)
class SgdRule:
    """SGD with momentum, as torch has it (Sutskever et al. 2013, with the rate outside of the momentum).

    Attributes:
        rate: the learning rate.
        momentum: decay of the momentum.
        nesterov: whether the gradient is added to the momentum once more.
    """

    rate: float
    momentum: float
    nesterov: bool
    moments: tuple[str, ...] = ("momentum_buffer",)

    def __str__(self) -> str:
        return f"SGD momentum={self.momentum}"

    @property
    def persistence(self) -> float:
        """The share of the momentum that is left a step later."""
        return self.momentum

    def update(self, moments: Mapping[str, Floats]) -> Floats:
        """Return what is taken from the weights next; see `AdamRule.update`."""
        taken = self.momentum * moments["momentum_buffer"]
        if self.nesterov:
            taken = self.momentum * taken
        return np.asarray(np.float32(self.rate) * taken, np.float32)


UpdateRule = AdamRule | SgdRule


def update_rule(settings: Settings, step: float | None) -> UpdateRule | None:
    """Return how a parameter is updated; None for other optimizers and for settings that no run has.

    Args:
        settings: of its group, as an optimizer's `state_dict` has them; nothing of them is trusted.
        step: steps done, for Adam.
    """
    if settings.keys() & _FOREIGN:
        return None
    if settings.keys() >= _ADAM:
        return _adam(settings, step)
    return _sgd(settings) if settings.keys() >= _SGD else None


def _adam(settings: Settings, step: float | None) -> AdamRule | None:
    betas = settings["betas"]
    if not isinstance(betas, tuple) or len(betas) != 2 or step is None or not 0 <= step < _LARGEST:
        return None
    first, second = (_number(beta, 1.0) for beta in betas)
    rate, eps, decay = (_number(settings[name]) for name in ("lr", "eps", "weight_decay"))
    if first is None or second is None or rate is None or eps is None or decay is None:
        return None
    decoupled = settings.get("decoupled_weight_decay") is True
    return AdamRule(rate, (first, second), eps, decoupled, settings["amsgrad"] is True, int(step))


def _sgd(settings: Settings) -> SgdRule | None:
    rate, decay = _number(settings["lr"]), _number(settings["weight_decay"])
    momentum, dampening = _number(settings["momentum"], 1.0), _number(settings["dampening"])
    if rate is None or decay is None or dampening is None or not momentum:
        return None
    return SgdRule(rate, momentum, settings["nesterov"] is True)


def _number(value: object, below: float = _LARGEST) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # Compared before it is converted: an integer may be larger than any float. NaN is in no range.
    return float(value) if 0 <= value < below else None


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
        if most < math.inf and not all(
            (not isinstance(part, int | float) or 0 <= part < most) for part in parts
        ):
            return f"{name}={_shown(value)}"
    return None


def _is_read(name: str, value: object) -> bool:
    """Tell whether a setting is the number, or the two, that it has to be."""
    if name not in _PAIRS:
        return isinstance(value, int | float)
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, int | float) for one in value)


def _shown(value: object) -> str:
    """Return a setting as a text; Python refuses to write out the largest integers, and nobody reads them."""
    if isinstance(value, tuple):
        return f"({', '.join(_shown(part) for part in value)})"
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return f"{'-' if value < 0 else ''}10^{value.bit_length() * _DIGITS:.0f}"
    return str(value)
