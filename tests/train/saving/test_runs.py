"""A run that restarts goes on from its own commits, wherever they went, and never from another run's."""

from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from mvcs.errors import ConflictError, NotFoundError, UsageError
from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.loaded import Program
from tests.repository.models import bits
from tests.train.runs import Run, train


def checkpointer(repo: Repository, run: Run, **options: Any) -> Checkpointer:
    return Checkpointer(repo, *run.parts, **run.options, every=1, **options)


@pytest.fixture
def raced(tmp_path: Path) -> tuple[Path, Path, str, str]:
    """Two clones of one store, and the runs in them: that of the second has lost the race for main."""
    Repository.init(tmp_path / "one", store=str(tmp_path / "store")).close()
    Repository.init(tmp_path / "two", store=str(tmp_path / "store")).close()
    first, second = Run(1), Run(2)
    with Repository.open(tmp_path / "one") as one, Repository.open(tmp_path / "two") as two:
        with checkpointer(one, first) as a, checkpointer(two, second) as b:
            assert (a.resume(), b.resume()) == (0, 0)
            train(a, first, range(3))
            a.flush()
            train(b, second, range(2))
        assert a.run != b.run
        assert one.resolve("main").run == a.run
    return tmp_path / "one", tmp_path / "two", a.run, b.run


def test_a_run_that_lost_a_race_goes_on_as_itself(raced: tuple[Path, Path, str, str]) -> None:
    one, two, first, second = raced
    for place, steps, run in ((two, 2, second), (one, 3, first)):
        with Repository.open(place) as repo, checkpointer(repo, Run(9)) as again:
            assert again.resume() == steps
            assert again.run == run == again.restored.commit.run
    with Repository.open(two) as repo:
        [kept] = [known.name for known in repo.branches() if "conflict" in known.name]
        assert repo.show(kept).provenance["run"] == second
        fresh = Run(9)
        with checkpointer(repo, fresh) as again:
            again.resume()
            assert bits(fresh.model.state_dict()) == bits(repo.checkout(kept, exact=True)["model"])
            train(again, fresh, range(2, 4))
        assert repo.resolve(kept).step == 3
        assert repo.resolve("main").run == first


def test_who_knows_neither_run_has_to_choose(raced: tuple[Path, Path, str, str], tmp_path: Path) -> None:
    _, two, first, second = raced
    Repository.init(tmp_path / "three", store=str(tmp_path / "store")).close()
    with Repository.open(tmp_path / "three") as repo:
        with checkpointer(repo, Run(9)) as again, pytest.raises(ConflictError) as caught:
            again.resume()
        assert first in caught.value.message
        assert second in caught.value.message
        assert "resume(run=" in caught.value.hint
        for wanted, steps in ((first, 3), (second[:8], 2), ("main", 3)):
            with checkpointer(repo, Run(9), final=False) as again:
                assert again.resume(run=wanted) == steps
                assert again.run not in (first, second)  # another run, which begins there
        with checkpointer(repo, Run(9)) as again, pytest.raises(NotFoundError, match="no run 'nobody'"):
            again.resume(run="nobody")
    with Repository.open(two) as repo:
        (two / ".mvcs" / "local" / "runs.json").unlink()
        with checkpointer(repo, Run(9)) as again, pytest.raises(ConflictError):
            again.resume()


CHILD = """
import os, sys
from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.train.runs import Run, train
run = Run(2)
checkpointer = Checkpointer(Repository.open(sys.argv[1]), *run.parts, **run.options, every=1)
checkpointer.__enter__()
checkpointer.resume()
print(checkpointer.run, flush=True)
sys.stdin.readline()
train(checkpointer, run, range(1, 3))
checkpointer.flush()
print("done", flush=True)
sys.stdin.readline()
os._exit(9)
"""


def test_two_runs_in_one_folder_do_not_take_each_others_weights(
    forked: ForkServerContext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One is killed after it lost the race; while the other is at work there is no doubt who comes back."""
    Repository.init(tmp_path / "run").close()
    (tmp_path / "child.py").write_text(CHILD)
    mine = Run(1)
    with Repository.open(tmp_path / "run") as repo, checkpointer(repo, mine) as own:
        child = Program(forked, tmp_path / "child.py", str(tmp_path / "run"))
        own.resume()
        train(own, mine, range(1))
        own.flush()
        other = child.stdout.readline().strip()
        train(own, mine, range(1, 3))
        own.flush()
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        child.stdin.write("\n")
        child.stdin.flush()
        child.communicate()
        assert child.returncode == 9
        with Repository.open(tmp_path / "run") as again, checkpointer(again, Run(9)) as back:
            assert back.resume() == 3
            assert back.run == other
            assert "where it went when it lost a race" in caplog.text
    with Repository.open(tmp_path / "run") as repo, checkpointer(repo, Run(9)) as doubtful:
        with pytest.raises(ConflictError, match="several runs"):
            doubtful.resume()
        assert doubtful.resume(run=own.run) == 3
        assert doubtful.run == own.run


def test_a_second_hook_on_a_run_at_work_is_a_run_of_its_own(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    with checkpointer(repo, run) as first:
        train(first, run, range(1))
        first.flush()
        with checkpointer(repo, Run(9)) as second:
            assert second.resume() == 1
            assert second.run != first.run
            assert f"at work on run {first.run}" in caplog.text
    with checkpointer(repo, Run(9)) as third:
        assert third.resume() == 1
        assert third.run == first.run


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b'{"x": 1}', b'{"x": {"process": 7}}'])
def test_a_damaged_record_is_an_empty_one(repo: Repository, damage: bytes) -> None:
    run = Run()
    with checkpointer(repo, run) as first:
        train(first, run, range(1))
    (repo.top / ".mvcs" / "local" / "runs.json").write_bytes(damage)
    with checkpointer(repo, Run(9)) as again:
        assert again.resume() == 1
        assert again.run != first.run


def test_later_steps_on_another_branch_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody renames the branch of a run at work; after a crash HEAD stands where the run was then."""
    with Repository.init(tmp_path) as repo:
        run = Run()
        with checkpointer(repo, run) as hook:
            hook.resume()
            train(hook, run, range(2))
            hook.flush()
            repo.rename_branch("main", "renamed")
            train(hook, run, range(2, 4))
        with checkpointer(repo, Run()) as again:
            assert again.resume() == 2
        assert "it has step 3 on 'main': branch='main' continues from there" in caplog.text
        with checkpointer(repo, Run(), branch="main") as again:
            assert again.resume() == 4


def test_behind_a_commit_of_something_else_the_way_on_is_named(tmp_path: Path) -> None:
    """Also the hint is tried, as it stands there."""
    with Repository.init(tmp_path / "run") as repo:
        run = Run()
        with checkpointer(repo, run) as first:
            train(first, run, range(2))
        (repo.top / "notes.txt").write_text("a good run")
        repo.commit_files([repo.top / "notes.txt"], message="notes", plain=True)
        newest = repo.resolve("main~1")
        with checkpointer(repo, Run(9), final=False) as again, pytest.raises(UsageError) as caught:
            again.resume()
        made = f"step 1 of a run is commit {newest.short}: after 'mvcs branch NAME {newest.short}'"
        on_it = f"or 'mvcs reset {newest.short}' takes what was committed since off this branch"
        there = f"{made}, branch='NAME' continues from there"
        assert caught.value.hint == f"{there}; {on_it}, and leaves files alone"
        repo.create_branch("on", newest.short)
        with checkpointer(repo, Run(9), final=False, branch="on") as again:
            assert again.resume() == 2
        repo.reset(newest.short)
        assert (repo.top / "notes.txt").exists()
        with checkpointer(repo, Run(9), final=False) as again:
            assert again.resume() == 2


def test_where_no_run_was_none_is_named(repo: Repository) -> None:
    repo.commit({"weights": Run().model.state_dict()})
    with checkpointer(repo, Run(9), final=False) as again, pytest.raises(UsageError) as caught:
        again.resume()
    assert caught.value.hint == "resume on a branch whose commits come from this hook"
