"""Copies of whatever states there may be, one after the other into the same memory, however they change."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mvcs.checkpoint.state.state import capture_state
from mvcs.objects.chunk_grid import DTYPES
from mvcs.train.state.host_copies import HostBuffers

# Some of what is copied here is new in torch.
pytestmark = pytest.mark.filterwarnings(
    "ignore:ComplexHalf support", "ignore:The PyTorch API of nested tensors"
)

STORED = [getattr(torch, name) for name in DTYPES if hasattr(torch, name)]
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "itself": lambda tensor: tensor,
    "detached": lambda tensor: tensor.detach(),
    "transposed": lambda tensor: tensor.t(),
    "every other row": lambda tensor: tensor[::2],
    "a column": lambda tensor: tensor[:, 1],
    "no rows": lambda tensor: tensor[:0],
    "one value": lambda tensor: tensor[0, 0],
    "repeated": lambda tensor: tensor[:1].expand(3, -1),
    "channels last": lambda tensor: tensor.reshape(2, 2, 3, 2).to(memory_format=torch.channels_last),
    "conjugate": lambda tensor: tensor.conj(),
    "negated": lambda tensor: tensor.conj().imag if tensor.dtype in COMPLEX else tensor,
    "with a gradient": lambda tensor: tensor.detach().requires_grad_(tensor.is_floating_point()),
    "a parameter": lambda tensor: torch.nn.Parameter(tensor.detach(), requires_grad=False),
}


def base(dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randint(0, 256, (4, 6 * torch.empty((), dtype=dtype).element_size()), generator=generator)
    raw = raw.to(torch.uint8)
    return (raw % 2).view(dtype) if dtype is torch.bool else raw.view(dtype)


@dataclass(frozen=True)
class Slot:
    """Where a state has a tensor: which one, and what of it."""

    tensor: int
    view: str


# Few of them, so that states hold one tensor several times, and views of one memory.
bases = st.builds(base, st.sampled_from(STORED), st.integers(0, 1))
pools = st.lists(bases, min_size=1, max_size=3)
slots = st.builds(Slot, st.integers(0, 2), st.sampled_from(sorted(VIEWS)))
fixed = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=3)
arrays = st.builds(np.arange, st.integers(0, 3))
keys = st.text("abc", max_size=2) | st.integers(0, 3)
within = st.recursive(
    slots | fixed | arrays,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4).map(OrderedDict)
    ),
    max_leaves=12,
)


def filled(value: object, pool: list[torch.Tensor]) -> object:
    if isinstance(value, Slot):
        return VIEWS[value.view](pool[value.tensor % len(pool)])
    if isinstance(value, dict):
        return type(value)((key, filled(item, pool)) for key, item in value.items())
    return type(value)(filled(item, pool) for item in value) if isinstance(value, (list, tuple)) else value


# What makes tensors is built once: hypothesis would print each that a strategy is made of.
several = st.tuples(within, st.lists(slots, max_size=3)).map(lambda parts: [parts[0], *parts[1]])
states = st.builds(filled, several, pools)


def contents(state: object) -> tuple[object, list[bytes]]:
    captured = capture_state(state)
    return captured.root, [leaf.source.read().tobytes() for leaf in captured.leaves]


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def kinds(value: object) -> list[object]:
    return [(type(found), found.requires_grad) for found in tensors_in(value)]


def equal_pairs(state: object) -> set[tuple[int, int]]:
    """Return which tensors are one tensor under two names."""
    found = [
        (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.is_conj(), tensor.is_neg())
        if tensor.numel()
        else id(tensor)
        for tensor in tensors_in(state)
    ]
    return {(i, j) for i in range(len(found)) for j in range(i) if found[i] == found[j]}


def overwrite(state: object) -> None:
    """Do to all tensors what an optimizer may do."""
    with torch.no_grad():
        for tensor in tensors_in(state):
            if tensor.numel() and 0 not in tensor.stride():
                tensor.untyped_storage().fill_(1)


@settings(max_examples=150, deadline=None)
@given(st.lists(states, min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=4))
def test_any_state_after_any_other(made: list[object], again: list[int]) -> None:
    buffers = HostBuffers()
    for state in [*made, *(made[index % len(made)] for index in again)]:
        expected = contents(state)
        copied = buffers.copy(state)
        assert contents(copied) == expected
        assert kinds(copied) == kinds(state)
        assert equal_pairs(copied) >= equal_pairs(state)
        pointers = {tensor.data_ptr() for tensor in tensors_in(copied) if tensor.numel()}
        assert pointers.isdisjoint(tensor.data_ptr() for tensor in tensors_in(state))


@settings(max_examples=100, deadline=None)
@given(states, states)
def test_nothing_done_to_the_live_tensors_is_seen(first: object, second: object) -> None:
    buffers = HostBuffers()
    for state in (first, second, first):
        expected = contents(state)
        copied = buffers.copy(state)
        overwrite(state)
        assert contents(copied) == expected


CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "another shape": lambda tensor: tensor.resize_(2, 6),
    "fewer elements": lambda tensor: tensor.resize_(2, 2),
    "other strides": lambda tensor: tensor.t_(),
    "other memory": lambda tensor: setattr(tensor, "data", torch.arange(12.0).view(3, 4) + 5),
    "strided memory": lambda tensor: setattr(tensor, "data", torch.arange(48.0).view(12, 4)[::4]),
    "another type": lambda tensor: setattr(tensor, "data", torch.arange(12).view(3, 4)),
    "it takes gradients": lambda tensor: tensor.requires_grad_(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_same_tensor_changes_what_it_is(change: str, place: int) -> None:
    buffers = HostBuffers()
    state = [torch.randn(3, 4) for _ in range(3)]
    buffers.copy(state)
    CHANGES[change](state[place])
    copied = buffers.copy(state)
    assert contents(copied) == contents(state)
    assert kinds(copied) == kinds(state)


def test_ties_come_and_go() -> None:
    buffers = HostBuffers()
    first, second = torch.randn(3), torch.randn(3)
    for state in ([first, second], [first, first], [second, first], [second, second, first], [first, second]):
        copied = buffers.copy(state)
        assert contents(copied) == contents(state)
        assert equal_pairs(copied) == equal_pairs(state)


def test_weights_alone_between_whole_states() -> None:
    buffers = HostBuffers()
    weights = {"a": torch.randn(5, 5), "b": torch.randn(5)}
    moments = {"a": torch.randn(5, 5), "b": torch.randn(5)}
    for state in ({"w": weights, "m": moments}, {"w": weights}, {"w": weights, "m": moments}):
        copied = buffers.copy(state)
        assert contents(copied) == contents(state)
        places = [tensor.data_ptr() for tensor in tensors_in(copied["w"])]
        assert places == [tensor.data_ptr() for tensor in tensors_in(buffers.copy(state)["w"])]


def test_a_tensor_that_no_commit_can_hold_among_others() -> None:
    buffers = HostBuffers()
    sparse = torch.eye(2).to_sparse()
    ragged = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])
    plain = torch.randn(3)
    for state in ([plain, sparse, plain], [sparse, ragged, plain], [plain, plain, plain], [ragged, plain]):
        for _ in range(2):
            copied = buffers.copy(state)
            for live, copy in zip(state, copied, strict=True):
                assert torch.equal(copy, live) and copy is not live if live is plain else copy is live
