"""Training on what a commit restores: the errors of rounding are fed back (QD-Compressor, section 4.4)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from mvcs.errors import UsageError
from mvcs.quantize import Floats, LatticeConfig, UniformQuantizer, lattice_step, on_lattice


class ErrorFeedback:
    """Has a model hold its weights rounded, while the optimizer steps the weights themselves.

    Algorithm 1 of QD-Compressor (TPDS 2023). From the start on, parameters hold what codes restore, which
    gradients, evaluations and commits see. `optimizer.step()` finds the weights themselves, and leaves them
    rounded anew. What else is written into a parameter in place, as by `load_state_dict`, is its weight then.

    Make it after the optimizer, and have it committed: `Checkpointer(..., extra={"feedback": feedback})`. A
    run that resumes without that goes on from the rounded weights. It takes the memory of one more copy of
    the parameters. Codes are made on the processor: parameters elsewhere are copied there at each step.

    Args:
        model: its floating-point parameters are rounded, all of them, in float32.
        optimizer: one of torch, stepped without a closure.
        quantizer: `UniformQuantizer`, levels over the range of each tensor; or `LatticeConfig`: multiples of
            `step_size` root mean squares of each tensor, and of `small` where it has fewer than two
            dimensions. A commit bounded by the same two numbers restores float32 parameters to the bit,
            unless it lets momentum carry weights.

    Raises:
        UsageError: the optimizer is none of torch.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        quantizer: UniformQuantizer | LatticeConfig,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise UsageError(
                f"the optimizer cannot be a '{type(optimizer).__name__}'", hint="use torch's own"
            )
        self._quantizer = quantizer
        self._parameters = {
            name: parameter for name, parameter in model.named_parameters() if parameter.is_floating_point()
        }
        self._weights = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._round()
        optimizer.register_step_pre_hook(lambda *_: self._put_back())
        optimizer.register_step_post_hook(lambda *_: self._take())

    def state_dict(self) -> dict[str, Any]:
        """Return {"weights": the weights themselves, by the names of the parameters}."""
        return {"weights": dict(self._weights)}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the weights, and have the parameters hold them rounded.

        Raises:
            UsageError: they are those of another model; nothing is changed.
        """
        weights = state["weights"]
        shapes = {name: parameter.shape for name, parameter in self._parameters.items()}
        if {name: weight.shape for name, weight in weights.items()} != shapes:
            raise UsageError("the weights of error feedback are those of another model")
        for name, weight in weights.items():
            self._weights[name].copy_(weight)
        self._round()

    def _put_back(self) -> None:
        """Put the weights into the parameters, but for those that somebody wrote other values into."""
        versions = {name: parameter._version for name, parameter in self._parameters.items()}  # noqa: SLF001 - torch's
        restored = self._restored() if versions != self._versions else {}
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                if name not in restored or torch.equal(parameter, restored[name]):
                    parameter.copy_(self._weights[name])

    def _take(self) -> None:
        for name, parameter in self._parameters.items():
            self._weights[name].copy_(parameter.detach())
        self._round()

    def _round(self) -> None:
        with torch.no_grad():
            for name, values in self._restored().items():
                self._parameters[name].copy_(values)
        self._versions = {name: parameter._version for name, parameter in self._parameters.items()}  # noqa: SLF001 - torch's

    def _restored(self) -> dict[str, torch.Tensor]:
        """Return what codes of the weights restore, each as its parameter holds it."""
        tensors = {name: weight.float().cpu().numpy() for name, weight in self._weights.items()}
        if isinstance(self._quantizer, UniformQuantizer):
            found = self._quantizer.restored(tensors)
        else:
            small, step_size = self._quantizer.small, self._quantizer.step_size
            found = {
                name: _rounded(values, step_size if values.ndim > 1 else small)
                for name, values in tensors.items()
            }
        return {name: torch.from_numpy(values).to(self._weights[name]) for name, values in found.items()}


def _rounded(values: Floats, step_size: float | None) -> Floats:
    if not step_size or not values.size:
        return values
    scale = float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
    return on_lattice(values, lattice_step(scale, step_size))
