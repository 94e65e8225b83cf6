"""A model and all that learns it, as a training script holds them, saves them and hands them over."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mvcs.train import Stateful


class Learner:
    """A model and its optimizer.

    Attributes:
        model: computes in training.
        optimizer: the first one, or the only one.
        extra: what else belongs to the state, by the name that it is saved under.
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, extra: Mapping[str, Stateful] | None = None
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.extra = dict(extra or {})

    def set_rate(self, rate: float) -> None:
        """Give all optimizers a learning rate."""
        for optimizer in self._optimizers():
            for group in optimizer.param_groups:
                group["lr"] = rate

    def update(self) -> None:
        """Make a step by the gradients that stand in the model."""
        for optimizer in self._optimizers():
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of everything; its tensors are the live ones."""
        extra = {name: part.state_dict() for name, part in self.extra.items()}
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), **extra}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned; further entries are passed over.

        Raises:
            KeyError: a part is missing.
            RuntimeError: the model is another one.
            ValueError: the optimizer is.
        """
        missing = {"model", "optimizer", *self.extra} - state.keys()
        if missing:
            raise KeyError(*sorted(missing))
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name, part in self.extra.items():
            part.load_state_dict(state[name])

    def _optimizers(self) -> Iterator[torch.optim.Optimizer]:
        yield self.optimizer
        for part in self.extra.values():
            if isinstance(part, torch.optim.Optimizer):
                yield part


class AveragingLearner(Learner):
    """Keeps an exponential moving average of the weights beside them, as "ema"."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, decay: float) -> None:
        self._average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call] # torch gives it no types
        super().__init__(model, optimizer, {"ema": self._average})

    def update(self) -> None:
        """Make a step, and let the average follow."""
        super().update()
        self._average.update_parameters(self.model)


class MasterLearner(Learner):
    """Learns float32 masters, saved as "masters", of a model whose weights are narrower.

    The optimizer has to have been made of the masters.
    """

    def __init__(self, model: nn.Module, masters: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._masters = masters
        super().__init__(model, optimizer, {"masters": masters})

    def update(self) -> None:
        """Widen the gradients, make a step with the masters, and round them into the model."""
        pairs = list(zip(self.model.parameters(), self._masters.parameters(), strict=True))
        for weight, master in pairs:
            master.grad = None if weight.grad is None else weight.grad.to(master.dtype)
        super().update()
        with torch.no_grad():
            for weight, master in pairs:
                weight.copy_(master)


def masters_of(model: nn.Module) -> nn.Module:
    """Return a copy of a model with float32 weights."""
    return deepcopy(model).float()
