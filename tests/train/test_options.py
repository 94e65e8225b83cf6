"""Every option refuses what it cannot be, and says which option, what it was given, and what it takes."""

import logging
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.train import Checkpointer
from tests.train.evaluations import number

MODEL = nn.Linear(3, 2)
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), 0.1)
NO_NUMBERS = ("x", "0.5", math.nan, True, [], {}, 1j)
NO_FLOATS = (*NO_NUMBERS, -1)
NO_COUNTS = (*NO_NUMBERS, -1, 0, 1.5, math.inf)
NO_WORDS = ("x", 1, 0.5, True, [], {}, np.array([1, 2]))
NO_FUNCTIONS = ("x", 1, 0.5, True, {})

TABLE = {
    ("extra",): (1, "x", False, [], [1], {1: 2}),
    ("every",): NO_COUNTS,
    ("weights_every",): NO_COUNTS,
    ("seconds",): (*NO_FLOATS, 0, math.inf),
    ("overhead",): (*NO_FLOATS, 0, 2, math.inf),
    ("queue",): NO_COUNTS,
    ("on_full",): NO_WORDS,
    ("branch",): (1, 0.5, True, [], {}, "my run", "step:3", "HEAD", ""),
    ("message",): NO_FUNCTIONS,
    ("on_commit",): (*NO_FUNCTIONS, ["x"]),
    ("clock",): NO_FUNCTIONS,
    ("rng",): ("no", 0, 1, []),
    ("final",): ("no", 0, 1, []),
    ("step_size",): (*NO_FLOATS, 0, 17, math.inf),
    ("hysteresis", "step_size"): (*NO_FLOATS, 0.6, math.inf),
    ("share", "step_size"): NO_WORDS,
    ("moments", "step_size"): NO_WORDS,
    ("bins",): (*NO_COUNTS, 1, 254),
    ("prune", "bins"): (*NO_FLOATS, 1),
    ("protect", "bins"): (*NO_FLOATS, 0.5),
    ("sigma", "bins"): (*NO_FLOATS, 1.5),
    ("metric", "bins"): NO_WORDS,
    ("quantizer",): ("x", 1, 0.5, True, [], {}),
    ("evaluate",): NO_FUNCTIONS,
    ("measure", "evaluate"): ("x", 1, 0.5, True, ["x"], {"extra.ema": "no"}),
    ("method", "evaluate"): NO_WORDS,
    ("max_degradation", "evaluate"): (*NO_FLOATS, "1%", math.inf, 1, 5.0),
    ("goal", "evaluate"): NO_WORDS,
    ("search_batches", "evaluate"): NO_COUNTS,
    ("search_evaluations", "evaluate"): NO_COUNTS,
    ("search_mean", "evaluate"): (*NO_FLOATS, 0.5),
    ("search_settings", "evaluate"): ("x", 1, 0.5, True, [], {}),
    ("search_seconds", "evaluate"): (*NO_FLOATS, 0),
    ("replica", "evaluate"): NO_FUNCTIONS,
    ("on_evaluation_failure", "evaluate"): NO_WORDS,
}
BESIDE = {"step_size": 0.5, "bins": 16, "evaluate": number}
CASES = [(*names, value) for names, values in TABLE.items() for value in values]


def test_every_option_refuses_what_it_cannot_be(repo: Repository) -> None:
    for name, *beside, value in CASES:
        options = {name: value, **{other: BESIDE[other] for other in beside}}
        with pytest.raises(UsageError) as refused:
            Checkpointer(repo, MODEL, OPTIMIZER, **options)
        said = refused.value.message
        assert re.match(rf"{name} cannot be ", said), f"{options}: {said}"
        assert str(value) in said or repr(value) in said
        assert refused.value.hint, said


def test_no_option_is_left_out() -> None:
    from mvcs.train.options import CheckpointerOptions

    tested = {names[0] for names in TABLE}
    assert CheckpointerOptions.__annotations__.keys() - tested == set()


@pytest.mark.parametrize("value", [1, 1.0, 5])
def test_per_cent_are_not_taken_for_shares(repo: Repository, value: float) -> None:
    with pytest.raises(
        UsageError, match=f"max_degradation cannot be {value}, which is {value:.0%}"
    ) as refused:
        Checkpointer(repo, MODEL, OPTIMIZER, evaluate=number, max_degradation=value)
    assert "0.01 is 1 %" in str(refused.value.hint)
    Checkpointer(repo, MODEL, OPTIMIZER, evaluate=number, max_degradation=lambda _: value).close()


@pytest.mark.parametrize(
    ("name", "meant"), [("max_degradaton", "max_degradation"), ("wieghts_every", "weights_every")]
)
def test_a_mistyped_option_says_which_was_meant(repo: Repository, name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"no option '{name}'; did you mean '{meant}'"):
        Checkpointer(repo, MODEL, OPTIMIZER, **{name: 2})  # type: ignore[arg-type]  # that is what is refused
    with pytest.raises(TypeError, match=r"no option 'colour'$"):
        Checkpointer(repo, MODEL, OPTIMIZER, colour=2)  # type: ignore[call-arg]  # likewise
    with pytest.raises(TypeError, match="no option 'stepsize'; did you mean 'step_size'"):
        repo.commit({"a": torch.ones(2)}, stepsize=0.5)  # type: ignore[call-arg]  # likewise


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "max_degradation=0.01, the default"),
        ({"max_degradation": 0.002}, "max_degradation=0.002"),
        ({"max_degradation": lambda _: 0.1}, "max_degradation=as its function says"),
    ],
)
def test_the_log_names_the_bound(
    repo: Repository, caplog: pytest.LogCaptureFixture, given: dict[str, Any], said: str
) -> None:
    caplog.set_level(logging.INFO, "mvcs.train")
    Checkpointer(repo, MODEL, OPTIMIZER).close()
    assert "bounded" not in caplog.text
    Checkpointer(repo, MODEL, OPTIMIZER, evaluate=number, **given).close()
    [bound] = [record.message for record in caplog.records if "bounded" in record.message]
    assert bound.endswith(f" by {said}")


def test_parts_may_stand_in_order(repo: Repository) -> None:
    scheduler = torch.optim.lr_scheduler.StepLR(OPTIMIZER, 5)
    with Checkpointer(repo, MODEL, OPTIMIZER, scheduler) as checkpointer:
        scheduler.last_epoch = 7
        checkpointer.save(0)
    assert repo.checkout()["scheduler"]["last_epoch"] == 7


def test_parts_in_one_anothers_place_are_refused(repo: Repository) -> None:
    loader = torch.utils.data.DataLoader([1, 2])
    for parts, said in (
        (("run", MODEL, OPTIMIZER), "the repository cannot be a 'str'"),
        ((MODEL, OPTIMIZER, repo), "the repository cannot be a 'Linear'"),
        ((repo, OPTIMIZER, MODEL), "the optimizer cannot be a model"),
        ((repo, MODEL, OPTIMIZER, loader), "the scheduler cannot be a 'DataLoader'"),
    ):
        with pytest.raises(UsageError, match=said) as refused:
            Checkpointer(*parts)  # type: ignore[arg-type]  # that is what is refused
        assert refused.value.hint


@pytest.mark.parametrize(
    ("parts", "said", "hint"),
    [
        (
            (MODEL, torch.optim.AdamW),
            "optimizer cannot be the class 'AdamW'",
            "AdamW(model.parameters(), ...)",
        ),
        ((nn.Linear, OPTIMIZER), "model cannot be the class 'Linear'", "model = Linear(...)"),
        (
            (MODEL, OPTIMIZER, torch.optim.lr_scheduler.StepLR),
            "scheduler cannot be the class 'StepLR'",
            "scheduler = StepLR(optimizer, ...)",
        ),
    ],
    ids=["optimizer", "model", "scheduler"],
)
def test_a_class_in_the_place_of_a_part_is_refused(
    repo: Repository, parts: tuple[Any, ...], said: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        Checkpointer(repo, *parts)
    assert hint in refused.value.hint


@pytest.mark.parametrize("metrics", [{"loss": "x"}, {"loss": None}, [1.0]])
def test_metrics_are_numbers_by_name(repo: Repository, metrics: object) -> None:
    with pytest.raises(UsageError, match=r"metrics? ('loss' )?cannot be") as refused:
        repo.commit({"w": torch.ones(2)}, metrics=metrics)  # type: ignore[arg-type]  # see above
    assert refused.value.hint
