"""States of a model and its Adam: tensors of one shape, all of which move between commits."""

from collections.abc import Sequence

import torch

State = dict[str, dict[str, object]]


def adam_states(shape: Sequence[int], count: int, commits: int) -> list[State]:
    """Return so many states of `count` float32 weights of a shape, each with both moments.

    Weights are normal, of scale 0.02, and each is 0.002 off from where it starts. Moments are new each time.
    """
    generator = torch.Generator().manual_seed(0)

    def normal(scale: float) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=generator)

    def moments() -> dict[str, torch.Tensor]:
        return {"exp_avg": normal(1e-3), "exp_avg_sq": normal(1e-3).square()}

    weights = [normal(0.02) for _ in range(count)]
    return [
        {
            "model": {f"layers.{i}.weight": weight + normal(0.002) for i, weight in enumerate(weights)},
            "optimizer": {"state": {i: moments() for i in range(count)}, "param_groups": []},
        }
        for _ in range(commits)
    ]


def state_bytes(state: State) -> int:
    """Return the bytes of a state's tensors."""
    return 3 * sum(each.nbytes for each in state["model"].values())  # type: ignore[attr-defined]
