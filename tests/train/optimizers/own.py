"""An optimizer that nobody else has: it keeps what others do under names of its own."""

from typing import Any

import torch


class Own(torch.optim.Optimizer):
    """Adam beside a momentum of its updates, and the last gradients."""

    def __init__(self, parameters: Any, lr: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr, "decay": 0.9})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # as torch has it
        assert closure is None
        for group in self.param_groups:
            for one in group["params"]:
                self._step(one, group)

    def _step(self, one: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[one]
        for name in ("exp_avg", "my_v", "buffer", "cache"):
            state.setdefault(name, torch.zeros_like(one))
        gradient = one.grad
        assert gradient is not None
        state["exp_avg"].lerp_(gradient, 1 - group["decay"])
        state["my_v"].lerp_(gradient.square(), 0.05)
        state["cache"].copy_(gradient)
        state["buffer"].lerp_(state["exp_avg"] / (state["my_v"].sqrt() + 1e-8), 0.5)
        one.sub_(group["lr"] * state["buffer"])
