"""Replicas that average gradients in few bits: equal bits, errors that are fed back, loud failures."""

import os
import signal

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.train import Checkpointer
from mvcs.train.channels import QuantizedAdam, QuantizedGradients
from tests.train.channels.ranks import run


class Replica:
    """A small net under DDP whose gradients are averaged in few bits, by a hook or by QuantizedAdam."""

    def __init__(self, bits=4, warmup=None, buckets=0.002, width=48):
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )
        self.model = DistributedDataParallel(net, bucket_cap_mb=buckets)
        if warmup is None:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.state = QuantizedGradients(bits, self.model)
        else:
            self.state = self.optimizer = QuantizedAdam(
                self.model.named_parameters(), lr=0.01, warmup=warmup, bits=bits
            )
        self.model.register_comm_hook(self.state, type(self.state).hook)

    def loss(self, step):
        drawn = torch.Generator().manual_seed(step * 100 + dist.get_rank())
        x = torch.randn(16, 8, generator=drawn)
        return (self.model(x) - x.sin().sum(1, keepdim=True)).square().mean()

    def step(self, step):
        self.optimizer.zero_grad()
        loss = self.loss(step)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def bits(self):
        return [parameter.detach().numpy().tobytes() for parameter in self.model.parameters()]


def trained(_rank, steps, options):
    replica = Replica(**options)
    losses = [replica.step(step) for step in range(steps)]
    return replica.bits(), losses, replica.state.sent


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("warmup", [None, 3])
def test_replicas_hold_the_same_bits(forked, tmp_path, world, warmup):
    found = run(forked, tmp_path, world, trained, 8, {"warmup": warmup})
    assert all(bits == found[0][0] for bits, _, _ in found)


def test_the_layout_of_buckets_does_not_matter(forked, tmp_path):
    many, one = (run(forked, tmp_path, 2, trained, 4, {"buckets": size})[0] for size in (0.002, 25))
    assert many[0] == one[0]


def averaged(rank, gradients, bits):
    """The gradients that one parameter for each of `gradients` gets, at each of the steps."""
    names = [f"p{number}" for number in range(len(gradients[0]))]
    holder = nn.ParameterDict(
        {name: nn.Parameter(torch.zeros(one.shape)) for name, one in zip(names, gradients[0], strict=True)}
    )

    class Given(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = holder

        def forward(self, wanted):
            return sum((self.held[name] * one).sum() for name, one in zip(names, wanted, strict=True))

    model = DistributedDataParallel(Given())
    state = QuantizedGradients(bits, model)
    model.register_comm_hook(state, QuantizedGradients.hook)
    found = []
    for step in gradients:
        model.zero_grad()
        model([(rank + 1) * one for one in step]).backward()
        found.append([holder[name].grad.clone() for name in names])
    return found, state.sent


def test_what_a_message_loses_is_in_the_next(forked, tmp_path):
    gradient = torch.randn(600, generator=torch.Generator().manual_seed(0))
    found, _ = run(forked, tmp_path, 2, averaged, [[gradient]] * 30, 3)[0]
    errors = torch.stack([one for (one,) in found]) - 1.5 * gradient
    assert errors.mean(0).abs().max() < errors[0].abs().max() / 10


@pytest.mark.parametrize("sizes", [[(1,)], [(0,), (5,)], [(513,), (3, 7), (1000,), ()]])
def test_uneven_lengths(forked, tmp_path, sizes):
    steps = [[torch.full(size, 0.5) for size in sizes]]
    for found, _ in run(forked, tmp_path, 3, averaged, steps, 8):
        for one, size in zip(found[0], sizes, strict=True):
            assert torch.allclose(one, torch.full(size, 1.0), rtol=0.02)


def test_bytes_are_those_of_the_bits(forked, tmp_path):
    gradient = torch.randn(256, 1024, generator=torch.Generator().manual_seed(0))
    sent = [sent for _, sent in run(forked, tmp_path, 2, averaged, [[gradient]], 4)]
    # A worker sends half of the values to the other rank, and a server the mean of its half.
    assert gradient.numel() // 2 < sent[0] == sent[1] < 1.01 * gradient.numel() // 2


class Branches(nn.Module):
    """Two parameters with given gradients; the second is used where it gets one."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(600)), nn.Parameter(torch.zeros(600))

    def forward(self, given, used):
        return (self.a * given).sum() + ((self.b * given).sum() if used else 0)


def with_unused(rank, used, warmup=None, set_to_none=True):
    """Sums of what the second parameter should have got and got, errors included, and its first moments."""
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    state = QuantizedGradients(2, model)
    if warmup is not None:
        state = QuantizedAdam(model.named_parameters(), warmup=warmup)
    model.register_comm_hook(state, type(state).hook)
    wanted, got, moments = torch.zeros(600), torch.zeros(600), []
    for step, one in enumerate(used):
        model.zero_grad(set_to_none=set_to_none)
        given = [
            torch.randn(600, generator=torch.Generator().manual_seed(9 * step + each)) for each in range(2)
        ]
        model(given[rank], one).backward()
        gradient = model.module.b.grad
        got += 0 if gradient is None else gradient
        wanted += sum(given) / 2 if one else 0
        if warmup is not None:
            state.step()
            moments.append(state.state[model.module.b]["exp_avg"].clone())
    if warmup is None:
        kept = state.state_dict()["module.b"]
        errors = kept["worker_error"] / 2
        errors[slice(*kept["served"][1:])] += kept["server_error"]
        dist.all_reduce(errors)
        got += errors.ravel()
    return wanted, got, moments


def test_errors_of_a_parameter_that_no_rank_used_are_kept(forked, tmp_path):
    for wanted, got, _ in run(forked, tmp_path, 2, with_unused, [True, False] * 4):
        assert torch.allclose(wanted, got, atol=1e-4)


def test_the_first_moment_of_a_parameter_that_no_rank_used_is_kept(forked, tmp_path):
    for _, _, moments in run(forked, tmp_path, 2, with_unused, [True, True, True, False, True], 2):
        assert torch.equal(moments[3], moments[2])
        assert not torch.equal(moments[4], moments[3])


def test_a_gradient_of_zeros_lets_the_first_moment_decay(forked, tmp_path):
    for _, _, moments in run(forked, tmp_path, 2, with_unused, [True, True, True, False, True], 2, False):
        assert torch.allclose(moments[3], 0.9 * moments[2])


def largest(_rank, value, dtype):
    """What a gradient of `value` on all ranks comes to."""
    model = DistributedDataParallel(nn.Linear(4, 1, bias=False).to(dtype))
    state = QuantizedGradients(8, model)
    model.register_comm_hook(state, QuantizedGradients.hook)
    (model(torch.ones(1, 4, dtype=dtype)) * value).sum().backward()
    return model.module.weight.grad.tolist()


def test_the_largest_float16_stays_finite(forked, tmp_path):
    for found in run(forked, tmp_path, 2, largest, -65500.0, torch.float16):
        assert found == [[-65504.0] * 4]


def test_a_sum_that_overflows_is_named_on_all_ranks(forked, tmp_path):
    for told in run(forked, tmp_path, 2, largest, 2.5e38, torch.float32):
        assert told.startswith("UsageError: the mean gradient of 'module.weight' is not finite on rank ")


def in_part(_rank):
    model = DistributedDataParallel(nn.Linear(8, 3))
    optimizer = QuantizedAdam([("weight", model.module.weight)], warmup=1)
    model.register_comm_hook(optimizer, QuantizedAdam.hook)
    model(torch.ones(1, 8)).sum().backward()


def test_a_parameter_that_the_optimizer_has_not_is_refused(forked, tmp_path):
    for told in run(forked, tmp_path, 2, in_part):
        assert told.startswith("UsageError: QuantizedAdam was not given the parameter of the shape (3,)")


def ended_first(rank):
    replica = Replica(warmup=1)
    with replica.model.join():
        for step in range(2 + 2 * rank):
            replica.step(step)


def test_join_is_named_where_a_rank_ends_first(forked, tmp_path):
    first, _ = run(forked, tmp_path, 2, ended_first)
    assert "QuantizedAdam does not work within 'ddp.join()'" in first


def broken(rank, bad):
    replica = Replica()
    replica.step(0)
    before = replica.bits()
    if rank == 1:
        with torch.no_grad():
            replica.loss = lambda _step: replica.model(torch.full((4, 8), bad)).sum()
    try:
        replica.step(1)
    except UsageError as error:
        return error.message, replica.bits() == before


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_named_on_all_ranks(forked, tmp_path, bad):
    for message, kept in run(forked, tmp_path, 2, broken, bad):
        assert message == "the gradient of 'module.4.weight' is not finite on rank 1"
        assert kept


def flipped(rank):
    """Train over a network that flips a bit of what rank 1 sends."""
    if rank == 1:
        send = dist.isend

        def turned(tensor, **options):
            tensor[-1] ^= 1
            return send(tensor, **options)

        dist.isend = turned
    return trained(rank, 1, {})


def test_a_flipped_bit_is_found(forked, tmp_path):
    first, _ = run(forked, tmp_path, 2, flipped)
    assert first.startswith("CorruptionError: the payload of edge 0 at step 1 is damaged")


def differing(rank):
    return trained(rank, 1, {"bits": 4 - rank})


def test_ranks_with_other_bits_are_refused(forked, tmp_path):
    for told in run(forked, tmp_path, 2, differing):
        assert told.startswith("UsageError: rank ")
        assert "[4]" in told
        assert "[3]" in told


def killed(rank):
    replica = Replica()
    for step in range(3):
        if (rank, step) == (1, 2):
            os.kill(os.getpid(), signal.SIGKILL)
        replica.step(step)


def test_a_killed_rank_is_named(forked, tmp_path):
    first, second, third = run(forked, tmp_path, 3, killed)
    assert second is None
    assert first.startswith("StorageError: gradients were not averaged: rank 1 is gone")
    assert third.startswith("StorageError: gradients were not averaged: rank ")


def alone(_rank, warmup):
    quantized = Replica(warmup=warmup)
    losses = [quantized.step(step) for step in range(6)]
    return losses, quantized.state.sent


def test_one_rank_alone_sends_nothing(forked, tmp_path):
    (found,) = run(forked, tmp_path, 1, alone, None)
    assert found[1] == 0
    assert found[0][-1] < found[0][0]


def resumed(rank, folder, warmup, stop, steps):
    """Train to `stop`, commit, and continue in new objects, as a new process does."""
    with Repository.init(folder / str(rank)) as repository:
        for end in (stop, steps):
            replica = Replica(warmup=warmup)
            extra = {} if warmup else {"gradients": replica.state}
            with Checkpointer(repository, replica.model, replica.optimizer, extra=extra, every=stop) as hook:
                for step in range(hook.resume(), end):
                    replica.step(step)
                    hook.after_step(step)
    return replica.bits(), end


@pytest.mark.parametrize("warmup", [None, 3])
def test_a_resumed_run_continues_with_the_same_bits(forked, tmp_path, warmup):
    through = run(forked, tmp_path, 2, trained, 10, {"warmup": warmup})
    found = run(forked, tmp_path, 2, resumed, tmp_path, warmup, 5, 10)
    assert [bits for bits, _ in found] == [bits for bits, _, _ in through]


def other_world(rank, states):
    replica = Replica()
    replica.state.load_state_dict(states[rank % len(states)])
    replica.step(0)


def state_of(_rank):
    replica = Replica()
    replica.step(0)
    return replica.state.state_dict()


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (2, 1)])
def test_errors_of_another_number_of_ranks_are_refused(forked, tmp_path, before, after):
    states = run(forked, tmp_path, before, state_of)
    for told in run(forked, tmp_path, after, other_world, states):
        assert f"[ranks, start, stop] is [{before}, " in told


def test_errors_of_another_rank_are_refused(forked, tmp_path):
    states = run(forked, tmp_path, 2, state_of)
    for told in run(forked, tmp_path, 2, other_world, states[::-1]):
        assert "[ranks, start, stop] is [2, " in told


def beside_adam(_rank, warmup, bits, steps):
    """Losses beside those of AdamW with gradients that DDP averages."""
    ours, theirs = Replica(bits, warmup), Replica()
    theirs.model = DistributedDataParallel(theirs.model.module)
    theirs.optimizer = torch.optim.AdamW(theirs.model.parameters(), lr=0.01, weight_decay=0.0)
    return [(ours.step(step), theirs.step(step)) for step in range(steps)]


def test_the_warm_up_is_adam_with_exact_gradients(forked, tmp_path):
    for ours, theirs in run(forked, tmp_path, 2, beside_adam, 6, 4, 6)[0]:
        assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("bits", [1, 4])
def test_training_behind_the_warm_up_is_as_good(forked, tmp_path, bits):
    ours, theirs = np.mean(run(forked, tmp_path, 2, beside_adam, 15, bits, 80)[0][-20:], axis=0)
    assert ours < 1.2 * theirs


def clipped(_rank):
    replica = Replica(warmup=1)
    replica.step(0)
    replica.loss(1).backward()
    nn.utils.clip_grad_norm_(replica.model.parameters(), 1e-3)
    replica.optimizer.step()


def test_a_first_moment_that_was_clipped_is_refused(forked, tmp_path):
    for told in run(forked, tmp_path, 2, clipped):
        assert "was changed after it was averaged" in told


def accumulated(_rank, sync):
    replica = Replica(warmup=1)
    replica.step(0)
    replica.optimizer.zero_grad()
    if sync:
        replica.loss(1).backward()
    else:
        with replica.model.no_sync():
            replica.loss(1).backward()
    replica.loss(2).backward()
    replica.optimizer.step()
    return "done"


def test_gradients_that_are_averaged_twice_are_refused(forked, tmp_path):
    assert "averaged twice" in run(forked, tmp_path, 2, accumulated, True)[0]


def test_gradients_are_accumulated_without_averaging(forked, tmp_path):
    assert run(forked, tmp_path, 2, accumulated, False) == ["done", "done"]


@pytest.mark.parametrize("settings", [{"bits": 0}, {"bits": 9}, {"warmup": 0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(UsageError):
        QuantizedAdam([nn.Parameter(torch.zeros(3))], **{"warmup": 1, **settings})


def test_parameters_of_other_dtypes_are_refused():
    with pytest.raises(UsageError, match=r"float32 parameters, and '0\.0' is torch\.bfloat16"):
        QuantizedAdam([nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))], warmup=1)


def test_a_parameter_without_a_gradient_in_the_warm_up_is_named():
    parameter = nn.Parameter(torch.ones(3))
    optimizer = QuantizedAdam([("head", parameter)], warmup=1)
    parameter.grad = torch.zeros(3)
    optimizer.step()
    with pytest.raises(UsageError, match="all gradients of 'head'"):
        optimizer.step()
