"""Commits with hardly any memory to keep things in: slower, larger, and nothing fails."""

import numpy as np
import pytest

from mvcs import Repository


def filled(seed=0):
    rng = np.random.default_rng(seed)
    large = {f"large{i}": rng.standard_normal((1100, 1024), dtype=np.float32) for i in range(3)}
    small = {f"small{i}": rng.standard_normal((30, 40), dtype=np.float32) for i in range(9)}
    return {"model": large | small, "step": 1}


def moved(state, seed):
    rng = np.random.default_rng(seed)
    model = {name: array + np.float32(0.01) * rng.standard_normal() for name, array in state["model"].items()}
    return {"model": model, "step": state["step"] + 1}


def alike(one, other):
    return all(np.array_equal(one["model"][name], other["model"][name]) for name in other["model"])


@pytest.mark.parametrize("budget", ["0", "64MiB"])
@pytest.mark.parametrize("settings", [{}, {"step_size": 0.5}], ids=["exact", "bounded"])
def test_a_small_budget_fails_no_commit_and_no_checkout(tmp_path, budget, settings):
    with Repository.init(tmp_path) as repo:
        repo.config_set("memory.budget", budget)
        repo.config_set("commit.threads", "3")
    with Repository.open(tmp_path) as repo:
        state = filled()
        for seed in range(3):
            state = moved(state, seed)
            repo.commit(state, **settings)
            assert alike(repo.checkout(numpy=True, exact=True), state)
        assert repo.checkout(numpy=True)["step"] == 4
        assert repo.fsck().ok


def test_where_all_has_room_a_larger_budget_changes_no_code(tmp_path):
    trees = []
    for budget in ("2GiB", "4GiB"):
        with Repository.init(tmp_path / budget) as repo:
            repo.config_set("memory.budget", budget)
        with Repository.open(tmp_path / budget) as repo:
            state = filled()
            for seed in range(3):
                state = moved(state, seed)
                repo.commit(state, step_size=0.5)
                trees.append(repo._session.head().commit.tree)
    assert trees[:3] == trees[3:]
