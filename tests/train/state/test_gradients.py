"""A state taken between backward and step holds the gradients; one taken after a step does not."""

import logging

import pytest
import torch
from torch import nn

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.train import Checkpointer

PIECES = 4


class Accumulating:
    """A loop over pieces of batches; one step of the optimizer for every fourth."""

    def __init__(self, *, to_none: bool = True) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        self.frozen = nn.Linear(2, 2)
        parameters = [*self.model.parameters(), *self.frozen.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-2)
        self.generator = torch.Generator().manual_seed(3)
        self.to_none = to_none

    def backward(self) -> None:
        x = torch.randn(4, 8, generator=self.generator)
        (self.model(x) - x.sum(1, keepdim=True)).square().mean().backward()

    def piece(self, number: int) -> None:
        self.backward()
        if (number + 1) % PIECES == 0:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=self.to_none)

    def weights(self) -> list[bytes]:
        return [weight.detach().numpy().tobytes() for weight in self.model.parameters()]

    def checkpointer(self, repo: Repository, **options: object) -> Checkpointer:
        return Checkpointer(repo, self.model, self.optimizer, extra={"data": self.generator}, **options)


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("last", range(7, 12))
@pytest.mark.parametrize("step_size", [None, 0.5])
def test_a_run_stopped_within_a_batch_goes_on_exactly(
    repo: Repository, last: int, step_size: float | None, to_none: bool
) -> None:
    run = Accumulating(to_none=to_none)
    with run.checkpointer(repo, step_size=step_size) as checkpointer:
        for number in range(last + 1):
            run.piece(number)
        checkpointer.save(last)
    state = repo.checkout(exact=True)
    assert ("optimizer_gradients" in state) == ((last + 1) % PIECES != 0)
    assert list(state)[-1] == "step"
    again = Accumulating(to_none=to_none)
    with again.checkpointer(repo) as checkpointer:
        assert checkpointer.resume() == last + 1
        for number in range(last + 1, 20):
            again.piece(number)
    whole = Accumulating(to_none=to_none)
    for number in range(20):
        whole.piece(number)
    assert again.weights() == whole.weights()


def test_gradients_stay_exact_in_the_value_layer(repo: Repository) -> None:
    run = Accumulating()
    with run.checkpointer(repo, step_size=0.5) as checkpointer:
        run.piece(0)
        checkpointer.save(0)
        expected = [weight.grad.clone() for weight in run.model.parameters()]
    stored = repo.checkout()["optimizer_gradients"]["optimizer"]
    assert stored[len(expected) :] == [None, None]
    assert all(torch.equal(one, other) for one, other in zip(expected, stored, strict=False))


def test_gradients_that_a_step_has_used_are_no_part_of_the_state(repo: Repository) -> None:
    run = Accumulating()
    with run.checkpointer(repo, every=1) as checkpointer:
        for step in range(5):
            run.optimizer.zero_grad()
            run.backward()
            run.optimizer.step()
            checkpointer.after_step(step)
    for commit in repo.log():
        assert "optimizer_gradients" not in repo.checkout(commit.id)


def test_left_over_gradients_do_not_outlive_a_resume(repo: Repository) -> None:
    run = Accumulating()
    with run.checkpointer(repo) as checkpointer:
        for number in range(PIECES):
            run.piece(number)
        checkpointer.save(PIECES - 1)
    run.backward()
    with run.checkpointer(repo) as checkpointer:
        checkpointer.resume()
    assert all(weight.grad is None for weight in run.model.parameters())


def test_every_optimizer_of_a_run_is_watched(repo: Repository) -> None:
    run, critic = Accumulating(), nn.Linear(4, 1)
    further = torch.optim.SGD(critic.parameters(), lr=0.1)
    with Checkpointer(repo, run.model, run.optimizer, extra={"critic": further}) as checkpointer:
        critic(torch.ones(1, 4)).sum().backward()
        checkpointer.save(0)
    stored = repo.checkout()["optimizer_gradients"]
    assert list(stored) == ["extra.critic"]
    assert torch.equal(stored["extra.critic"][0], torch.ones(1, 4))


def test_gradients_of_another_optimizer_are_told_of_once_and_counted_as_what_they_are(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    """A GAN: the backward pass of the generator leaves gradients on the discriminator."""
    run, critic = Accumulating(), nn.Linear(1, 1)
    further = torch.optim.Adam(critic.parameters())
    with (
        caplog.at_level(logging.WARNING),
        Checkpointer(repo, run.model, run.optimizer, extra={"optD": further}, every=1) as checkpointer,
    ):
        for step in range(3):
            further.zero_grad()
            critic(torch.randn(4, 1)).square().mean().backward()
            further.step()
            run.optimizer.zero_grad()
            critic(run.model(torch.randn(4, 8))).mean().backward()
            run.optimizer.step()
            checkpointer.after_step(step)
    told = [record.getMessage() for record in caplog.records if "gradients" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(f"commit {repo.resolve('HEAD~2').short}: 8 bytes of it are gradients that no")
    assert "no step of extra.optD has used" in told[0]
    assert "zero_grad() of that optimizer before after_step" in told[0]
    classes = {item.name: item.raw_bytes for item in repo.show().classes}
    assert classes["gradient"] == 8
    moments = [tensor for tensor in repo.show().tensors if tensor.role == "moment"]
    assert moments
    assert not [tensor for tensor in moments if tensor.path.startswith("optimizer_gradients")]


class Heads:
    """Forty heads, of which each piece of a batch trains another one."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = nn.ModuleList(nn.Linear(8, 8) for _ in range(40))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def piece(self, number: int) -> None:
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(number))
        self.model[number * 7 % 40](x).square().sum().backward()


class Unfreezing(Heads):
    """A net whose second layer is trained from the eighth piece on, and the first until then."""

    def piece(self, number: int) -> None:
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(number))
        self.model[1].requires_grad_(number >= 8)
        self.model[0].requires_grad_(number < 8)
        self.model[1](self.model[0](x).tanh()).square().sum().backward()


class Rows(Heads):
    """Two embeddings, whose gradients are sparse: of the rows that a piece has."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = nn.ModuleList(nn.Embedding(30, 4, sparse=True) for _ in range(2))
        self.optimizer = torch.optim.SparseAdam(list(self.model.parameters()), lr=0.1)

    def piece(self, number: int) -> None:
        rows = torch.randint(0, 30, (6,), generator=torch.Generator().manual_seed(number))
        self.model[number % 2](rows).square().sum().backward()


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("last", [9, 10])
@pytest.mark.parametrize("kind", [Heads, Unfreezing, Rows])
def test_gradients_of_any_parameter_are_seen_whatever_the_last_step_had(
    repo: Repository, kind: type[Heads], last: int, to_none: bool
) -> None:
    def trained(run: Heads, numbers: range) -> Heads:
        for number in numbers:
            run.piece(number)
            if number % PIECES == PIECES - 1:
                run.optimizer.step()
                run.optimizer.zero_grad(set_to_none=to_none)
        return run

    run = kind()
    with Checkpointer(repo, run.model, run.optimizer, step_size=0.5) as checkpointer:
        trained(run, range(last + 1))
        checkpointer.save(last)
    assert not checkpointer.failures
    live = [weight.grad for weight in run.model.parameters()]
    again = kind()
    with Checkpointer(repo, again.model, again.optimizer, step_size=0.5) as checkpointer:
        checkpointer.resume()
        assert not checkpointer.restored.lossy
        put_back = [weight.grad for weight in again.model.parameters()]
        for one, other in zip(live, put_back, strict=True):
            assert (one is None) == (other is None)
            assert one is None or (
                one.layout == other.layout and torch.equal(one.to_dense(), other.to_dense())
            )
        trained(again, range(last + 1, 20))
    whole = trained(kind(), range(20))
    pairs = zip(whole.model.parameters(), again.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_gradients_of_others_than_the_parameters_change_nothing(repo: Repository) -> None:
    run = Rows()
    with Checkpointer(repo, run.model, run.optimizer) as checkpointer:
        run.piece(0)
        checkpointer.save(0)
    state = repo.checkout()
    state["optimizer_gradients"]["optimizer"][0]["shape"] = [99, 4]
    repo.commit(state)
    before = [weight.clone() for weight in run.model.parameters()]
    with Checkpointer(repo, run.model, run.optimizer, final=False) as checkpointer:
        for weight in run.model.parameters():
            weight.data.mul_(2)
        with pytest.raises(UsageError, match="the gradients of the optimizer: that of parameter 0 is"):
            checkpointer.resume()
    assert all(
        torch.equal(2 * one, weight) for one, weight in zip(before, run.model.parameters(), strict=True)
    )


def test_a_closed_checkpointer_listens_no_longer(repo: Repository) -> None:
    run = Accumulating()
    with run.checkpointer(repo):
        assert len(run.optimizer._optimizer_step_post_hooks) == 1
    assert len(run.optimizer._optimizer_step_post_hooks) == 0
