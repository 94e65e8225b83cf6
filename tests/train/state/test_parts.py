"""What a run may be made of, and what is said of what it may not."""

import random
from collections import defaultdict, deque
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mvcs.checkpoint import capture_state, rebuild_state, torch_tensor
from mvcs.errors import StateError, UsageError
from mvcs.train.callbacks import HandedModel
from mvcs.train.state.host_copies import HostBuffers
from mvcs.train.state.parts import Parts


def test_several_optimizers_in_one_place_are_told_where_they_go() -> None:
    model = nn.Linear(2, 2)
    both = [torch.optim.SGD([model.weight]), torch.optim.AdamW([model.bias])]
    with pytest.raises(UsageError, match="the optimizer is a 'list'") as caught:
        Parts({"model": model, "optimizer": both}, use_rng=False)
    assert "extra={'second': ...}" in str(caught.value.hint)
    parts = Parts({"model": model, "optimizer": both[0]}, {"second": both[1]}, use_rng=False)
    assert parts.extra == {"second": both[1]}


@pytest.mark.parametrize("part", [[], [1], "sgd", 3])
def test_what_has_no_state_is_refused_with_what_to_do(part: object) -> None:
    with pytest.raises(UsageError) as caught:
        Parts({"optimizer": part}, use_rng=False)
    assert "wrap it in a class" in str(caught.value.hint)


def resumed(extra: dict[str, object], here: dict[str, object]) -> dict[str, object]:
    """Commit parts, go on with others of the same names, and return those."""
    state = HostBuffers().copy(Parts({}, extra, use_rng=False).gather(0))
    captured = capture_state(state)

    def leaf(index: int) -> torch.Tensor:
        found = captured.leaves[index]
        return torch_tensor(found.dtype, found.shape, found.source.read())

    parts = Parts({}, here, use_rng=False)
    parts.load(rebuild_state(captured.root, leaf, lambda name, _: captured.blobs[name].read()), "it")
    return parts.extra


def test_generators_of_random_numbers_stay_the_ones_that_others_draw_from() -> None:
    before = [np.random.default_rng(1), np.random.RandomState(2), random.Random(3)]
    here = [np.random.default_rng(0), np.random.RandomState(0), random.Random(0)]
    for generator in before:
        generator.normalvariate(0, 1) if isinstance(generator, random.Random) else generator.normal()
    found = resumed({"one": before[0], "more": before[1:]}, {"one": here[0], "more": here[1:]})
    assert found["one"] is here[0]
    assert found["more"] == here[1:]
    assert [one.random() for one in here] == [one.random() for one in before]


def test_a_generator_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="it is a 'PCG64' there and a 'Philox' here"):
        resumed({"draws": np.random.default_rng(1)}, {"draws": np.random.Generator(np.random.Philox(1))})


def test_a_moment_that_changes_its_strides_between_copies_is_copied_with_them() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    parts, buffers = Parts({"model": model, "optimizer": optimizer}, None, use_rng=False), HostBuffers()
    moment = optimizer.state[model.weight]["exp_avg"]
    there = []
    for laid in (moment.clone(), moment.t().contiguous().t(), moment.clone()):
        moment.data = laid
        copied: Any = parts.copied(0, buffers)
        there.append(copied["optimizer_parameters"]["optimizer"]["strides"])
    parts.close()
    assert there == [[], [[["state", 0, "exp_avg"], [1, 2]]], []]


def test_a_queue_that_goes_on_changing_is_committed_as_it_was() -> None:
    queue = deque([torch.ones(2)], maxlen=3)
    state = HostBuffers().copy({"queue": queue, "sums": defaultdict(list, {"a": [1]})})
    queue[0].zero_(), queue.append(1)
    assert repr(state) == (
        "{'queue': deque([tensor([1., 1.])], maxlen=3), 'sums': defaultdict(<class 'list'>, {'a': [1]})}"
    )


class Marked(torch.Tensor):
    """A tensor of a subclass."""


class Held:
    """A part with a state."""

    def __init__(self, state: object) -> None:
        self.state = state

    def state_dict(self) -> dict[str, object]:
        return {"held": [self.state]}

    def load_state_dict(self, _state: dict[str, object]) -> None:
        """Take nothing."""


@pytest.mark.parametrize(
    ("named", "extra", "said"),
    [
        (
            {"model": Held(torch.ones(2).as_subclass(Marked))},
            {},
            "model.held.0: a tensor of the subclass",
        ),
        ({"scheduler": Held(print)}, {}, "scheduler.held.0: a 'builtin_function_or_method'"),
        ({}, {"average": Held(torch.eye(2).to_sparse())}, "extra.average.held.0: a sparse_coo tensor"),
        ({}, {"loops": [{"odd": object()}]}, "extra.loops.0.odd: a 'object'"),
    ],
)
def test_what_no_commit_can_hold_is_refused_before_the_first_step(
    named: dict[str, object], extra: dict[str, object], said: str
) -> None:
    with pytest.raises(StateError, match=said):
        Parts(named, extra, use_rng=False)


class Packed(nn.Linear):
    """Adds to its state what it does not take back, as layers of 4 bits do."""

    def _save_to_state_dict(self, destination: dict[str, object], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight.absmax"] = torch.ones(1)


class Dropping(nn.Module):
    """Leaves a part of itself out of its state."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.head = nn.Linear(2, 2), nn.Linear(2, 1)
        self.register_state_dict_post_hook(self._drop)

    @staticmethod
    def _drop(_module: nn.Module, state: dict[str, object], prefix: str, _metadata: object) -> None:
        del state[f"{prefix}base.weight"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            nn.Sequential(nn.ReLU(), Packed(2, 2)),
            "model cannot load its own.*nothing takes '1.weight.absmax'",
        ),
        (Dropping(), "model cannot load its own state.*'base.weight' is missing"),
    ],
)
def test_a_model_that_cannot_load_its_own_state_is_refused(model: nn.Module, said: str) -> None:
    with pytest.raises(RuntimeError):
        model.load_state_dict(model.state_dict())
    with pytest.raises(UsageError, match=said):
        Parts({"model": model}, use_rng=False)


class Extra(nn.Module):
    """Has a state of its own, and buffers that are in none."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scratch", torch.ones(1), persistent=False)
        self.register_buffer("none", None)

    def get_extra_state(self) -> dict[str, int]:
        return {"calls": 1}

    def set_extra_state(self, _state: object) -> None:
        raise AssertionError("nothing is loaded")


class Renamed(Packed):
    """Takes what it gives."""

    def _load_from_state_dict(self, state: dict[str, object], prefix: str, *rest: object) -> None:
        super()._load_from_state_dict(state, prefix, *rest)
        rest[3].remove(f"{prefix}weight.absmax")


def shared() -> nn.Module:
    first = nn.Linear(2, 2)
    second = nn.Linear(2, 2)
    second.weight = first.weight
    return nn.ModuleDict({"a": first, "b": second, "again": first})


@pytest.mark.parametrize(
    "model",
    [
        shared(),
        Extra(),
        nn.Sequential(Renamed(2, 2), nn.Linear(2, 2)),
        nn.LSTM(2, 2, 2),
        nn.TransformerEncoderLayer(4, 2),
        nn.BatchNorm1d(2),
        nn.LazyLinear(3),
        nn.Linear(2, 2, device="meta"),
        nn.Linear(2, 2, bias=False),
        torch.nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        torch.nn.utils.parametrizations.orthogonal(nn.Linear(2, 2)),
        torch.nn.utils.spectral_norm(nn.Linear(2, 2)),
        torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_that_can_resume_is_taken(model: nn.Module) -> None:
    assert Parts({"model": model}, {"average": model}, use_rng=False).extra == {"average": model}


def test_a_part_that_a_framework_makes_later_is_not_asked() -> None:
    later = HandedModel(lambda: {"odd": print}, print, lambda: nn.Linear(1, 1))
    Parts({"model": later}, use_rng=False)
