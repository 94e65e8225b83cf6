"""Probes of a run that goes on: every n-th bounded commit, without disturbing the run."""

import pytest
import torch

from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.train import Checkpointer, ProbeEvery
from tests.train.probes import probes


def run(repo, train, steps=4):
    """Train and commit after every step; return the checkpointer and the weights."""
    model = probes.model()
    optimizer = probes.optimizer(model)
    probe = ProbeEvery(repo, train, every=3, steps=5)
    options = {"every": 1, "step_size": 0.5, "weights_every": 1, "on_commit": probe, "extra": {"none": 0}}
    with Checkpointer(repo, model, optimizer, **options) as checkpointer:
        for number in range(checkpointer.resume(), steps):
            probes.step(model, optimizer, number)
            torch.rand(3)
            checkpointer.after_step(number)
    return checkpointer, [*model.parameters(), torch.get_rng_state()]


@pytest.mark.slow
def test_every_third_commit_has_what_its_probe_found(tmp_path):
    with Repository.init(tmp_path / "run") as repo:
        checkpointer, after = run(repo, probes.resume)
        assert checkpointer.callback_failures == []
        probed = {one.step: one.metrics for one in repo.log() if "resume_excess" in one.metrics}
    assert sorted(probed) == [0, 3]
    model = probes.model()
    optimizer = probes.optimizer(model)
    for number in range(4):
        probes.step(model, optimizer, number)
        torch.rand(3)
    undisturbed = [*model.parameters(), torch.get_rng_state()]
    assert all(torch.equal(one, two) for one, two in zip(undisturbed, after, strict=True))


@pytest.mark.slow
def test_a_probe_that_dies_costs_the_run_nothing(tmp_path):
    with Repository.init(tmp_path / "run") as repo:
        checkpointer, _ = run(repo, probes.die, steps=1)
    (failure,) = checkpointer.callback_failures
    assert failure.kind == "EvaluationError"
    assert "died" in failure.message
    assert checkpointer.failures == []


@pytest.mark.parametrize("options", [{"every": 0}, {"steps": 0}])
def test_odd_numbers(tmp_path, options):
    with Repository.init(tmp_path / "run") as repo, pytest.raises(UsageError, match="cannot be 0"):
        ProbeEvery(repo, probes.resume, **options)
