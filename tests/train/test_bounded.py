"""A run that resumes from quantized values trains on, says so, and keeps what it learns."""

import logging
import math

import pytest

from mvcs import Repository
from mvcs.train import Checkpointer
from tests.repository.models import bits, tensors
from tests.train.runs import Run, undisturbed


def train(repo: Repository, run: Run, steps: int, **settings) -> Checkpointer:
    with Checkpointer(repo, *run.parts, **run.options, **({"every": 5} | settings)) as checkpointer:
        start = checkpointer.resume()
        for step in range(start, start + steps):
            checkpointer.after_step(step, {"loss": run.step()})
    assert checkpointer.failures == []
    return checkpointer


STEP, BINS = {"step_size": 0.5}, {"bins": 16}


ALL = [(settings, moments) for settings in (STEP, BINS) for moments in ("exact", "light", "resume")]
QUICK = [(STEP, "exact"), (STEP, "light"), (BINS, "resume")]


@pytest.mark.parametrize(
    ("settings", "moments", "steps"),
    [
        *((*one, (20, 9, 15)) for one in QUICK),
        *(pytest.param(*one, (40, 24, 30), marks=pytest.mark.slow) for one in ALL),
    ],
    ids=str,
)
def test_a_branch_from_an_old_commit_trains_on(
    repo: Repository, settings, moments: str, steps: tuple[int, int, int]
) -> None:
    first, old, more = steps
    train(repo, Run(), first, **settings, moments=moments)
    before = [commit.metrics["loss"] for commit in repo.log()]
    repo.switch("again", create_from=f"step:{old}")
    source = repo.head()
    assert source.exact_layer == "dropped"
    run = Run()
    resumed = train(repo, run, more, **settings, moments=moments).restored
    assert (resumed.lossy, resumed.layer) == (True, "value")
    assert all(value.isfinite().all() for value in tensors(run.model.state_dict()).values())
    own = [commit for commit in repo.log() if commit.step > old]
    assert {commit.lineage_exact for commit in own} == {False}
    assert own[-1].restored_from == source.id
    assert own[-1].errors["snap-back"]["retained"] >= 0.9
    assert math.isfinite(own[0].metrics["loss"])
    # Dropout and small batches are noise: it is not far off, and that is all this run can show.
    assert own[0].metrics["loss"] < 3 * max(before)
    assert repo.fsck().problems == []


def test_that_progress_since_a_lossy_restore_is_kept_is_explained_once(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    repo.config_set("retention.exact_layers", "0")
    train(repo, Run(), 10, step_size=0.5)
    caplog.clear()
    caplog.set_level(logging.INFO, "mvcs.train")
    train(repo, Run(), 6, step_size=0.5, every=1)
    kept = [commit for commit in repo.log() if commit.errors.get("snap-back", {}).get("refined")]
    said = [(record.levelname, record.message) for record in caplog.records if "finer step" in record.message]
    assert [level for level, _ in said] == ["WARNING"] + ["INFO"] * (len(kept) - 1)
    (_, first), *later = said
    assert "nothing needs to be done, and it ends when training has moved far enough" in first
    assert later
    assert all(message.endswith("got a finer step, as told before") for _, message in later)


def test_the_exact_layer_resumes_as_if_nothing_had_happened(repo: Repository) -> None:
    train(repo, Run(), 20, step_size=0.5, moments="light")
    run = Run()
    assert not train(repo, run, 10, step_size=0.5, moments="light").restored.lossy
    assert bits(run.model.state_dict()) == bits(undisturbed(30).model.state_dict())
    assert {commit.lineage_exact for commit in repo.log()} == {True}
