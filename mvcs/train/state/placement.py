"""On which devices the tensors of a restored state go."""

from collections.abc import Mapping
from typing import Any

import torch

from mvcs.checkpoint import set_generator


def placed_like(saved: Any, here: object) -> Any:  # noqa: ANN401 - whatever a state holds
    """Return `saved` with each tensor on the device of the one at its place in `here`; the others stay.

    A commit holds values, and not where they were: all of it is restored into host memory. A generator of
    random numbers in `here` takes the state of the saved one, and stays the one that others draw from.
    """
    if set_generator(saved, here):
        return here
    if isinstance(saved, torch.Tensor) and isinstance(here, torch.Tensor):
        return saved if here.is_meta or saved.device == here.device else _moved(saved, here.device)
    if isinstance(saved, dict) and isinstance(here, Mapping):
        placed = saved.copy()
        placed.update((key, placed_like(value, here[key])) for key, value in saved.items() if key in here)
        return placed
    if type(saved) in (list, tuple) and isinstance(here, list | tuple) and len(saved) == len(here):
        return type(saved)(map(placed_like, saved, here))
    return saved


def settings_placed(saved: Any, part: object) -> Any:  # noqa: ANN401 - of whatever form
    """Return the state of an optimizer with settings that are tensors, such as a rate, where its own are.

    What stands in `state` torch places itself, as each parameter wants it. Other parts do it themselves.
    """
    if not isinstance(part, torch.optim.Optimizer) or "param_groups" not in saved:
        return saved
    return {**saved, "param_groups": placed_like(saved["param_groups"], part.param_groups)}


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    moved = tensor.detach().to(device)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(moved, requires_grad=tensor.requires_grad)
    return moved.requires_grad_(tensor.requires_grad)
