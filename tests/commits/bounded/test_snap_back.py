"""A run that continues from lossily restored weights keeps the progress it makes, however small it is."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.quantize import LatticeConfig
from mvcs.quantize.measure import ErrorSums, measure_progress

SHAPE = (300, 200)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


def weights(*names):
    values = np.random.default_rng(0)
    return {name: values.standard_normal(SHAPE, dtype=np.float32) for name in names}


def moved(before, **by):
    """The weights after small updates, whose root mean square is given for each tensor."""
    noise = np.random.default_rng(1)
    return {
        name: (value + by[name] * noise.standard_normal(SHAPE)).astype(np.float32)
        for name, value in before.items()
    }


def retained(repo, rev, now, before):
    restored = repo.checkout(rev, numpy=True)
    return {name: measure_progress(restored[name], now[name], before[name]).retained for name in now}


def test_without_the_check_progress_would_snap_back(repo):
    """The trap itself: small updates from the lattice, and the same lattice again."""
    first = repo.commit(weights("a"), step_size=0.5)
    before = repo.checkout(first.id, numpy=True)
    now = moved(before, a=0.02)
    unaware = repo.commit(now, step_size=0.5)

    assert retained(repo, unaware.id, now, before)["a"] < 0.01


@pytest.mark.parametrize("step_size", [0.12, 0.25, 0.5])
def test_small_progress_survives(repo, step_size):
    first = repo.commit(weights("a"), step_size=step_size)
    before = repo.checkout(first.id, numpy=True)
    now = moved(before, a=0.02)
    after = repo.commit(now, step_size=step_size, restored_from=first.id)

    assert retained(repo, after.id, now, before)["a"] >= 0.9
    assert after.exactness == "bounded"
    assert after.errors["snap-back"]["refined"] == 1
    assert after.errors["snap-back"]["retained"] >= 0.9
    assert any("finer step" in note for note in after.notes)


def test_layers_that_move_far_less_than_others_are_refined_alone(repo):
    first = repo.commit(weights("far", "near", "still"), step_size=0.5)
    before = repo.checkout(first.id, numpy=True)
    now = moved(before, far=1.0, near=0.01, still=0.0)
    after = repo.commit(now, step_size=0.5, restored_from=first.id)

    kept = retained(repo, after.id, now, before)
    assert min(kept.values()) >= 0.9
    assert after.errors["snap-back"]["refined"] == 1
    assert after.errors["snap-back"]["exact"] == 0


def test_a_trial_refines_what_would_snap_back_as_the_commit_does(repo):
    first = repo.commit(weights("far", "near", "still"), step_size=0.5)
    before = repo.checkout(first.id, numpy=True)
    now, known = moved(before, far=1.0, near=0.01, still=0.0), {"restored_from": first.id}
    guarded, unaware = (repo.trial(now, quantizer=LatticeConfig(), **told) for told in (known, {}))
    made = repo.commit(now, quantizer=guarded.steps(guarded.starts, 0.0), **known)
    tried = [guarded.tried(kind, step, 0.0) for kind, step in guarded.starts.items()]
    lost = ErrorSums.total([each.errors for each in tried])
    assert made.errors["snap-back"]["refined"] == 1
    assert lost.relative == pytest.approx(made.errors["weight"]["relative"], rel=1e-9)
    without = unaware.tried("near", guarded.starts["near"], 0.0)
    assert guarded.tried("near", guarded.starts["near"], 0.0).stored > without.stored


def test_later_commits_are_checked_until_steps_are_large_enough(repo):
    first = repo.commit(weights("a"), step_size=0.5)
    before = repo.checkout(first.id, numpy=True)
    now, known = moved(before, a=0.02), {"restored_from": first.id}
    for _ in range(3):
        commit = repo.commit(now, step_size=0.5, **known)
        known = {}  # a descendant inherits it
        assert retained(repo, commit.id, now, before)["a"] >= 0.9
        now = {"a": now["a"] + (now["a"] - before["a"])}
    far = repo.commit(moved(before, a=2.0), step_size=0.5)
    assert far.errors["snap-back"]["refined"] == 0
    assert "snap-back" not in repo.commit(moved(before, a=2.1), step_size=0.5).errors


def test_progress_too_small_for_any_step_keeps_a_tensor_exact(repo):
    first = repo.commit(weights("a", "b"), step_size=0.5)
    before = repo.checkout(first.id, numpy=True)
    now = moved(before, a=1e-6, b=1.0)
    after = repo.commit(now, step_size=0.5, restored_from=first.id)

    assert after.errors["snap-back"]["exact"] == 1
    assert np.array_equal(repo.checkout(after.id, numpy=True)["a"], now["a"])


def test_a_table_cannot_be_refined_and_gives_way_to_exact_values(repo):
    first = repo.commit(weights("a"), bins=8)
    before = repo.checkout(first.id, numpy=True)
    now = moved(before, a=0.01)
    after = repo.commit(now, bins=8, restored_from=first.id)

    assert np.array_equal(repo.checkout(after.id, numpy=True)["a"], now["a"])
    assert (after.exactness, after.restored_from, after.lineage_exact) == ("exact", first.id, False)


@pytest.mark.parametrize("settings", [{"bins": 8}, {"step_size": 0.5}], ids=str)
@pytest.mark.parametrize("onward", [0.0, 1.0, -0.1], ids=str)
def test_progress_that_the_restored_commit_kept_is_not_taken_back(repo, settings, onward):
    """It lies beside the codes; what moved since tells nothing of it, least of all where that points back."""
    repo.config_set("retention.exact_layers", "0")
    first = repo.commit(weights("a", "b"), **settings)
    start = repo.checkout(first.id, numpy=True)
    learned = moved(start, a=0.01, b=2.0)
    second = repo.commit(learned, restored_from=first.id, **settings)
    before = repo.checkout(second.id, numpy=True)
    now = {"a": before["a"] + np.float32(onward) * (before["a"] - start["a"]), "b": before["b"]}
    after = repo.commit(now, restored_from=second.id, **settings)

    kept = repo.checkout(after.id, numpy=True)
    assert np.linalg.norm(kept["a"] - now["a"]) <= np.linalg.norm(before["a"] - now["a"])
    assert after.errors["snap-back"]["retained"] >= 0.9
    assert after.errors["snap-back"]["exact"] + after.errors["snap-back"]["refined"] >= 1


def test_an_exact_commit_after_a_restore_needs_no_check(repo):
    first = repo.commit(weights("a"), step_size=0.5)
    before = repo.checkout(first.id, numpy=True)
    after = repo.commit(before, restored_from=first.id)

    assert (after.exactness, after.lineage_exact) == ("exact", False)


def test_exact_commits_between_do_not_end_the_check(repo):
    first = repo.commit(weights("a"), step_size=0.5)
    before = repo.checkout(first.id, numpy=True)
    repo.commit(moved(before, a=0.01), restored_from=first.id)
    now = moved(before, a=0.02)
    repo.commit(now)
    after = repo.commit(now, step_size=0.5)

    assert retained(repo, after.id, now, before)["a"] >= 0.9
    assert after.errors["snap-back"]["refined"] == 1


def test_a_clone_without_the_restored_commit_commits_on(repo, tmp_path):
    """It lies on a branch that was never pushed: what cannot be compared is kept exactly."""
    repo.commit(weights("b"), step_size=0.5)
    repo.switch("side", create_from="main")
    first = repo.commit(weights("a"), step_size=0.5)
    before = repo.checkout(first.id, numpy=True)
    repo.switch("main")
    now = moved(before, a=0.02)
    repo.commit(now, step_size=0.5, restored_from=first.id)
    repo.add_remote("origin", str(tmp_path / "far"))
    repo.push()
    with Repository.clone(str(tmp_path / "far"), tmp_path / "clone") as clone:
        after = clone.commit(now, step_size=0.5)
        assert after.errors["snap-back"]["exact"] == 1
        assert np.array_equal(clone.checkout(numpy=True)["a"], now["a"])
