"""Weights alone between whole states, cadences, and functions called with every commit, in a loop."""

import logging
import os
import signal
import threading
from pathlib import Path

import pytest

from mvcs.repository import Repository
from mvcs.train import Checkpointer
from mvcs.ui.commits import sizes
from tests.train.runs import Run, train, undisturbed


def kinds(repo: Repository, rev: str = "HEAD") -> list[str]:
    return [f"{commit.step}{'w' if commit.weights_only else ''}" for commit in repo.log(rev)]


def first_parents(repo: Repository) -> list[str]:
    found, commit = [], repo.head()
    while commit is not None:
        found.append(f"{commit.step}{'w' if commit.weights_only else ''}")
        commit = repo.resolve(commit.parents[0]) if commit.parents else None
    return found


@pytest.mark.parametrize("step_size", [None, pytest.param(0.5, marks=pytest.mark.slow)])
def test_weights_alone_between_whole_states(repo: Repository, step_size: float | None) -> None:
    run = Run()
    options = {**run.options, "every": 6, "weights_every": 2, "step_size": step_size, "final": False}
    with Checkpointer(repo, *run.parts, **options) as checkpointer:
        train(checkpointer, run, range(14))
    assert kinds(repo) == ["13w", "11", "9w", "7w", "5", "3w", "1w"]
    assert list(repo.checkout("HEAD")) == ["model", "step"]
    assert repo.show("HEAD").provenance == {"holds": "weights", "run": checkpointer.run}
    assert "holds" not in repo.show("HEAD~1").provenance
    assert [sizes(repo.resolve(rev)).endswith("weights alone") for rev in ("HEAD", "HEAD~1")] == [True, False]
    assert repo.fsck().problems == []


@pytest.mark.parametrize("step_size", [pytest.param(None, marks=pytest.mark.slow), 0.5])
def test_resume_goes_back_to_the_newest_whole_state(
    repo: Repository, caplog: pytest.LogCaptureFixture, step_size: float | None
) -> None:
    run = Run()
    options = {"every": 6, "weights_every": 2, "step_size": step_size, "final": False}
    with Checkpointer(repo, *run.parts, **run.options, **options) as checkpointer:
        train(checkpointer, run, range(18))
        train(checkpointer, run, range(18, 23))
    again = Run(seed=5)
    with Checkpointer(repo, *again.parts, **again.options, **options) as checkpointer:
        assert checkpointer.resume() == 18
        assert checkpointer.restored.skipped == (19, 21)
        assert not checkpointer.restored.lossy
        assert "those of steps 19, 21" in caplog.text
        train(checkpointer, again, range(18, 24))
    assert again.weights() == undisturbed(24).weights()
    # Nothing is lost and nothing stands twice in one line: what was done again lies beside it.
    assert first_parents(repo) == ["23", "21w", "19w", "17", "15w", "13w", "11", "9w", "7w", "5", "3w", "1w"]
    assert sorted(kinds(repo)).count("19w") == 2
    assert [branch.name for branch in repo.branches()] == ["main"]
    assert repo.fsck().problems == []


def test_whole_states_find_their_bases_behind_weights_alone(tmp_path: Path) -> None:
    sizes = []
    for weights_every in (None, 2):
        run = Run()
        with (
            Repository.init(tmp_path / f"{weights_every}") as repo,
            Checkpointer(
                repo,
                *run.parts,
                **run.options,
                every=6,
                weights_every=weights_every,
                step_size=0.5,
                moments="exact",
            ) as checkpointer,
        ):
            train(checkpointer, run, range(18))
            checkpointer.flush()
            tensors = {tensor.path: tensor for tensor in repo.show("HEAD").tensors}
            sizes.append(sum(tensors[path].stored_bytes for path in tensors if path.endswith("exp_avg_sq")))
            assert {tensors[path].depth > 0 for path in tensors if path.endswith(".0.exp_avg_sq")} == {True}
            kept = {commit.step for commit in repo.log() if commit.exact_layer == "kept"}
            assert kept == {17, 11}
    assert sizes[1] <= sizes[0] * 1.01


def test_a_branch_of_weights_alone_starts_anew(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    options = {"every": 100, "weights_every": 2, "final": False}
    with Checkpointer(repo, *run.parts, **run.options, **options) as checkpointer:
        train(checkpointer, run, range(4))
    again = Run()
    with Checkpointer(repo, *again.parts, **again.options, every=3, weights_every=2) as checkpointer:
        assert checkpointer.resume() == 0
        assert "starts from the beginning" in caplog.text
        train(checkpointer, again, range(3))
    assert kinds(repo) == ["2", "1w", "3w", "1w"]


def test_a_second_run_beside_skipped_weights_is_kept_apart(tmp_path: Path) -> None:
    Repository.init(tmp_path).close()
    one, two = Run(1), Run(2)
    options = {"every": 3, "weights_every": 1}
    with (
        Repository.open(tmp_path) as first,
        Repository.open(tmp_path) as second,
        Checkpointer(first, *one.parts, **one.options, **options) as a,
        Checkpointer(second, *two.parts, **two.options, **options) as b,
    ):
        train(a, one, range(a.resume(), 4))
        a.flush()
        assert b.resume() == 3
        train(a, one, range(4, 5))
        a.flush()
        train(b, two, range(3, 5))
        b.flush()
        assert kinds(first, "main") == ["4w", "3w", "2", "1w", "0w"]
        [kept] = [branch.name for branch in first.branches() if "conflict" in branch.name]
        assert kinds(first, kept) == ["4w", "3w", "2", "1w", "0w"]


def test_sigterm_commits_the_whole_state_also_where_weights_were_due(repo: Repository) -> None:
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        run = Run()
        with Checkpointer(
            repo, *run.parts, **run.options, seconds=1e6, weights_every=2, clock=lambda: 0.0
        ) as checkpointer:
            train(checkpointer, run, range(3))
            os.kill(os.getpid(), signal.SIGTERM)
            train(checkpointer, run, range(3, 4))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert kinds(repo) == ["3", "1w"]
    with Checkpointer(repo, *run.parts, **run.options) as checkpointer:
        assert checkpointer.resume() == 4


@pytest.mark.parametrize("cadence", [{"overhead": 1e-6}, {"seconds": 1e6}])
def test_sigterm_commits_under_every_cadence(repo: Repository, cadence: dict[str, float]) -> None:
    run = Run()

    def loop() -> None:
        with Checkpointer(repo, *run.parts, **run.options, **cadence) as checkpointer:
            train(checkpointer, run, range(2))
            os.kill(os.getpid(), signal.SIGTERM)
            train(checkpointer, run, range(2, 50))

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as ended:
            loop()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 143
    assert kinds(repo) == ["2"]


def test_seconds_by_the_clock(repo: Repository) -> None:
    run, now = Run(), [0.0]
    with Checkpointer(repo, *run.parts, **run.options, seconds=3, clock=lambda: now[0]) as checkpointer:
        for step in range(9):
            now[0] += 1
            run.step()
            checkpointer.after_step(step)
    assert kinds(repo) == ["8", "6", "3"]  # the last one since the run ends


def test_an_overhead_of_all_the_time_commits_and_says_how_often(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mvcs.train")
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, overhead=1.0) as checkpointer:
        # How many steps pay for a commit depends on the machine.
        for step in range(20_000):
            run.step()
            checkpointer.after_step(step)
            # A run whose steps are so short would end before its first commit does.
            checkpointer.flush()
            if len(checkpointer.timings) > 1:
                break
        assert len(checkpointer.timings) > 1
        assert all(timing.processor_ms > 0 for timing in checkpointer.timings)
    assert "steps apart: one costs" in caplog.text
    assert "within 1 of the time, now" in checkpointer.summary()


def test_functions_are_called_with_every_commit_on_the_thread_that_commits(repo: Repository) -> None:
    seen, threads = [], set()

    def remember(commit: object) -> None:
        seen.append(commit.id)
        threads.add(threading.get_ident())

    run = Run()
    with Checkpointer(
        repo, *run.parts, **run.options, every=2, weights_every=1, on_commit=[remember, remember]
    ) as checkpointer:
        train(checkpointer, run, range(4))
    expected = [commit.id for commit in repo.log()][::-1]
    assert seen == [identifier for identifier in expected for _ in range(2)]
    assert threading.get_ident() not in threads


def test_a_function_may_use_the_repository(repo: Repository) -> None:
    run = Run()

    def tag(commit: object) -> None:
        repo.create_tag(f"at-{commit.step}", commit.id)

    with Checkpointer(repo, *run.parts, **run.options, every=2, on_commit=tag) as checkpointer:
        train(checkpointer, run, range(4))
    assert {tag.name for tag in repo.tags()} == {"at-1", "at-3"}


@pytest.mark.parametrize("error", [ZeroDivisionError("no"), SystemExit(3)])
def test_a_function_that_raises_is_loud_and_costs_nothing(
    repo: Repository, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def fail(_commit: object) -> None:
        raise error

    seen = []
    run = Run()
    with Checkpointer(
        repo, *run.parts, **run.options, every=2, on_commit=[fail, seen.append]
    ) as checkpointer:
        train(checkpointer, run, range(4))
        checkpointer.flush()
        assert any("on_commit failed" in problem for problem in repo.status().problems)
    assert [failure.step for failure in checkpointer.callback_failures] == [1, 3]
    assert "step 1 was committed, but on_commit failed" in caplog.text
    assert "2 calls of on_commit failed in this run" in caplog.text
    assert checkpointer.failures == []
    assert len(seen) == 2
    assert kinds(repo) == ["3", "1"]
    assert run.weights() == undisturbed(4).weights()


def test_a_lossy_resume_says_which_parts_are_bounded(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1, step_size=0.5) as checkpointer:
        train(checkpointer, run, range(5))
    with Checkpointer(repo, *run.parts, **run.options, extra={"best": 1}) as checkpointer:
        checkpointer.resume()
        assert checkpointer.restored.exact == ("model", "optimizer", "scheduler", "loader", "rng", "extra")
        assert checkpointer.restored.bounded == checkpointer.restored.anew == ()
    repo.create_branch("early", "HEAD~4")
    with Checkpointer(repo, *run.parts, scaler=Scaler(), loader=run.data, branch="early") as checkpointer:
        checkpointer.resume()
        assert checkpointer.restored.bounded == ("model", "optimizer")
        assert checkpointer.restored.exact == ("loader", "rng")
        assert checkpointer.restored.anew == ("scaler",)
    assert "bounded: model, optimizer; starting from the beginning: scaler" in caplog.text


class Scaler:
    """Stands for what a run has and a commit has not."""

    def state_dict(self) -> dict[str, object]:
        return {}

    def load_state_dict(self, _state: dict[str, object]) -> None:
        raise AssertionError
