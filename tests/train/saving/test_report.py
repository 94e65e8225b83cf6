"""What a run holds of what happened in it."""

from mvcs.train.saving.report import HELD, Newest


def test_a_long_run_holds_the_newest_of_what_happened_and_counts_all():
    steps = Newest()
    assert steps.since(0) == steps == []
    for step in range(HELD + 10):
        steps.append(step)
    assert len(steps) == HELD
    assert (steps[0], steps[-1], steps.total) == (10, HELD + 9, HELD + 10)
    assert steps.since(HELD + 8) == [HELD + 8, HELD + 9]
    assert steps.since(HELD + 10) == []
    assert steps.since(3) == steps
