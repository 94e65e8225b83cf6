"""The hook in a loop: what it commits, what it restores, and what it does when something fails."""

import logging
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mvcs.errors import MvcsError, StateError, UsageError
from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.repository.test_forks import forked
from tests.train.runs import Gate, Run, steps_of, train, undisturbed


def test_a_new_repository_starts_at_zero(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options) as checkpointer:
        assert checkpointer.resume() == 0
        assert checkpointer.restored is None


def test_every_so_many_steps_are_committed_with_their_metrics(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=4, final=False) as checkpointer:
        train(checkpointer, run, range(10))
    commits = list(repo.log())
    assert [commit.step for commit in commits] == [7, 3]
    assert all(set(commit.metrics) == {"loss"} and commit.exactness == "exact" for commit in commits)


@pytest.mark.parametrize("bins", [None, 16])
def test_resume_continues_bit_for_bit(repo: Repository, bins: int | None) -> None:
    first = Run()
    with Checkpointer(repo, *first.parts, **first.options, every=5, bins=bins, final=False) as checkpointer:
        train(checkpointer, first, range(13))
    second = Run(seed=99)
    with Checkpointer(repo, *second.parts, **second.options, every=5, bins=bins) as checkpointer:
        assert checkpointer.resume() == 10
        assert not checkpointer.restored.lossy
        train(checkpointer, second, range(10, 20))
    assert second.weights() == undisturbed(20).weights()


def test_the_state_has_its_documented_layout(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1, extra={"note": "x"}) as checkpointer:
        train(checkpointer, run, range(1))
    state = repo.checkout()
    parts = ["model", "optimizer", "scheduler", "scaler", "loader", "rng", "extra"]
    assert list(state) == [*parts, "optimizer_parameters", "step"]
    assert list(state["rng"]) == ["python", "numpy", "torch", "cuda"]
    assert state["scaler"] is None
    assert state["step"] == 0


@pytest.mark.parametrize("queue", [1, 3])
def test_what_happens_right_after_is_not_in_the_commit(repo: Repository, queue: int) -> None:
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with Checkpointer(repo, model, optimizer, every=1, queue=queue, extra={"seen": 0}) as checkpointer:
        for step in range(8):
            with torch.no_grad():
                model.weight.fill_(step)
            checkpointer.extra["seen"] = step
            checkpointer.after_step(step)
            with torch.no_grad():
                model.weight.fill_(-1)
    for commit in repo.log():
        state = repo.checkout(commit.id)
        assert state["model"]["weight"].unique().tolist() == [commit.step]
        assert state["extra"]["seen"] == commit.step


def test_tied_weights_are_stored_once_and_come_back_tied(repo: Repository) -> None:
    model = nn.ModuleDict({"in": nn.Embedding(32, 8), "out": nn.Linear(8, 32, bias=False)})
    model["out"].weight = model["in"].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Checkpointer(repo, model, optimizer, every=1) as checkpointer:
        checkpointer.after_step(0)
    weights = repo.checkout()["model"]
    assert weights["in.weight"].data_ptr() == weights["out.weight"].data_ptr()


def test_extra_objects_generators_and_values_come_back(repo: Repository) -> None:
    run = Run()
    generator = torch.Generator().manual_seed(5)
    average = nn.Linear(3, 3)
    with Checkpointer(
        repo, *run.parts, extra={"ema": average, "noise": generator, "best": 1.5}, every=1
    ) as checkpointer:
        checkpointer.extra["best"] = 0.25
        checkpointer.after_step(0)
    expected = torch.rand(3, generator=generator).tolist()
    other, again = nn.Linear(3, 3), torch.Generator()
    with Checkpointer(repo, *run.parts, extra={"ema": other, "noise": again, "best": None}) as checkpointer:
        checkpointer.resume()
        assert checkpointer.extra["best"] == 0.25
    assert torch.equal(other.weight, average.weight)
    assert torch.rand(3, generator=again).tolist() == expected


def test_save_commits_on_demand(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options) as checkpointer:
        checkpointer.save(2, {"loss": 1.0}, "by hand")
        checkpointer.flush()
        assert repo.head().message == "by hand"
        assert repo.head().step == 2


@pytest.mark.parametrize("step", [np.int64(3), torch.tensor(3)])
def test_a_step_may_be_any_whole_number(repo: Repository, step: Any) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options) as checkpointer:
        checkpointer.save(step)
    assert steps_of(repo) == [3]
    with Checkpointer(repo, *run.parts, **run.options) as checkpointer:
        assert checkpointer.resume() == 4


def test_a_closed_checkpointer_says_so(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, every=1) as checkpointer:
        pass
    with pytest.raises(UsageError, match="closed"):
        checkpointer.after_step(0)


def test_messages_can_be_made(repo: Repository) -> None:
    run = Run()
    with Checkpointer(
        repo, *run.parts, every=1, message=lambda step, metrics: f"{step}: {metrics['loss']}"
    ) as checkpointer:
        checkpointer.after_step(0, {"loss": torch.tensor(2.0)})
    assert repo.head().message == "0: 2.0"


def test_an_exception_in_the_block_commits_what_is_queued_and_goes_on(repo: Repository) -> None:
    run = Run()

    def fail() -> None:
        with Checkpointer(repo, *run.parts, every=1, queue=3) as checkpointer:
            train(checkpointer, run, range(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert steps_of(repo) == [2, 1, 0]


def test_a_lossy_restore_is_said_loudly_and_in_every_descendant(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    first = Run()
    with Checkpointer(repo, *first.parts, **first.options, every=2, bins=8) as checkpointer:
        train(checkpointer, first, range(8))
    repo.create_branch("again", "step:1")
    repo.switch("again")
    source = repo.head()
    assert source.exact_layer == "dropped"
    second = Run()
    with Checkpointer(repo, *second.parts, **second.options, every=2, bins=8) as checkpointer:
        assert checkpointer.resume() == 2
        assert checkpointer.restored.lossy
        assert checkpointer.restored.layer == "value"
        assert "differs from what was committed" in caplog.text
        train(checkpointer, second, range(2, 8))
    third = Run()
    with Checkpointer(repo, *third.parts, **third.options, every=2, bins=8) as checkpointer:
        assert checkpointer.resume() == 8
        assert not checkpointer.restored.lossy
        train(checkpointer, third, range(8, 10))
    after = [commit for commit in repo.log() if commit.step > 1]
    assert [commit.step for commit in after] == [9, 7, 5, 3]
    assert {commit.lineage_exact for commit in after} == {False}
    assert after[-1].restored_from == source.id
    assert [commit.exactness for commit in after] == ["bounded", "bounded", "bounded", "bounded"]
    assert {commit.lineage_exact for commit in repo.log("main")} == {True}


@pytest.mark.parametrize("place", [-3, 90])
def test_a_damaged_exact_layer_is_as_a_missing_one_and_its_packs_are_named(
    repo: Repository, caplog: pytest.LogCaptureFixture, place: int
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1, bins=8) as checkpointer:
        train(checkpointer, run, range(2))
    packs = list((repo.top / ".mvcs" / "exact").rglob("*.pack"))
    before = {path: path.read_bytes() for path in packs}
    for path, content in before.items():
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
    with Checkpointer(repo, *run.parts, **run.options, every=1, bins=8) as checkpointer:
        assert checkpointer.resume() == 2
        restored = checkpointer.restored
        assert (restored.layer, restored.lossy, len(restored.damaged)) == ("value", True, 1)
        assert "since its exact layer is damaged" in str(restored)
        (told,) = (record for record in caplog.records if record.levelname == "ERROR")
        assert restored.damaged[0] in told.getMessage()
        assert all(path.exists() for path in packs)
        for path, content in before.items():
            path.write_bytes(content)
        checkpointer.resume()
        assert (checkpointer.restored.lossy, checkpointer.restored.damaged) == (False, ())
        for path in packs:
            path.write_bytes(path.read_bytes()[:-40])
        assert repo.show("HEAD").commit.exact_layer == "damaged"
        checkpointer.resume()
        train(checkpointer, run, range(2, 3))
    assert repo.head().lineage_exact is False


def test_what_a_commit_has_to_say_is_logged(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1, bins=16) as checkpointer:
        train(checkpointer, run, range(4))
    repo.create_branch("early", "HEAD~3")
    with Checkpointer(repo, *run.parts, **run.options, every=1, bins=16, branch="early") as checkpointer:
        train(checkpointer, run, range(checkpointer.resume(), 2))
    assert "kept exact" in caplog.text


def test_a_failing_store_is_loud_and_training_goes_on(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    packs = repo.top / ".mvcs" / "packs"
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        train(checkpointer, run, range(1))
        checkpointer.flush()
        packs.rename(packs.with_name("away"))
        packs.write_text("a file where a folder should be")
        train(checkpointer, run, range(1, 3))
        checkpointer.flush()
        assert [failure.step for failure in checkpointer.failures] == [1, 2]
        assert "step 1 was not committed" in caplog.text
        assert any("step 2" in problem for problem in repo.status().problems)
        packs.unlink()
        packs.with_name("away").rename(packs)
        caplog.clear()
        train(checkpointer, run, range(3, 4))
        assert "the run is not safe: step 2 was not committed" in caplog.text
        caplog.clear()
    assert steps_of(repo) == [3, 0]
    assert "2 commits of this run failed, those of steps 1, 2" in caplog.text
    assert run.weights() == undisturbed(4).weights()
    assert repo.fsck().problems == []


def test_a_state_that_cannot_be_stored_is_a_failure_with_its_path(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, every=1, final=False) as checkpointer:
        checkpointer.extra["hook"] = print
        train(checkpointer, run, range(1))
    [failure] = checkpointer.failures
    assert failure.kind == "StateError"
    assert "hook" in failure.message


def test_a_state_that_cannot_be_stored_is_told_at_the_start(repo: Repository) -> None:
    run = Run()
    with pytest.raises(StateError, match=r"extra\.more\.hook: a .builtin_function_or_method. cannot"):
        Checkpointer(repo, *run.parts, extra={"more": {"hook": print}})


def test_moments_that_cannot_be_stored_are_told_at_the_first_step(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, every=100, final=False) as checkpointer:
        weight = next(run.model.parameters())
        run.optimizer.state[weight]["basis"] = torch.eye(2).to_sparse()
        checkpointer.after_step(0)
        checkpointer.after_step(1)
    told = [record.getMessage() for record in caplog.records if "basis" in record.getMessage()]
    (said,) = told
    assert said.startswith(
        "no whole state of this run can be committed: optimizer.state.0.basis: a sparse_coo tensor"
    )
    assert checkpointer.failures == []
    assert any("basis" in problem for problem in repo.status().problems)


class Broken:
    """A part whose state cannot be asked for."""

    def state_dict(self) -> dict[str, object]:
        raise KeyError("gone")

    def load_state_dict(self, _state: dict[str, object]) -> None:
        return


@pytest.mark.parametrize(
    ("options", "metrics"),
    [
        ({"extra": {"broken": Broken()}}, {"loss": 1.0}),
        ({"message": lambda _step, metrics: f"at {metrics['accuracy']}"}, {"loss": 1.0}),
    ],
)
def test_errors_in_what_the_user_hands_over_cost_one_commit(
    repo: Repository, options: dict[str, Any], metrics: dict[str, Any]
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=2, **options) as checkpointer:
        for step in range(4):
            run.step()
            checkpointer.after_step(step, metrics)
        assert [failure.step for failure in checkpointer.failures] == [1, 3]
        [problem] = repo.status().problems
        assert problem.endswith("(2 alike since step 1)")


def test_a_folder_that_vanished_is_not_made_again(tmp_path: Path) -> None:
    place = tmp_path / "mounted"
    run = Run()
    with (
        Repository.init(place) as repo,
        Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer,
    ):
        train(checkpointer, run, range(checkpointer.resume(), 1))
        checkpointer.flush()
        place.rename(tmp_path / "elsewhere")
        train(checkpointer, run, range(1, 3))
        checkpointer.flush()
        assert not place.exists()
        (tmp_path / "elsewhere").rename(place)
        train(checkpointer, run, range(3, 4))
    assert [failure.step for failure in checkpointer.failures] == [1, 2]
    assert steps_of(repo, "main") == [3, 0]


def test_a_full_queue_skips_when_asked_to(tmp_path: Path) -> None:
    gate = Gate()
    run = Run()
    Repository.init(tmp_path).close()
    with (
        Repository.open(tmp_path, progress=gate) as repo,
        Checkpointer(repo, *run.parts, **run.options, every=1, on_full="skip") as checkpointer,
    ):
        train(checkpointer, run, range(1))
        assert gate.reached.wait(60)
        train(checkpointer, run, range(1, 4))
        gate.opened.set()
        checkpointer.flush()
        train(checkpointer, run, range(4, 5))
        checkpointer.flush()
        assert checkpointer.skipped == [1, 2, 3]
        assert steps_of(repo) == [4, 0]


def test_a_full_queue_makes_training_wait_by_default(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        train(checkpointer, run, range(6))
    assert checkpointer.skipped == []
    assert steps_of(repo) == [5, 4, 3, 2, 1, 0]
    assert max(timing.queue_wait_ms for timing in checkpointer.timings) > 0


def test_times_are_reported_apart(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1, bins=16) as checkpointer:
        train(checkpointer, run, range(3))
    assert [timing.step for timing in checkpointer.timings] == [0, 1, 2]
    assert [timing.commit for timing in checkpointer.timings] == [commit.id for commit in repo.log()][::-1]
    for timing in checkpointer.timings:
        assert timing.blocked_ms > 0
        assert timing.encode_ms > 0
        assert timing.write_ms > 0
    assert checkpointer.summary().startswith("3 committed, 0 failed, 0 skipped; median ms: blocked ")
    assert repr(checkpointer) == f"<Checkpointer of {repo!r}: {checkpointer.summary()}>"


def test_sigterm_calls_the_handler_that_was_there(repo: Repository) -> None:
    calls = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: calls.append(number))
    try:
        run = Run()
        with Checkpointer(repo, *run.parts, **run.options, every=100, final=False) as checkpointer:
            train(checkpointer, run, range(2))
            os.kill(os.getpid(), signal.SIGTERM)
            assert calls == []
            train(checkpointer, run, range(2, 4))
            assert calls == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert steps_of(repo) == [2]


def test_a_loader_without_a_position_is_mentioned_once(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, loader=[1, 2], every=1) as checkpointer:
        train(checkpointer, run, range(2))
    assert caplog.text.count("position in the data is not saved") == 1


def test_parts_that_only_one_side_has_are_named(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, scheduler=run.scheduler, extra={"a": 1}, every=1) as checkpointer:
        train(checkpointer, run, range(1))
    with Checkpointer(repo, *run.parts, loader=run.data, extra={"b": 2}) as checkpointer:
        checkpointer.resume()
        assert checkpointer.extra == {"b": 2}
    for text in ("a scheduler state that nothing", "no loader state", "an extra 'a'", "no extra 'b'"):
        assert text in caplog.text


def test_a_commit_that_is_no_training_state_is_refused(repo: Repository) -> None:
    repo.commit({"weights": torch.ones(3)}, message="something else")
    run = Run()
    with (
        Checkpointer(repo, *run.parts, **run.options) as checkpointer,
        pytest.raises(UsageError, match="training run"),
    ):
        checkpointer.resume()


@pytest.mark.parametrize(
    "options",
    [
        {"every": 0},
        {"queue": 0},
        {"on_full": "drop"},
        {"bins": 1},
        {"prune": 0.2},
        {"bins": 16, "protect": 2.0},
        {"scheduler": object()},
    ],
)
def test_impossible_settings_are_refused_at_once(repo: Repository, options: dict[str, object]) -> None:
    run = Run()
    with pytest.raises(MvcsError) as refused:
        Checkpointer(repo, *run.parts, **options)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("name", ["evaluator", "max_loss"])
def test_what_is_not_built_is_not_accepted(repo: Repository, name: str) -> None:
    run = Run()
    with pytest.raises(TypeError, match=name):
        Checkpointer(repo, *run.parts, **{name: None})


def test_the_log_says_what_was_resumed(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mvcs.train")
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1, bins=16) as checkpointer:
        train(checkpointer, run, range(1))
    with Checkpointer(repo, *run.parts, **run.options) as checkpointer:
        checkpointer.resume()
    assert f"resumed after step 0 from the exact layer of commit {repo.head().short}" in caplog.text


def test_a_run_on_no_branch_is_told_once_how_to_make_one(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        train(checkpointer, run, range(1))
    assert "HEAD is detached" not in caplog.text
    (repo.top / ".mvcs" / "HEAD").write_text(repo.head().id + "\n")
    with (
        Repository.open(repo.top) as again,
        Checkpointer(again, *run.parts, **run.options, every=1) as detached,
    ):
        train(detached, run, range(detached.resume(), 3))
    assert caplog.text.count("'mvcs switch -c NAME'") == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_is_told_that_the_hook_is_its_parents(tmp_path: Path) -> None:
    Repository.init(tmp_path).close()
    gate, run = Gate(), Run()

    def work(checkpointer: Checkpointer) -> None:
        for act in (checkpointer.flush, lambda: checkpointer.save(1)):
            with pytest.raises(UsageError, match="another process"):
                act()
        checkpointer.finish()  # nothing of the parent's run ends with the child

    with Repository.open(tmp_path, progress=gate) as repo, Checkpointer(repo, *run.parts) as checkpointer:
        checkpointer.save(0)
        assert gate.reached.wait(600)
        try:
            assert forked(partial(work, checkpointer)) == 0
        finally:
            gate.opened.set()
    assert steps_of(repo) == [0]


def test_files_committed_behind_a_run_say_what_resume_needs(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, every=1) as checkpointer:
        checkpointer.after_step(0)
    state = repo.head()
    np.savez(repo.top / "notes.npz", a=np.ones(3))
    made = repo.commit_files([repo.top / "notes.npz"], message="beside it")
    assert any(f"'mvcs reset {state.short}'" in note for note in made.notes)
    again = repo.commit_files([repo.top / "notes.npz"], message="once more", step=2)
    assert not any("training run" in note for note in again.notes)
    repo.reset(state.id)
    with Checkpointer(repo, *run.parts) as checkpointer:
        assert checkpointer.resume() == 1
