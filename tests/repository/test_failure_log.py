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
        "step 40 was not committed: no room (gc helps) (4 alike since step 10)",
    ]
    assert len(FailureLog(repo._session.place.local).lines()) == 5


def test_other_sizes_are_no_other_failure(tmp_path: Path) -> None:
    """A store that is full and grows on says so once, by its newest figures."""
    said = (
        "nothing was committed: the store takes {} MB ({} % of it exact layers), and store.max_bytes allows"
    )
    with Repository.init(tmp_path) as repo:
        for step in range(9):
            repo.report_failure(
                f"step {step} was not committed: {said.format(6 + step / 10, 40 - step)} 6.0 MB"
            )
        repo.report_failure("step 9 was not committed: the model has 3 tensors")
        repo.report_failure("step 10 was not committed: the model has 4 tensors")
        problems = repo.status().problems
    assert len(problems) == 3
    assert "takes 6.8 MB (32 % of it exact layers)" in problems[0]
    assert problems[0].endswith("(9 alike since step 0)")
