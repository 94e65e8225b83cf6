"""What went wrong in the background: all of it is kept, and the same is told once."""

from pathlib import Path

from mvcs import Repository
from mvcs.repository.failure_log import FailureLog


def test_the_same_is_told_once_with_its_number(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        for step in (10, 20, 30):
            repo.report_failure(f"step {step} was not committed: no room (gc helps)")
        repo.report_failure("step 35 was not committed: another")
        repo.report_failure("step 40 was not committed: no room (gc helps)")
        problems = repo.status().problems
    assert [line.partition(": ")[2] for line in problems] == [
        "step 35 was not committed: another",
        "step 40 was not committed: no room (gc helps) (4 alike)",
    ]
    assert len(FailureLog(repo._session.place.local).lines()) == 5
