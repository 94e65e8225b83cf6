"""What a run may be made of, and what is said of what it may not."""

import random
from collections import defaultdict, deque

import numpy as np
import pytest
import torch
from torch import nn

from mvcs.checkpoint import capture_state, rebuild_state, torch_tensor
from mvcs.errors import UsageError
from mvcs.train.state.parts import Parts
from mvcs.train.state.snapshot import HostBuffers


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


def test_a_queue_that_goes_on_changing_is_committed_as_it_was() -> None:
    queue = deque([torch.ones(2)], maxlen=3)
    state = HostBuffers().copy({"queue": queue, "sums": defaultdict(list, {"a": [1]})})
    queue[0].zero_(), queue.append(1)
    assert repr(state) == (
        "{'queue': deque([tensor([1., 1.])], maxlen=3), 'sums': defaultdict(<class 'list'>, {'a': [1]})}"
    )
