"""What a run holds of what happened in it."""

import pytest

from mvcs.errors import UsageError
from mvcs.train.saving.report import HELD, Failure, Newest


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError(139781190867680), "step 7 was not committed: KeyError: 139781190867680"),
        (RuntimeError(), "step 7 was not committed: RuntimeError"),
        (UsageError("no such branch", hint="make it"), "step 7 was not committed: no such branch (make it)"),
    ],
)
def test_a_failure_says_what_kind_of_error_it_was_unless_its_message_says_all(error, said):
    assert str(Failure.of(7, error)) == said


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
