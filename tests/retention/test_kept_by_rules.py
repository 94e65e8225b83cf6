"""Data that were dropped, and that rules keep before a collector came: they stay, and come back."""

import shutil
from pathlib import Path

import pytest

from mvcs import NotFoundError, Repository
from tests.repository.states import content, state

COMMITS = 6
ROWS = 200


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine") / "work"
    with Repository.init(folder) as repo:
        for step in range(COMMITS):
            repo.commit(state(step, ROWS), step=step, metrics={"loss": 10.0 - step})
    return folder


@pytest.fixture
def work(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "work"))


def drop_all_but(work: Path, **rules: object) -> dict[int, object]:
    """Drop what some rules do not keep, collect nothing, and return what all commits restored before."""
    with Repository.open(work) as repo:
        before = {info.step or 0: content(repo, info.id) for info in repo.log()}
        repo.set_retention(**rules, force=True)
        assert repo.apply_retention(force=True).dropped
    return before


def collect(work: Path) -> int:
    """Collect all that may go; return how many files went."""
    with Repository.open(work) as repo:
        return len(repo.gc(grace_days=0, wait_days=0, execute=True).garbage)


def see_what_came_back(work: Path, before: dict[int, object], steps: set[int]) -> None:
    """Collect, apply and collect again: these commits have their data, and no other that was dropped."""
    collect(work)
    with Repository.open(work) as repo:
        repo.apply_retention(force=True)
    collect(work)
    with Repository.open(work) as repo:
        there = {info.step or 0: info.id for info in repo.log(all_branches=True) if not info.data_dropped}
        assert {step: content(repo, name) for step, name in there.items()} == {
            step: before[step] for step in steps
        }
        report = repo.fsck()
        assert report.ok, report.problems


def test_rules_that_are_regretted_take_nothing_when_others_are_set_in_time(work: Path) -> None:
    before = drop_all_but(work, last=1)
    with Repository.open(work) as repo:
        notes = repo.set_retention(last=4).notes
    [said] = [note for note in notes if "are still there: gc keeps them" in note]
    assert said.startswith("the data of 3 commits, main@")
    see_what_came_back(work, before, {2, 3, 4, 5})


def test_rules_that_stay_keep_the_commits_before_a_branch_that_is_new(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.compact(max_depth=0)  # so that no tip leans on the commit before it
        repo.gc(grace_days=0, wait_days=0, execute=True)
    before = drop_all_but(work, last=2)
    with Repository.open(work) as repo:
        repo.create_branch("late", "main~3")
    see_what_came_back(work, before, {1, 2, 4, 5})


def test_rules_that_stay_keep_what_a_note_makes_the_best(work: Path) -> None:
    before = drop_all_but(work, last=1, best="1:min:loss")
    with Repository.open(work) as repo:
        repo.note("main~4", {"loss": 0.5})
    see_what_came_back(work, before, {1, 5})


def test_what_is_kept_after_all_is_not_condemned(work: Path) -> None:
    drop_all_but(work, last=1, best="1:min:loss")
    with Repository.open(work) as repo:
        repo.note("main~4", {"loss": 0.5})
    assert collect(work)  # what the others left
    assert not collect(work)
    said = records(work)
    for wait in (0.0, 0.0, 1.0):
        with Repository.open(work) as repo:
            assert not repo.gc(grace_days=0, wait_days=wait).garbage
            found = repo.gc(grace_days=0, wait_days=wait, execute=True)
            assert not found.garbage
            assert not found.condemned
    assert records(work) == said
    with Repository.open(work) as repo:
        repo.set_retention(last=1, force=True)
        assert repo.apply_retention(force=True).dropped
    assert collect(work)


def records(work: Path) -> set[str]:
    """Return what collectors said so far."""
    return {path.name for path in (work / ".mvcs/gc").iterdir()}


def test_where_a_rule_cannot_be_applied_nothing_is_collected(work: Path) -> None:
    before = drop_all_but(work, last=1)
    with Repository.open(work) as repo:
        repo.set_retention(best="1:min:nobody", force=True)
    with pytest.raises(NotFoundError, match="no commit has the metric 'nobody'"):
        collect(work)
    with Repository.open(work) as repo:
        repo.set_retention(last=COMMITS, force=True)
    see_what_came_back(work, before, set(range(COMMITS)))


def test_what_no_rule_keeps_is_collected_whatever_was_set_since(work: Path) -> None:
    drop_all_but(work, last=2)
    with Repository.open(work) as repo:
        repo.set_retention(last=1, force=True)
    assert collect(work)
    with Repository.open(work) as repo:
        notes = repo.set_retention(last=COMMITS).notes
    [said] = [note for note in notes if note.endswith("were dropped before, and are gone")]
    assert said.startswith(f"the data of {COMMITS - 2} commits, main@")
