"""Cadences: which steps are committed, by a clock that the tests turn themselves.

Times are sums of powers of two, so that no rounding moves a commit.
"""

import itertools
import logging
import math

import pytest

from mvcs.errors import UsageError
from mvcs.train.saving.cadence import PROFILED, Cost, EverySeconds, EverySteps, WithinOverhead, cadence_of


class Simulation:
    """A run whose steps and commits take given times on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step_seconds = 1 / 8
        self.blocked = 1 / 32
        self.processor = 3 / 32
        self.wall = 1 / 4
        self.trained = 0.0
        self.spent = 0.0
        self.step = 0

    def clock(self) -> float:
        return self.now

    def run(self, cadence, steps: int) -> list[int]:
        """Train so many steps and return those that were committed."""
        committed = []
        for step in range(self.step, self.step + steps):
            self.now += self.step_seconds
            self.trained += self.step_seconds
            if cadence.due(step):
                committed.append(step)
                self.commit(cadence)
        self.step += steps
        return committed

    def commit(self, cadence, *, full: bool = True) -> None:
        self.now += self.blocked
        self.spent += self.blocked + self.processor
        cadence.taken(self.blocked, full=full)
        cadence.measured(Cost(self.blocked, self.processor, self.wall, full))


def gaps(steps: list[int]) -> list[int]:
    return [after - before for before, after in itertools.pairwise(steps)]


def test_steps_are_counted_from_zero() -> None:
    cadence = EverySteps(3)
    assert [step for step in range(10) if cadence.due(step)] == [2, 5, 8]


def test_steps_that_are_counted_by_twos_miss_no_commit() -> None:
    cadence = EverySteps(5)
    assert [step for step in range(1, 30, 2) if cadence.due(step)] == [5, 9, 15, 19, 25, 29]


def test_steps_may_begin_anew() -> None:
    cadence = EverySteps(3)
    assert [step for step in [7, 8, 2, 3, 8] if cadence.due(step)] == [8, 2, 8]


def test_seconds_count_from_the_last_commit_also_one_by_hand() -> None:
    run = Simulation()
    run.step_seconds, run.blocked = 1.0, 0.0
    cadence = EverySeconds(10, run.clock)
    assert run.run(cadence, 15) == [10]
    run.commit(cadence)
    assert run.run(cadence, 12) == [24]
    run.commit(cadence, full=False)
    assert run.run(cadence, 10) == [34]


def test_what_was_left_out_is_not_due_at_the_next_step() -> None:
    run = Simulation()
    run.step_seconds = 1.0
    cadence = EverySeconds(10, run.clock)
    due = []
    for step in range(30):
        run.now += 1
        if cadence.due(step):
            due.append(step)
            cadence.left_out()
    assert due == [10, 20]


def test_overhead_chooses_the_interval_that_pays_for_a_commit() -> None:
    run = Simulation()
    cadence = WithinOverhead(1 / 256, run.clock)
    committed = run.run(cadence, 1200)
    # 1/8 s a commit is one step's time, so 256 steps pay for it.
    assert committed[0] == PROFILED
    assert cadence.interval == 256
    assert gaps(committed) == [256] * 4
    assert run.spent <= run.trained / 256 + 1 / 8


def test_the_same_clock_and_costs_give_the_same_commits() -> None:
    results = []
    for _ in range(2):
        run = Simulation()
        cadence = WithinOverhead(0.01, run.clock)
        found = run.run(cadence, 300)
        run.processor = 0.3
        results.append(found + run.run(cadence, 2000))
    assert results[0] == results[1]


@pytest.mark.parametrize(("name", "value"), [("processor", 15 / 32), ("step_seconds", 1 / 32)])
def test_commits_become_rarer_when_they_cost_more_or_steps_less(name: str, value: float) -> None:
    run = Simulation()
    cadence = WithinOverhead(1 / 256, run.clock)
    run.run(cadence, 1000)
    setattr(run, name, value)
    run.run(cadence, 8000)
    assert cadence.interval == 1024
    assert run.spent <= run.trained / 256 + run.blocked + run.processor


def test_the_log_says_when_the_interval_has_changed_much(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mvcs.train")
    run = Simulation()
    cadence = WithinOverhead(1 / 256, run.clock)
    run.run(cadence, 500)
    for _ in range(20):
        run.step_seconds *= 127 / 128
        run.run(cadence, 40)
    assert cadence.interval > 256
    assert caplog.text.count("steps apart") == 1
    run.step_seconds /= 2
    run.run(cadence, 100)
    assert "256 steps apart: one costs 0.125 s, and a step takes 0.125 s" in caplog.text
    assert 1 < caplog.text.count("steps apart") <= 3


def test_commits_become_more_frequent_when_steps_take_longer() -> None:
    run = Simulation()
    cadence = WithinOverhead(1 / 256, run.clock)
    run.run(cadence, 1000)
    run.step_seconds = 9 / 64
    run.run(cadence, 500)
    assert cadence.interval == 256, "small drifts are no reason"
    run.step_seconds = 1 / 2
    committed = run.run(cadence, 1000)
    assert cadence.interval == 64
    assert gaps(committed)[-3:] == [64, 64, 64]


def test_an_expensive_first_commit_is_paid_for_before_the_next_ones() -> None:
    run = Simulation()
    run.blocked, run.processor = 1.0, 7.0
    cadence = WithinOverhead(1 / 64, run.clock)
    first = run.run(cadence, PROFILED + 1)
    run.blocked, run.processor = 1 / 32, 3 / 32
    later = run.run(cadence, 20_000)
    assert first == [PROFILED]
    # 8 s are paid for by 512 s of training, 4096 steps.
    assert later[0] == PROFILED + 4096
    assert gaps(later)[-1] == 64
    assert run.spent <= run.trained / 64 + 1 / 8


def test_one_slow_commit_among_many_is_paid_for_and_changes_no_interval() -> None:
    run = Simulation()
    cadence = WithinOverhead(1 / 64, run.clock)
    run.run(cadence, 500)
    run.processor = 2.0
    while not run.run(cadence, 1):
        pass
    run.processor = 3 / 32
    committed = run.run(cadence, 3000)
    assert cadence.interval == 64
    assert gaps(committed)[-3:] == [64, 64, 64]
    assert run.spent <= run.trained / 64 + 1 / 8


def test_commits_that_take_long_to_write_do_not_queue_up() -> None:
    run = Simulation()
    run.wall = 256.0
    cadence = WithinOverhead(1 / 2, run.clock)
    assert gaps(run.run(cadence, 10_000)) == [2048] * 4


def test_nothing_is_due_while_a_commit_is_being_written() -> None:
    run = Simulation()
    cadence = WithinOverhead(1.0, run.clock)
    for step in range(PROFILED):
        run.now += 1 / 8
        assert not cadence.due(step)
    run.now += 1 / 8
    assert cadence.due(PROFILED)
    cadence.taken(1 / 64)
    for step in range(PROFILED + 1, 500):
        run.now += 1 / 8
        assert not cadence.due(step)
    cadence.measured(Cost(1 / 64, 1 / 64, 32))
    run.now += 1 / 8
    assert cadence.due(500)


def test_weights_alone_are_paid_for_but_are_no_price_of_a_full_commit() -> None:
    run = Simulation()
    cadence = WithinOverhead(1 / 64, run.clock)
    alone = run.run(cadence, 2000)
    for _ in range(40):
        run.run(cadence, 64)
        run.commit(cadence, full=False)
    assert cadence.interval == 64
    assert gaps(alone) == [64] * (len(alone) - 1)
    assert run.spent <= run.trained / 64 + 2 / 8


def test_standing_still_is_no_training() -> None:
    run = Simulation()
    run.blocked, run.processor = 4.0, 0.0
    cadence = WithinOverhead(1 / 8, run.clock)
    run.run(cadence, 2000)
    assert cadence.interval == 4 * 8 * 8


@pytest.mark.parametrize(
    "settings",
    [
        {"every": 0},
        {"every": -1},
        {"seconds": 0.0},
        {"seconds": math.nan},
        {"seconds": math.inf},
        {"overhead": 0.0},
        {"overhead": 1.5},
        {"overhead": math.nan},
        {"every": 5, "seconds": 1.0},
        {"every": 5, "overhead": 0.1},
        {"every": 0, "overhead": 0.1},
    ],
)
def test_impossible_cadences_are_refused(settings: dict[str, float]) -> None:
    given = {"every": None, "seconds": None, "overhead": None, **settings}
    with pytest.raises(UsageError):
        cadence_of(**given)


def test_a_cadence_says_what_it_does() -> None:
    run = Simulation()
    assert str(cadence_of(None, None, None)) == "every 500 steps"
    assert str(cadence_of(7, None, None)) == "every 7 steps"
    assert str(cadence_of(None, 90, None)) == "every 90 seconds"
    cadence = cadence_of(None, None, 1 / 256, run.clock)
    assert str(cadence) == "within 0.00391 of the time, not measured yet"
    run.run(cadence, 300)
    assert str(cadence) == "within 0.00391 of the time, now 256 steps apart"
