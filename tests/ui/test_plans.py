"""Plans of restores say what the time counts, and that others want the processors."""

import datetime as dt

import pytest

from mvcs.reports import CheckoutPlan, CommitInfo
from mvcs.ui import Screen, plain
from mvcs.ui.checkouts import planned

TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
COMMIT = CommitInfo("0" * 64, [], None, {}, "exact", None, 1000, 500, 0, 1, "", "Ada", TIME)


def lines(target: str | None, load: float) -> list[str]:
    plan = CheckoutPlan(COMMIT, "exact", target, 1000, 3, 500, 2, 1, 0.5, TIME)
    return planned(plan, Screen(plain, False, None), load)


def test_the_time_is_told_with_what_it_leaves_out() -> None:
    assert lines(None, 0.0)[-1] == "  about 0.5 s here, as measured on 2026-01-01"
    assert lines("x.npz", 0.0)[-1].endswith("2026-01-01; writing files is not counted")


@pytest.mark.parametrize(("load", "told"), [(0.0, False), (1.0, False), (2.5, True)])
def test_a_busy_machine_is_told(load: float, *, told: bool) -> None:
    assert ("2.5 processes want each processor now" in lines(None, load)[-1]) == told
