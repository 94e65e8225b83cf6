"""The copy of a state: equal, apart from the live one, tied where the live one is, in memory used again."""

from collections import Counter, OrderedDict

import numpy as np
import pytest
import torch

from mvcs.checkpoint.state.state import capture_state
from mvcs.errors import StateError
from mvcs.objects.chunk_grid import DTYPES
from mvcs.train.state.host_copies import HostBuffers, bits_of

STORED = [getattr(torch, name) for name in DTYPES if hasattr(torch, name)]


def contents(state: object) -> tuple[object, list[bytes]]:
    captured = capture_state(state)
    return captured.root, [leaf.source.read().tobytes() for leaf in captured.leaves]


def training_state() -> dict[str, object]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "numbers": [1, 2.5, None, True, "text", b"bytes", 1 + 2j],
        "arrays": (np.arange(4), np.float32(3), bytearray(b"ab")),
        "sets": [{1, 2}, frozenset({3}), Counter("aab")],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "kinds": [torch.float16, torch.Size([1, 2])],
    }


def test_a_copy_equals_the_state() -> None:
    state = training_state()
    assert contents(HostBuffers().copy(state)) == contents(state)


def test_what_the_optimizer_does_next_is_not_seen() -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    live = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    expected = contents(live)
    copied = HostBuffers().copy(live)
    optimizer.step()
    assert contents(live) != expected
    assert contents(copied) == expected


def test_containers_and_arrays_are_not_the_live_ones() -> None:
    state = {"list": [1], "dict": {"a": 1}, "array": np.zeros(2), "bytes": bytearray(b"a"), "set": {1}}
    copied = HostBuffers().copy(state)
    expected = contents(copied)
    state["list"].append(2)
    state["dict"]["b"] = 2
    state["array"][:] = 7
    state["bytes"].append(1)
    state["set"].add(5)
    assert contents(copied) == expected


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_every_bit_of_every_type(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    raw = torch.randint(0, 256, (24, 16), dtype=torch.uint8, generator=generator)
    tensor = (raw % 2).view(dtype) if dtype is torch.bool else raw.view(dtype)
    state = [tensor, tensor.t(), tensor[::2]]
    assert contents(HostBuffers().copy(state)) == contents(state)


def test_views_conjugates_and_odd_shapes() -> None:
    base = torch.randn(6, 4, dtype=torch.complex64)
    state = [
        base.t(),
        base[::2],
        base.conj(),
        base.imag,
        torch.tensor(3.0),
        torch.empty(0, 5),
        torch.empty(0),
    ]
    assert contents(HostBuffers().copy(state)) == contents(state)


def test_tied_tensors_stay_tied() -> None:
    shared = torch.nn.Parameter(torch.randn(3, 3))
    array = np.arange(3)
    state = {
        "a": shared,
        "b": shared,
        "detached": shared.detach(),
        "x": array,
        "y": array,
        "other": torch.randn(3),
    }
    copied = HostBuffers().copy(state)
    assert contents(copied) == contents(state)
    assert copied["a"].data_ptr() == copied["detached"].data_ptr() != shared.data_ptr()
    assert copied["x"] is copied["y"]
    assert type(copied["a"]) is torch.nn.Parameter
    assert copied["a"].requires_grad
    assert not copied["detached"].requires_grad


def test_a_module_with_tied_weights() -> None:
    model = torch.nn.ModuleDict({"in": torch.nn.Embedding(5, 3), "out": torch.nn.Linear(3, 5, bias=False)})
    model["out"].weight = model["in"].weight
    copied = HostBuffers().copy(model.state_dict())
    assert type(copied) is OrderedDict
    assert copied._metadata == model.state_dict()._metadata
    assert len(capture_state(copied).leaves) == 1


def test_host_memory_is_used_again() -> None:
    buffers = HostBuffers()
    state = {"a": torch.randn(100), "b": torch.randn(10, 10)}
    first = buffers.copy(state)
    held = buffers.nbytes
    places = [first["a"].data_ptr(), first["b"].data_ptr()]
    state["a"].add_(1)
    second = buffers.copy(state)
    assert [second["a"].data_ptr(), second["b"].data_ptr()] == places
    assert buffers.nbytes == held == 800
    assert contents(second) == contents(state)


def test_memory_follows_a_state_that_changes_its_shape() -> None:
    buffers = HostBuffers()
    buffers.copy([torch.randn(50), torch.randn(50), torch.randn(50)])
    changed = [torch.randn(50), torch.randn(7)]
    assert contents(buffers.copy(changed)) == contents(changed)
    assert buffers.nbytes == 4 * 57


@pytest.mark.parametrize(
    "value", [lambda: 0, torch.eye(2).to_sparse(), torch.empty(2, device="meta"), object()]
)
def test_what_no_commit_can_hold_is_left_for_the_commit_to_refuse(value: object) -> None:
    copied = HostBuffers().copy({"part": [value]})
    assert copied["part"][0] is value
    with pytest.raises(StateError, match="part"):
        capture_state(copied)


def test_a_state_that_contains_itself_is_refused_not_followed_forever() -> None:
    state: list[object] = []
    state.append(state)
    with pytest.raises(StateError):
        capture_state(HostBuffers().copy(state))


def test_a_single_element_of_any_stride_has_its_bytes() -> None:
    element = torch.arange(8, dtype=torch.float32)[5::2][:1]
    assert element.stride() == (2,)
    assert bytes(bits_of(element).tolist()) == element.numpy().tobytes()
