"""Where the commits of a run go: branches of its own, and other writers on the same one."""

from pathlib import Path

import pytest
import torch

from mvcs.errors import CorruptionError
from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.train.runs import Gate, Run, steps_of, train


def test_a_branch_of_its_own(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1, branch="night") as checkpointer:
        assert checkpointer.resume() == 0
        train(checkpointer, run, range(2))
    assert steps_of(repo, "night") == [1, 0]
    with Checkpointer(repo, *run.parts, **run.options, every=1, branch="night") as checkpointer:
        assert checkpointer.resume() == 2


def test_a_new_branch_starts_at_head(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        train(checkpointer, run, range(2))
    with Checkpointer(repo, *run.parts, **run.options, every=1, branch="night") as checkpointer:
        assert checkpointer.resume() == 2
        [said] = [record.message for record in caplog.records if record.levelname == "WARNING"]
        assert said == f"branch 'night' is new: it starts from {repo.resolve('HEAD').short} of main"
        train(checkpointer, run, range(2, 3))
    caplog.clear()
    with Checkpointer(repo, *run.parts, **run.options, every=1, branch="night") as checkpointer:
        assert checkpointer.resume() == 3
    assert "is new" not in caplog.text
    assert steps_of(repo, "night") == [2, 1, 0]
    assert steps_of(repo, "main") == [1, 0]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelname == "WARNING"]


def test_a_run_that_resumed_nothing_is_told_what_it_starts_behind(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    for later in (False, True):
        run = Run()
        with Checkpointer(repo, *run.parts, **run.options, every=3) as checkpointer:
            tip = repo.resolve("HEAD").short if later else ""
            train(checkpointer, run, range(1))
            said = (
                f"branch 'main' holds step 2 of a run, commit {tip}: this run begins at its start behind it, "
                "as nothing was resumed; resume() continues from there, and branch='NAME' keeps the two apart"
            )
            assert warnings_of(caplog) == later * [said]
            train(checkpointer, run, range(1, 3))
    assert len(warnings_of(caplog)) == 1
    assert steps_of(repo) == [2, 2]


def test_a_run_that_goes_on_by_itself_is_told_nothing(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    """Resumed, restored by hand and going on with later steps, or behind a commit of no run."""
    run = Run()
    for steps in (range(2), range(2, 4)):
        with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
            train(checkpointer, run, steps)
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        train(checkpointer, run, range(checkpointer.resume(), 5))
    repo.commit({"other": torch.ones(3)}, step=9)
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        checkpointer.save(0)
    assert warnings_of(caplog) == []


def test_a_run_told_to_save_is_told_what_it_starts_behind(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    for _ in range(2):
        with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
            checkpointer.save(5)
    [said] = warnings_of(caplog)
    assert "holds step 5 of a run" in said


def test_keeping_a_run_apart_leaves_the_other_one_as_it_was(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    """What the warning says to do, done; a new branch is told of without resume() too."""
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        train(checkpointer, run, range(3))
    for _ in range(2):
        with Checkpointer(repo, *run.parts, **run.options, every=1, branch="apart") as checkpointer:
            train(checkpointer, run, range(1))
    new, anew = warnings_of(caplog)
    assert new == f"branch 'apart' is new: it starts from {repo.resolve('main').short} of main"
    assert "branch 'apart' holds step 0 of a run" in anew
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        assert checkpointer.resume() == 3


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize(("name", "meant"), [("mian", "main"), ("sweep-12", None), ("night", None)])
def test_a_mistyped_branch_is_asked_about(
    repo: Repository, caplog: pytest.LogCaptureFixture, name: str, meant: str | None, *, resumes: bool
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        train(checkpointer, run, range(2))
    repo.create_branch("sweep-11")
    with Checkpointer(repo, *run.parts, **run.options, every=1, branch=name) as checkpointer:
        start = checkpointer.resume() if resumes else 0
        train(checkpointer, run, range(start, start + 2))
    new = f"branch '{name}' is new: it starts from {repo.resolve('main').short} of main"
    assert warnings_of(caplog) == [new + (f"; did you mean '{meant}'?" if meant else "")]


def test_losing_a_race_continues_on_the_conflict_branch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    gate.opened.set()
    run = Run()
    with (
        Repository.init(tmp_path) as other,
        Repository.open(tmp_path, progress=gate) as repo,
        Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer,
    ):
        gate.once = lambda: other.commit({"other": torch.ones(3)}, message="theirs")
        for step in range(3):
            train(checkpointer, run, range(step, step + 1))
            checkpointer.flush()
        assert checkpointer.failures == []
        assert "was moved by another writer" in caplog.text
        assert repo.resolve("main").message == "theirs"
        [kept] = [branch.name for branch in repo.branches() if "conflict" in branch.name]
        assert steps_of(repo, kept)[:3] == [2, 1, 0]


@pytest.mark.parametrize("fault", ["damaged", "set back"])
def test_a_run_goes_on_beside_a_branch_whose_record_is_damaged_or_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    Repository.init(tmp_path).close()
    run = Run()
    with Repository.open(tmp_path) as repo, Checkpointer(repo, *run.parts, **run.options, every=1) as saving:
        train(saving, run, range(2))
        saving.flush()
        newest = min((tmp_path / ".mvcs/refs/heads/main").iterdir())
        newest.unlink()
        if fault == "damaged":
            newest.write_bytes(b"rotten")
        train(saving, run, range(2, 4))
        saving.flush()
        assert saving.failures == []
        [kept] = [branch.name for branch in repo.branches() if "conflict" in branch.name]
        assert f"kept as branch '{kept}', where this run continues" in caplog.text
        assert steps_of(repo, kept) == [3, 2, 1, 0]
    with Repository.open(tmp_path) as repo, Checkpointer(repo, *Run().parts, **run.options) as again:
        assert again.resume() == 4
        assert again.run == saving.run
    if fault == "damaged":
        with Repository.open(tmp_path) as repo:
            repo.switch(kept)
            repo.delete_branch("main", force=True)
            repo.rename_branch(kept, "main")
            assert steps_of(repo, "main") == [3, 2, 1, 0]


def test_resuming_a_damaged_branch_without_another_names_the_way_back(tmp_path: Path) -> None:
    run = Run()
    with Repository.init(tmp_path) as repo:
        with Checkpointer(repo, *run.parts, **run.options, every=1) as saving:
            train(saving, run, range(2))
        min((tmp_path / ".mvcs/refs/heads/main").iterdir()).write_bytes(b"rotten")
    with Repository.open(tmp_path) as repo, Checkpointer(repo, *Run().parts, **run.options) as again:
        with pytest.raises(CorruptionError) as caught:
            again.resume()
        assert "main@{1}" in caught.value.hint
    with Repository.open(tmp_path) as repo:
        repo.switch("rescue", create_from="main@{1}")
    with Repository.open(tmp_path) as repo, Checkpointer(repo, *Run().parts, **run.options) as again:
        assert again.resume() == 1


def test_a_second_run_does_not_mix_with_the_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Repository.init(tmp_path).close()
    one, two = Run(1), Run(2)
    with (
        Repository.open(tmp_path) as first,
        Repository.open(tmp_path) as second,
        Checkpointer(first, *one.parts, **one.options, every=1) as a,
        Checkpointer(second, *two.parts, **two.options, every=1) as b,
    ):
        assert a.resume() == 0
        train(a, one, range(2))
        a.flush()
        assert b.resume() == 2
        train(b, two, range(2, 3))
        b.flush()
        for step in range(3, 5):
            train(a, one, range(step - 1, step))
            a.flush()
            train(b, two, range(step, step + 1))
            b.flush()
        [kept] = [branch.name for branch in first.branches() if "conflict" in branch.name]
        assert steps_of(first, "main") == [4, 3, 2, 1, 0]
        assert steps_of(first, kept) == [3, 2, 1, 0]
        assert caplog.text.count("was moved by another writer") == 1
        assert a.failures == b.failures == []


def test_two_runs_that_both_start_anew_do_not_mix(tmp_path: Path) -> None:
    Repository.init(tmp_path).close()
    one, two = Run(1), Run(2)
    with (
        Repository.open(tmp_path) as first,
        Repository.open(tmp_path) as second,
        Checkpointer(first, *one.parts, **one.options, every=1) as a,
        Checkpointer(second, *two.parts, **two.options, every=1) as b,
    ):
        assert a.resume() == b.resume() == 0
        train(a, one, range(3))
        a.flush()
        train(b, two, range(2))
        b.flush()
        [kept] = [branch.name for branch in first.branches() if "conflict" in branch.name]
        assert steps_of(first, "main") == [2, 1, 0]
        assert steps_of(first, kept) == [1, 0]


def test_a_new_branch_continues_the_commit_that_was_resumed(tmp_path: Path) -> None:
    run = Run()
    with Repository.init(tmp_path) as repo, Repository.open(tmp_path) as other:
        with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
            train(checkpointer, run, range(2))
        with Checkpointer(repo, *run.parts, **run.options, every=1, branch="night") as checkpointer:
            start = checkpointer.resume()
            other.commit({"other": torch.ones(3)}, step=99)
            train(checkpointer, run, range(start, start + 1))
        assert steps_of(repo, "night") == [2, 1, 0]
        assert steps_of(repo, "main") == [99, 1, 0]


def test_switching_the_folder_does_not_take_the_run_along(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        train(checkpointer, run, range(checkpointer.resume(), 2))
        checkpointer.flush()
        repo.switch("side", create_from="HEAD~1")
        train(checkpointer, run, range(2, 4))
    assert steps_of(repo, "side") == [0]
    assert steps_of(repo, "main") == [3, 2, 1, 0]
