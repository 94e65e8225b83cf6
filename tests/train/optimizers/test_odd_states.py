"""Odd states of optimizers: other orders, types and shapes than the model's, parameters that come and go."""

import math

import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW, SparseAdam

from mvcs import Repository
from mvcs.errors import NotFoundError, StateError
from mvcs.train import Checkpointer
from tests.train.optimizers.nets import committed, compared, net, train

ADAM = {"exp_avg", "exp_avg_sq"}


def state_of(model, optimizer):
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


@pytest.mark.parametrize("moments", ["resume", "light"])
def test_parameters_in_another_order_than_the_models(tmp_path, moments):
    def backwards(model):
        return AdamW(reversed(list(model.parameters())))

    def forwards(model):
        return AdamW(model.parameters())

    odd = committed(tmp_path / "odd", backwards, moments=moments)
    plain = committed(tmp_path / "plain", forwards, moments=moments)

    assert odd.rounded == plain.rounded == ADAM
    errors = dict(odd.commit.errors)["weight"], dict(plain.commit.errors)["weight"]
    assert errors[0]["max_abs"] <= 1.5 * errors[1]["max_abs"]
    assert odd.after[0] == pytest.approx(odd.before[0], rel=0.02)


def changed(tmp_path, change, moments="resume"):
    """Commit a trained AdamW whose state was changed first; return what was rounded, and what was kept."""
    model = net()
    optimizer = AdamW(model.parameters())
    train(model, optimizer, range(3))
    state = state_of(model, optimizer)
    for kept in state["optimizer"]["state"].values():
        change(kept)
    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "0")
        repo.commit(state, step_size=0.1, moments=moments)
        return compared(state["optimizer"]["state"], repo.checkout()["optimizer"]["state"])


def cast(name, dtype):
    return lambda kept: kept.update({name: kept[name].to(dtype)})


@pytest.mark.parametrize("moments", ["resume", "light", "auto"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_first_moments_of_another_type_than_the_second(tmp_path, dtype, moments):
    rounded, kept = changed(tmp_path, cast("exp_avg", dtype), moments)
    assert rounded == {"exp_avg_sq"}
    assert kept == {"exp_avg", "step"}


@pytest.mark.parametrize("moments", ["resume", "light"])
def test_moments_of_fewer_bits_than_weights(tmp_path, moments):
    def halved(kept):
        kept.update({name: kept[name].bfloat16() for name in ADAM})

    assert changed(tmp_path, halved, moments)[0] == ADAM


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8, torch.uint8])
def test_moments_on_a_grid_of_their_own_are_kept(tmp_path, dtype):
    def coded(kept):
        kept.update({name: (kept[name] * 1000).to(dtype).view(torch.uint8) for name in ADAM})

    assert changed(tmp_path, coded) == (set(), ADAM | {"step"})


@pytest.mark.parametrize("moments", ["resume", "light"])
def test_moments_of_another_shape_than_their_weights(tmp_path, moments):
    def flat(kept):
        kept.update({name: kept[name].reshape(-1).clone() for name in ADAM})

    assert changed(tmp_path, flat, moments)[0] == ADAM


def test_a_first_moment_of_another_shape_than_the_second_is_kept(tmp_path):
    rounded, kept = changed(tmp_path, lambda kept: kept.update(exp_avg=kept["exp_avg"].reshape(-1).clone()))
    # Vectors have one shape either way.
    assert rounded == ADAM
    assert kept == {"step"}
    with Repository.open(tmp_path / "run") as repo:
        roles = {one.path: one.exact_id for one in repo.show().tensors if one.path.endswith(".0.exp_avg")}
    assert set(roles.values()) == {None}


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_moments_that_are_no_numbers_stay_so(tmp_path, odd):
    def broken(kept):
        kept["exp_avg"].view(-1)[::97] = odd
        kept["exp_avg_sq"].view(-1)[5::97] = abs(odd)

    rounded, _ = changed(tmp_path, broken)

    assert rounded == ADAM
    with Repository.open(tmp_path / "run") as repo:
        restored = repo.checkout()["optimizer"]["state"][0]
    for name, first in (("exp_avg", 0), ("exp_avg_sq", 5)):
        places = torch.nonzero(~torch.isfinite(restored[name].view(-1))).view(-1)
        assert places.tolist() == list(range(first, restored[name].numel(), 97))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("betas", None),
        ("betas", "0.9,0.99"),
        ("betas", (0.9, 0.99, 0.999)),
        ("lr", torch.tensor([1e-3, 2e-3])),
        ("lr", 1e-3 + 1j),
    ],
    ids=["none", "text", "three", "vector", "complex"],
)
@pytest.mark.parametrize("moments", ["auto", "light"])
def test_settings_that_cannot_be_read_keep_moments_exactly(tmp_path, setting, value, moments):
    model = net()
    optimizer = AdamW(model.parameters())
    train(model, optimizer, range(3))
    state = state_of(model, optimizer)
    state["optimizer"]["param_groups"][0][setting] = value
    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "0")
        [note] = repo.commit(state, step_size=0.1, moments=moments).notes
        restored = repo.checkout()["optimizer"]["state"]
    assert f"the Adam with {setting} that" in note
    assert "its moments are kept exactly" in note
    assert compared(state["optimizer"]["state"], restored) == (set(), ADAM | {"step"})


class Bag(nn.Module):
    """A table of which a step touches a few rows, beside a layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.EmbeddingBag(200, 48, sparse=True)
        self.layer = nn.Linear(48, 4)

    def forward(self, rows):
        return self.layer(self.table(rows))


def sparse_step(model, optimizers, number):
    rows = torch.randint(0, 200, (8, 4), generator=torch.Generator().manual_seed(number))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = (model(rows) - 1).square().mean()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


@pytest.mark.parametrize("moments", ["resume", "light", "auto"])
def test_sparse_gradients(tmp_path, moments):
    model = Bag()
    optimizers = [SparseAdam([model.table.weight]), SGD(model.layer.parameters(), 0.1, momentum=0.9)]
    for number in range(4):
        sparse_step(model, optimizers, number)
    untouched = (optimizers[0].state_dict()["state"][0]["exp_avg_sq"] == 0).all(dim=1)
    assert untouched.any()
    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "0")
        state = {"model": model.state_dict(), "optimizers": [one.state_dict() for one in optimizers]}
        assert repo.commit(state, step_size=0.1, moments=moments).notes == []
        restored = repo.checkout()
    second = restored["optimizers"][0]["state"][0]["exp_avg_sq"]
    assert torch.equal((second == 0).all(dim=1), untouched)
    model.load_state_dict(restored["model"])
    for optimizer, kept in zip(optimizers, restored["optimizers"], strict=True):
        optimizer.load_state_dict(kept)
    assert math.isfinite(sparse_step(model, optimizers, 4))


def test_a_sparse_tensor_in_a_state_is_refused_by_its_path(tmp_path):
    model = Bag()
    rows = torch.tensor([[1, 2]])
    model(rows).sum().backward()
    optimizer = SGD(model.parameters(), 0.1, momentum=0.9)
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["momentum_buffer"].is_sparse
    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(StateError, match=r"optimizer.*momentum_buffer"):
            repo.commit(state_of(model, optimizer), step_size=0.1)
        with pytest.raises(NotFoundError):
            repo.show()


def test_moments_on_a_device_without_values_are_refused_by_their_path(tmp_path):
    model = net()
    optimizer = AdamW(model.parameters())
    train(model, optimizer, range(2))
    state = state_of(model, optimizer)
    kept = state["optimizer"]["state"][1]
    kept["exp_avg"] = kept["exp_avg"].to("meta")
    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(StateError, match=r"optimizer.*1.*exp_avg"):
            repo.commit(state, step_size=0.1)
        with pytest.raises(NotFoundError):
            repo.show()


@pytest.mark.parametrize("moments", ["resume", "light", "auto"])
def test_moments_strided_otherwise_than_their_weights(tmp_path, moments):
    def turned(kept):
        kept.update({name: kept[name].t().contiguous().t() for name in ADAM if kept[name].dim() == 2})

    assert changed(tmp_path, turned, moments)[0] == ADAM


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thousands_of_tensors_of_ten_values(tmp_path, count):
    generator = torch.Generator().manual_seed(0)
    scales = [nn.Parameter(torch.randn(10, generator=generator)) for _ in range(count)]
    optimizer = AdamW(scales, betas=(0.9, 0.95))
    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "1")
        for _ in range(2):
            for one in scales:
                one.grad = torch.randn(10, generator=generator)
            optimizer.step()
            state = {
                "model": {f"blocks.{number}.scale": one.detach() for number, one in enumerate(scales)},
                "optimizer": optimizer.state_dict(),
            }
            made = repo.commit(state, step_size=0.1, moments="auto")
        assert made.stored_bytes < 100 * 4 * count  # of a leaf two ids are 64 bytes
        exact, restored = repo.checkout(exact=True), repo.checkout()
    assert compared(state["optimizer"]["state"], exact["optimizer"]["state"])[0] == set()
    assert compared(state["optimizer"]["state"], restored["optimizer"]["state"])[0] == ADAM
    off = [(restored["model"][name] - one).abs().max() for name, one in state["model"].items()]
    assert 0 < max(off) <= 0.75 / 128 * 4


@pytest.mark.parametrize("moments", ["resume", "light", "auto"])
def test_parameters_that_come_late_and_vanish(tmp_path, moments):
    model = net()
    first, last = model[0], model[2]
    optimizer = AdamW(last.parameters(), betas=(0.9, 0.95))
    for one in first.parameters():
        one.requires_grad_(False)
    options = {"every": 1, "step_size": 0.05, "moments": moments, "extra": {"none": 0}}
    with (
        Repository.init(tmp_path / "run") as repo,
        Checkpointer(repo, model, optimizer, **options) as checkpointer,
    ):
        for step in range(6):
            if step == 2:
                optimizer.add_param_group({"params": list(first.parameters())})
                for one in first.parameters():
                    one.requires_grad_(True)
            if step == 4:
                optimizer.state.pop(last.weight)
                optimizer.param_groups[0]["params"] = [last.bias]
            train(model, optimizer, range(step, step + 1))
            checkpointer.after_step(step)
        checkpointer.flush()
        assert checkpointer.failures == []
        found = [len(repo.checkout(f"step:{step}")["optimizer"]["state"]) for step in range(6)]
        assert found == [2, 2, 4, 4, 3, 3]
        exact = repo.checkout(exact=True)["optimizer"]["state"]
        restored = repo.checkout()["optimizer"]["state"]
    assert compared(exact, restored)[0] == ADAM
    optimizer.load_state_dict({**optimizer.state_dict(), "state": restored})
    assert all(map(math.isfinite, train(model, optimizer, range(6, 9))))


def test_settings_of_a_run_on_a_device(tmp_path):
    model = net()
    optimizer = AdamW(model.parameters(), lr=torch.tensor(1e-2), betas=(0.9, 0.95))
    train(model, optimizer, range(3))
    state = state_of(model, optimizer)
    # Only a device takes this switch. What it changes of a state: the counter and the rate are tensors.
    state["optimizer"]["param_groups"][0].update(capturable=True)
    with Repository.init(tmp_path / "run") as repo:
        made = repo.commit(state, step_size=0.05, moments="auto")
        assert (repo.show().quantizer["first"], made.notes) == ("carried", [])
        assert repo.show().provenance["optimizer"] == "AdamW betas=0.9,0.95"


def test_settings_that_change_within_a_run_are_followed(tmp_path):
    model = net()
    optimizer = AdamW(model.parameters(), betas=(0.9, 0.95))
    found = []
    with Repository.init(tmp_path / "run") as repo:
        for step, betas in enumerate([(0.9, 0.95), (0.9, 1.0), (0.9, math.nan), (0.9, 0.999), (0.9, 0.95)]):
            train(model, optimizer, range(step, step + 1))
            optimizer.param_groups[0]["betas"] = betas
            made = repo.commit(state_of(model, optimizer), step_size=0.05, moments="auto")
            found.append((repo.show().quantizer["first"], len(made.notes)))
            optimizer.param_groups[0]["betas"] = (0.9, 0.95)
    assert found == [("carried", 0), ("exact", 1), ("exact", 1), ("carried", 0), ("carried", 0)]
