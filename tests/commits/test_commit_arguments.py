"""What `commit` is given: wrong arguments are named, with their value, and nothing is stored for them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.errors import UsageError

WRONG: list[tuple[str, Any, str]] = [
    *(("branch", value, f"branch cannot be {value!r}") for value in (5, True, b"x")),
    *(("restored_from", value, f"restored_from cannot be {value!r}") for value in (5, b"x")),
    *(("continues", value, f"continues cannot be {value!r}") for value in (5, b"x")),
    *(("step", value, f"step cannot be {value!r}") for value in ("3", 1.5, True, 1 << 70, torch.tensor(1.5))),
    *(("message", value, f"message cannot be {value!r}") for value in (5, None, b"x")),
    ("author", 5, "author cannot be 5"),
    *(
        ("metrics", {"l": value}, f"the metric 'l' cannot be {value!r}")
        for value in (True, None, "1.5", 1j, 10**400, np.ones(2), torch.ones(2), torch.tensor(True), np.True_)
    ),
    ("metrics", {5: 1.0}, "the name of a metric cannot be 5"),
    ("metrics", [1], "metrics cannot be [1]"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_a_wrong_argument_is_named(tmp_path: Path, name: str, value: Any, message: str) -> None:
    with Repository.init(tmp_path) as repo:
        with pytest.raises(UsageError) as caught:
            repo.commit({"x": 1}, **{name: value})
        assert caught.value.message == message
        assert caught.value.hint
        assert repo.branches() == []


NUMBERS = [2, 2.0, np.float32(2), np.int8(2), np.array([2.0]), torch.tensor(2), torch.tensor([2.0])]


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_whatever_holds_one_number_is_a_metric(tmp_path: Path, value: Any) -> None:
    with Repository.init(tmp_path) as repo:
        assert repo.commit({"x": 1}, metrics={"loss": value}).metrics == {"loss": 2.0}


def test_nan_is_a_metric_and_a_step_may_come_from_arrays(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        assert np.isnan(repo.commit({"x": 1}, metrics={"loss": float("nan")}).metrics["loss"])
        assert [repo.commit({"x": 1}, step=step).step for step in (np.int64(3), torch.tensor(4))] == [3, 4]
