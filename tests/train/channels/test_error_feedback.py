"""Error feedback: gradients at what codes restore, steps of the weights, commits of what was trained."""

import numpy as np
import pytest
import torch
from torch import nn

import mvcs
from mvcs.errors import UsageError
from mvcs.quantize import LatticeConfig, UniformQuantizer
from mvcs.train import Checkpointer
from mvcs.train.channels import ErrorFeedback

EIGHT, FOUR = UniformQuantizer(8, 8), UniformQuantizer(4, 4)
LATTICE = LatticeConfig(step_size=0.5)


class Digits:
    """A small net that tells 10 noisy patterns apart."""

    def __init__(self, quantizer=None, seed=0):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.generator = torch.Generator().manual_seed(seed)
        self.patterns = torch.randn(10, 32, generator=torch.Generator().manual_seed(1))
        self.feedback = None if quantizer is None else ErrorFeedback(self.model, self.optimizer, quantizer)

    def batch(self, count=64, generator=None):
        labels = torch.randint(0, 10, (count,), generator=generator or self.generator)
        noise = torch.randn(count, 32, generator=generator or self.generator)
        return self.patterns[labels] + 2.0 * noise, labels

    def train(self, steps, after=lambda: None):
        for _ in range(steps):
            inputs, labels = self.batch()
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(inputs), labels).backward()
            self.optimizer.step()
            after()
        return self

    def accuracy(self):
        inputs, labels = self.batch(20_000, torch.Generator().manual_seed(5))
        with torch.no_grad():
            return 100 * float((self.model(inputs).argmax(1) == labels).float().mean())

    def weights(self):
        return {name: one.detach().numpy().copy() for name, one in self.model.named_parameters()}


def without_feedback(quantizer):
    """Return a run whose weights are replaced by what codes restore after each step."""
    run = Digits()

    def round_weights():
        with torch.no_grad():
            for name, values in quantizer.restored(run.weights()).items():
                run.model.get_parameter(name).copy_(torch.from_numpy(values))

    return run.train(600, round_weights)


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_gradients_are_those_at_what_codes_restore_and_weights_are_stepped():
    run = Digits(FOUR)
    weights = {name: one.clone() for name, one in run.feedback.state_dict()["weights"].items()}
    restored = run.weights()
    assert same(restored, FOUR.restored({name: one.numpy() for name, one in weights.items()}))
    run.train(1)
    stepped = run.feedback.state_dict()["weights"]
    for name, parameter in run.model.named_parameters():
        assert torch.allclose(stepped[name], weights[name] - 0.05 * parameter.grad, atol=1e-7)
    assert same(run.weights(), FOUR.restored({name: one.numpy() for name, one in stepped.items()}))


def test_eight_bits_end_where_float32_does():
    ends = [
        [Digits(quantizer, seed).train(600).accuracy() for seed in range(3)] for quantizer in (EIGHT, None)
    ]
    assert np.mean(ends[0]) > np.mean(ends[1]) - 0.2


def test_four_bits_are_better_than_without_feedback():
    assert Digits(FOUR).train(600).accuracy() > without_feedback(FOUR).accuracy() + 5


@pytest.mark.parametrize("quantizer", [EIGHT, LATTICE], ids=["uniform", "lattice"])
def test_a_run_resumes_bit_for_bit(tmp_path, quantizer):
    whole = Digits(quantizer).train(20)

    def hook(run):
        extra = {"feedback": run.feedback, "data": run.generator}
        return Checkpointer(repo, run.model, run.optimizer, extra=extra, step_size=0.5)

    with mvcs.open_or_init(tmp_path) as repo:
        begun = Digits(quantizer).train(12)
        with hook(begun) as checkpointer:
            checkpointer.save(11)
        resumed = Digits(quantizer, seed=3)
        with hook(resumed) as checkpointer:
            assert checkpointer.resume() == 12
            resumed.train(8)
    assert same(resumed.weights(), whole.weights())
    assert same(
        *({k: v.numpy() for k, v in run.feedback.state_dict()["weights"].items()} for run in (resumed, whole))
    )


def test_what_is_committed_is_what_was_trained(tmp_path):
    run = Digits(LATTICE)
    with mvcs.open_or_init(tmp_path) as repo:
        repo.config_set("retention.exact_layers", "0")
        for _ in range(6):
            run.train(5)
            repo.commit({"model": run.model.state_dict()}, quantizer=LATTICE)
            restored = repo.checkout()["model"]
            assert same({name: one.numpy() for name, one in restored.items()}, run.weights())


def test_weights_that_are_loaded_in_between_are_stepped():
    run, other = Digits(FOUR), Digits(seed=4)
    run.model.load_state_dict(other.model.state_dict())
    run.optimizer.zero_grad()
    for parameter in run.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    run.optimizer.step()
    assert same(
        {name: one.numpy() for name, one in run.feedback.state_dict()["weights"].items()}, other.weights()
    )


def test_the_state_of_another_model_is_refused():
    run = Digits(EIGHT)
    with pytest.raises(UsageError, match="those of another model"):
        run.feedback.load_state_dict({"weights": {"0.weight": torch.zeros(3)}})


def test_a_wrapper_of_an_optimizer_is_refused():
    with pytest.raises(UsageError, match="the optimizer cannot be a 'object'"):
        ErrorFeedback(nn.Linear(2, 2), object(), EIGHT)
