"""Settings that no run can have are told apart from those that are merely unusual."""

import math

import pytest

from mvcs.quantize import implausible_setting


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", math.nan),
        ("lr", math.inf),
        ("lr", -1.0),
        ("eps", -1e-8),
        ("eps", (1e-30, math.nan)),
        ("betas", (0.9, 1.0)),
        ("betas", (1.5, 0.9)),
        ("betas", (-0.1, 0.9)),
        ("betas", (0.9, math.nan)),
        ("momentum", 1.0),
        ("alpha", 1.0),
        ("rho", 2),
        ("weight_decay", math.inf),
    ],
)
def test_lies_are_named(name, value):
    assert implausible_setting({name: value}) == f"{name}={value}"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("lr", 10**400, "lr=10^400"),
        ("lr", -(10**400), "lr=-10^400"),
        ("lr", 10**5000, "lr=10^5000"),
        ("betas", (0.9, 10**400), "betas=(0.9, 10^400)"),
    ],
    ids=["large", "negative", "beyond what Python writes out", "in a pair"],
)
def test_an_integer_of_many_digits_is_told_in_short(name, value, told):
    assert implausible_setting({name: value}) == told


@pytest.mark.parametrize("betas", [None, "0.9,0.99", (0.9,), (0.9, 0.99, 0.999), 0.9, (0.9, None), ()])
def test_betas_that_cannot_be_read_as_two_numbers(betas):
    settings = {"lr": 0.1, "betas": betas}
    assert implausible_setting(settings, needed=settings.keys()) == "betas that are not two numbers"
    assert implausible_setting(settings, needed={"lr"}) is None


@pytest.mark.parametrize("name", ["lr", "eps", "weight_decay", "dampening", "momentum", "alpha", "rho"])
@pytest.mark.parametrize("value", [None, "0.1", (0.1, 0.2), ()])
def test_what_cannot_be_read_as_a_number(name, value):
    assert implausible_setting({name: value}, needed={name}) == f"{name} that is not one number"


def test_what_has_to_be_no_number_may_be_anything():
    settings = {"amsgrad": None, "foreach": "odd", "etas": (0.5, 1.2)}
    assert implausible_setting(settings, needed=settings.keys()) is None


@pytest.mark.parametrize("step", [-1.0, math.nan, math.inf])
def test_step_counters_that_lie(step):
    assert implausible_setting({"lr": 0.1}, step) == f"step={step}"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lr": 0, "betas": (0, 0.999), "eps": 0.0},
        {"lr": None, "eps": (None, 1e-3), "betas": "odd", "momentum": None},
        {"betas": (0.9, 0.99999, 0.5), "loss_scale": math.inf, "lr_max": -1},
    ],
)
def test_what_runs_have_passes(settings):
    assert implausible_setting(settings) is None
    assert implausible_setting(settings, 0.0) is None
