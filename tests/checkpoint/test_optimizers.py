"""Which weight each parameter of an optimizer is, and what its group says of it."""

import numpy as np
import pytest
import torch

from mvcs.checkpoint.optimizers import optimizer_parameters
from mvcs.checkpoint.roles import roles_of
from mvcs.checkpoint.state.state import capture_state
from mvcs.quantize.next_update import update_rule


def found(state):
    captured = capture_state(state)
    names = [".".join(map(str, leaf.path)) for leaf in captured.leaves]
    return {
        one.key: None if one.weight is None else names[one.weight]
        for one in optimizer_parameters(captured, roles_of(captured))
    }


def handed_over(model, optimizer):
    model(torch.randn(4, 3, 8, 8)).square().mean().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Conv2d(4, 4, 3), torch.nn.BatchNorm2d(4)
    )


def test_parameters_of_one_shape_are_the_weights_of_that_shape_in_order():
    model = network()
    state = handed_over(model, torch.optim.AdamW(model.parameters()))
    names = dict(enumerate(name for name, _ in model.named_parameters()))
    assert found(state) == {number: f"model.{name}" for number, name in names.items()}


def test_groups_by_dimension_are_matched_too():
    model = network()
    wide = [one for one in model.parameters() if one.dim() > 1]
    flat = [one for one in model.parameters() if one.dim() == 1]
    state = handed_over(model, torch.optim.AdamW([{"params": flat, "weight_decay": 0}, {"params": wide}]))
    matched = found(state)
    assert [matched[number] for number in (0, len(flat), len(flat) + 1)] == [
        "model.0.bias",
        "model.0.weight",
        "model.2.weight",
    ]


def test_what_is_not_clear_is_not_guessed():
    model = network()
    first, *rest = (one for one in model.parameters() if one.dim() == 1)
    wide = [one for one in model.parameters() if one.dim() > 1]
    state = handed_over(model, torch.optim.AdamW([{"params": [first, *wide]}, {"params": rest}]))
    matched = found(state)
    assert matched[0] is None
    assert matched[1] == "model.0.weight"


def test_names_are_taken_as_they_are():
    state = {
        "model": {"a.weight": torch.zeros(3, 3), "b.weight": torch.zeros(3, 3)},
        "optimizer": {
            "state": {"b.weight": {"exp_avg": torch.zeros(3, 3), "step": 5}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": ["a.weight", "b.weight"]}],
        },
    }
    captured = capture_state(state)
    (only,) = optimizer_parameters(captured, roles_of(captured))
    assert (only.key, only.step, only.settings["betas"]) == ("b.weight", 5.0, (0.9, 0.99))
    assert captured.leaves[only.weight].path == ("model", "b.weight")


def test_an_average_of_the_weights_beside_the_model_does_not_hide_it():
    model = network()
    state = handed_over(model, torch.optim.AdamW(model.parameters()))
    average = {name: value.clone() for name, value in state["model"].items()}
    assert found({"average": average, **state}) == found(state)
    other = {"net": state["model"], "optimizer": state["optimizer"]}
    assert set(found({"average": average, **other}).values()) == {None}


def test_two_optimizers_find_their_own_networks_and_twins_are_not_guessed():
    first, second = network(), torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    one, two = (handed_over(net, torch.optim.AdamW(net.parameters())) for net in (first, second))
    state = {"D": one["model"], "G": two["model"], "opt_G": two["optimizer"], "opt_D": one["optimizer"]}
    captured = capture_state(state)
    owners = {
        (one.group[0], captured.leaves[one.weight].path[0])
        for one in optimizer_parameters(captured, roles_of(captured))
        if one.weight is not None
    }
    assert owners == {(0, "G"), (1, "D")}
    twins = {"D": one["model"], "G": one["model"], "opt_G": one["optimizer"], "opt_D": one["optimizer"]}
    copied = {
        name: {key: torch.as_tensor(value).clone() for key, value in twins[name].items()} for name in "DG"
    }
    assert set(found({**twins, **copied}).values()) == {None}


def test_a_wrapper_and_what_it_wraps_have_the_same_weights():
    model = network()
    state = handed_over(model, torch.optim.AdamW(model.parameters()))
    held = state["optimizer"]
    old = {key: {"old": torch.ones_like(value["exp_avg"])} for key, value in held["state"].items()}
    state["optimizer"] = {"state": old, "param_groups": held["param_groups"], "bases": [held]}
    captured = capture_state(state)
    pairs = {
        (*one.leaves, captured.leaves[one.weight].path[1])
        for one in optimizer_parameters(captured, roles_of(captured))
        if one.weight is not None
    }
    names = dict(model.named_parameters())
    assert pairs == {(*kept, name) for kept in (("old",), ("exp_avg", "exp_avg_sq")) for name in names}


def test_an_optimizer_inside_of_a_models_state_is_not_looked_at():
    model = network()
    optimizer = handed_over(model, torch.optim.AdamW(model.parameters()))["optimizer"]
    assert found({"model": {"inner": optimizer}}) == {}
    assert len(found({"other": {"inner": optimizer}})) == 8


def tensor_of(dtype):
    return lambda value: torch.tensor(value, dtype=dtype)


@pytest.mark.parametrize(
    "number",
    [
        float,
        np.float64,
        np.float32,
        np.float16,
        np.array,
        torch.tensor,
        tensor_of(torch.float64),
        tensor_of(torch.float16),
        tensor_of(torch.bfloat16),
        lambda value: torch.tensor([[value]]),
        lambda value: np.array([value], ">f8"),
    ],
)
def test_numbers_are_numbers_whatever_their_type(number):
    model = network()
    state = handed_over(model, torch.optim.AdamW(model.parameters(), lr=0.125))
    [group] = state["optimizer"]["param_groups"]
    state["optimizer"]["param_groups"] = [
        {**group, "lr": number(0.125), "betas": (number(0.5), number(0.75))}
    ]
    for kept in state["optimizer"]["state"].values():
        kept["step"] = number(3.0)
    captured = capture_state(state)
    one, *_ = optimizer_parameters(captured, roles_of(captured))
    rule = update_rule(one.settings, one.step)
    assert (rule.rate, rule.betas, rule.step) == (0.125, (0.5, 0.75), 3)


@pytest.mark.parametrize("number", [int, np.int8, np.uint64, np.int16, torch.tensor, tensor_of(torch.uint8)])
def test_steps_are_whole_numbers_of_any_type(number):
    model = network()
    state = handed_over(model, torch.optim.AdamW(model.parameters()))
    for kept in state["optimizer"]["state"].values():
        kept["step"] = number(3)
    captured = capture_state(state)
    assert {one.step for one in optimizer_parameters(captured, roles_of(captured))} == {3.0}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, True),
        (np.bool_(True), True),
        (torch.tensor(True), True),
        (torch.tensor(-0.0078125, dtype=torch.bfloat16), -0.0078125),
        (torch.tensor(2.5).to(torch.float8_e4m3fn), None),
        (torch.tensor(1j), None),
        (torch.zeros(2), None),
        (torch.zeros(0), None),
        (None, None),
    ],
)
def test_settings_are_plain_values(value, number):
    model = network()
    state = handed_over(model, torch.optim.AdamW(model.parameters()))
    state["optimizer"]["param_groups"][0]["lr"] = value
    captured = capture_state(state)
    one, *_ = optimizer_parameters(captured, roles_of(captured))
    assert one.settings["lr"] == number


def test_a_step_that_no_float_can_hold_is_not_known():
    model = network()
    state = handed_over(model, torch.optim.AdamW(model.parameters()))
    for kept in state["optimizer"]["state"].values():
        kept["step"] = 10**400
    captured = capture_state(state)
    assert {one.step for one in optimizer_parameters(captured, roles_of(captured))} == {None}


def test_odd_optimizers_are_passed_over():
    odd = {"state": {0: {"exp_avg": torch.zeros(3)}, 1: torch.zeros(2), 2: None}, "param_groups": [None, 3]}
    more = {"state": [torch.zeros(3)], "param_groups": [{"params": "all"}]}
    assert found({"optimizer": odd, "other": [more, {"state": {}, "param_groups": {}}]}) == {}
