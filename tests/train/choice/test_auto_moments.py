"""Where commits are chosen by measured quality, moments are kept by the optimizer and the same bound."""

import pytest
import torch

from mvcs import Repository
from mvcs.train import Checkpointer
from tests.train.probes import probes


def evaluate(model):
    for number in range(8):
        x = torch.randn(32, 16, generator=torch.Generator().manual_seed(1000 + number))
        yield (model(x) - x[:, :4]).square().mean().item() * 32, 32


@pytest.mark.parametrize(
    ("options", "first", "told"),
    [
        ({"max_degradation": 0.5}, "carried", "auto"),
        ({"max_degradation": lambda _: 0.003}, "sign", "auto"),
        ({"max_degradation": 0.5, "moments": "resume"}, "sign", None),
    ],
)
def test_moments_follow_the_bound(tmp_path, options, first, told):
    model = probes.model()
    optimizer = probes.optimizer(model)
    with Repository.init(tmp_path / "run") as repo:
        choices = {"every": 1, "evaluate": evaluate, "step_size": 0.01, "extra": {"none": 0}, **options}
        with Checkpointer(repo, model, optimizer, **choices) as checkpointer:
            for number in range(2):
                probes.step(model, optimizer, number)
                checkpointer.after_step(number)
        shown = repo.show()
    assert shown.quantizer["first"] == first
    assert shown.provenance.get("moments") == told


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e5m2, torch.int32])
def test_moments_that_nothing_quantizes_leave_a_run_bounded(tmp_path, dtype):
    """They tell nothing of how much the loss minds an error; other tensors' do."""
    model = probes.model()
    optimizer = probes.optimizer(model)
    probes.step(model, optimizer, 0)
    odd = next(state for parameter, state in optimizer.state.items() if parameter.dim() == 2)
    odd.update({name: odd[name].to(dtype) for name in ("exp_avg", "exp_avg_sq")})
    with Repository.init(tmp_path / "run") as repo:
        choices = {"evaluate": evaluate, "max_degradation": 0.5, "extra": {"none": 0}}
        with Checkpointer(repo, model, optimizer, **choices) as checkpointer:
            checkpointer.save(0)
        assert repo.head().exactness == "bounded"
