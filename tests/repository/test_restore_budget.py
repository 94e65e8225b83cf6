"""Budgets of restores: how they are typed, what the settings add, and what compacting makes of them."""

from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.config import Config
from mvcs.delta import Encoding
from mvcs.errors import UsageError
from mvcs.local import MeasuredRates, remember_rates
from mvcs.repository.restore_budget import RestoreBudget
from mvcs.store import RestoreRates

SLOW = RestoreRates(1e-9, 1e15, 1e-9, 1e-9, dict.fromkeys(Encoding, 1e8), 1e15)
"""10^9 bytes take 10 s for each entry."""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4x", (None, 4.0, None)),
        ("2s", (None, None, 2.0)),
        ("0.5s", (None, None, 0.5)),
        ("4x, 2.5s", (None, 4.0, 2.5)),
    ],
)
def test_a_budget_as_it_is_typed(text: str, found: tuple[float | None, ...]) -> None:
    assert RestoreBudget.parse(text) == RestoreBudget(*found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", ",", "2m", "-1", "2", "1.5", "8,2s", "0.5x", "0s", "2000s", "2s,3s", "nan", "1e3s", "٣"]
)
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError):
        RestoreBudget.parse(text)


def test_a_limit_is_given_once() -> None:
    assert RestoreBudget(max_depth=3).joined(RestoreBudget.parse("2s")) == RestoreBudget(3, None, 2.0)
    with pytest.raises(UsageError, match="the same"):
        RestoreBudget(max_cost=3).joined(RestoreBudget.parse("4x"))


def test_the_settings_tell_the_rest() -> None:
    def unasked() -> RestoreRates:
        raise AssertionError("nothing is measured where no seconds are limited")

    config = Config(None)
    found = RestoreBudget(max_depth=3).limits(config, unasked, for_archive=False)
    assert (found.max_depth, found.max_cost, found.max_seconds) == (3, 2.5, None)
    found = RestoreBudget().limits(config, unasked, for_archive=True)
    assert (found.max_depth, found.max_seconds) == (1000, None)
    found = RestoreBudget(max_seconds=2).limits(config, lambda: SLOW, for_archive=True)
    assert (found.max_depth, found.max_seconds, found.rates) == (1000, 2, SLOW)
    with pytest.raises(UsageError, match="archive"):
        RestoreBudget(max_cost=2).limits(config, unasked, for_archive=True)


@pytest.mark.parametrize("way", ["budget", "setting"])
def test_a_history_keeps_to_seconds(tmp_path: Path, way: str) -> None:
    with Repository.init(tmp_path) as repo:
        remember_rates(tmp_path / ".mvcs", repo._session.place.backend.url, MeasuredRates(SLOW, 0))
        noise = np.random.default_rng(0).standard_normal((8, 512, 512)).astype(np.float32)
        for each in np.cumsum(noise * np.float32([[[1]], *[[[0.002]]] * 7]), axis=0):
            repo.commit({"w": each}, bins=16)
        before = [repo.checkout(f"HEAD~{number}", numpy=True)["w"] for number in range(8)]
        if way == "setting":
            repo.config_set("compaction.max_restore_seconds", "11")
    with Repository.open(tmp_path) as repo:
        report = repo.compact(budget="11s" if way == "budget" else None)
        assert report.rewritten == 4
        assert [repo.checkout_plan(f"HEAD~{number}").depth for number in range(8)] == [3, 2, 1, 0] * 2
        after = [repo.checkout(f"HEAD~{number}", numpy=True)["w"] for number in range(8)]
    assert all(map(np.array_equal, before, after))
