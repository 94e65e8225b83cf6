"""Low-precision copies are found by their bits, not by their names."""

import torch

from mvcs.checkpoint.state.state import capture_state
from mvcs.commits.plan.anatomy import masters


def found(state):
    leaves = capture_state(state).leaves
    return {
        ".".join(map(str, leaves[one].path)): ".".join(map(str, leaves[two].path))
        for one, two in masters(leaves).items()
    }


def test_copies_of_both_16_bit_types():
    master = {"a.weight": torch.randn(300, 50), "b.weight": torch.randn(300, 50)}
    copies = {name: value.bfloat16() for name, value in master.items()}
    halves = {name: value.half() for name, value in master.items()}

    assert found({"master": master, "model": copies, "half": halves}) == {
        "model.a.weight": "master.a.weight",
        "model.b.weight": "master.b.weight",
        "half.a.weight": "master.a.weight",
        "half.b.weight": "master.b.weight",
    }


def test_one_other_bit_at_the_end_is_no_copy():
    master = torch.randn(100, 100)
    copy = master.bfloat16()
    copy[-1, -1] += 1

    assert found({"master": master, "copy": copy}) == {}


def test_other_shapes_and_types_are_no_copies():
    master = torch.ones(4, 6)

    assert found({"master": master, "a": master.bfloat16().reshape(6, 4), "b": master.double()}) == {}


def test_an_empty_tensor_is_no_copy():
    assert found({"master": torch.zeros(0, 4), "copy": torch.zeros(0, 4, dtype=torch.bfloat16)}) == {}
