"""Chains stay short, and an open process keeps what its next exact commit is stored near."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mvcs import Repository
from mvcs.restore.show import located_chunks
from tests.repository.states import leaves

ROWS = 520  # of 256 values: large enough for entries of their own


def walk(seed: int, share: float = 0.01) -> torch.Tensor:
    """Return float32 weights that moved `seed` times."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(ROWS, 256, generator=generator)
    for _ in range(seed):
        weight += share * torch.randn(ROWS, 256, generator=generator)
    return weight


def depths(repo: Repository, commits: int) -> list[int]:
    return [repo.restore_figures(f"step:{step}").depth for step in range(commits)]


def test_exact_chains_end_where_a_restore_costs_too_much(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        for step in range(7):
            repo.commit({"w": walk(step)}, step=step)
        assert depths(repo, 7) == [0, 1, 2, 0, 1, 2, 0]
        repo.config_set("restore.max_cost", "1")
    with Repository.open(tmp_path) as repo:
        repo.commit({"w": walk(7)}, step=7)
        assert depths(repo, 8)[-1] == 0


def test_small_deltas_go_back_on_a_full_chain_instead_of_being_snapshots(tmp_path: Path) -> None:
    weight, random = walk(0), np.random.default_rng(0)
    with Repository.init(tmp_path) as repo:
        sizes = []
        for step in range(24):
            weight.view(-1)[random.integers(0, weight.numel(), 200)] *= 1.001
            sizes.append(repo.commit({"w": weight}, step=step).stored_bytes)
        found = depths(repo, 24)
    assert max(found) == 8
    assert found.count(0) == 1
    assert max(sizes[1:]) < sizes[0] / 10


def test_a_longer_chain_of_other_limits_is_read_and_continued(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        repo.config_set("restore.max_cost", "1000")
    with Repository.open(tmp_path) as repo:
        for step in range(5):
            repo.commit({"w": walk(step)}, step=step)
        repo.config_unset("restore.max_cost")
    with Repository.open(tmp_path) as repo:
        repo.commit({"w": walk(5)}, step=5)
        assert depths(repo, 6) == [0, 1, 2, 3, 4, 0]
        assert torch.equal(repo.restore("step:4").state["w"], walk(4))


def test_an_open_process_keeps_what_the_next_commit_is_stored_near(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        kept = []
        for step in range(4):
            repo.commit({"w": walk(step)}, step=step)
            kept.append(repo._session.store.recent_values._hold.bytes)
    # The first of a process may be its last, and on the third, two deltas deep, the next is stored alone.
    assert kept == [0, walk(0).nbytes, 0, walk(0).nbytes]


def test_a_bounded_commit_gives_the_memory_back(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        for step in range(2):
            repo.commit({"w": walk(step)}, step=step)
        repo.commit({"w": walk(2)}, step=2, step_size=0.5)
        assert repo._session.store.recent_values._hold.bytes == 0


def test_without_memory_nothing_is_kept(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        repo.config_set("memory.budget", "0")
    with Repository.open(tmp_path) as repo:
        for step in range(3):
            repo.commit({"w": walk(step)}, step=step)
        assert repo._session.store.recent_values._hold.bytes == 0
        assert torch.equal(repo.restore("HEAD").state["w"], walk(2))


def test_a_base_that_rots_between_two_commits_is_not_leant_on(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        for step in range(2):
            repo.commit({"w": walk(step)}, step=step)
        reading = repo._reading("HEAD")
        link = located_chunks(reading.store, reading.tree.leaves[0])[0]
        with next(tmp_path.rglob(f"{link.pack}*")).open("r+b") as file:
            file.seek(link.placed.offset + link.placed.length // 2)
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 1]))
        repo.commit({"w": walk(2)}, step=2)
    with Repository.open(tmp_path) as repo:
        assert repo.restore_figures("HEAD").depth == 0
        assert torch.equal(repo.restore("HEAD").state["w"], walk(2))


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_whatever_moves_and_is_equal_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Tensors that were equal and part, that grow, that return to what they were; two branches in turn."""
    values = [torch.full((ROWS, 256), float(number)) + walk(0) for number in range(3)]
    with Repository.init(tmp_path_factory.mktemp("repo")) as repo:
        made: dict[str, dict[str, torch.Tensor]] = {}
        branches = {"main": 0, "other": 0}
        for step in range(data.draw(st.integers(3, 6))):
            branch = data.draw(st.sampled_from(sorted(branches)))
            state = {
                name: values[data.draw(st.integers(0, 2))].clone()[: ROWS - data.draw(st.integers(0, 1))]
                for name in "abc"
            }
            if data.draw(st.booleans()):
                state["a"] = state["a"] + 0.001 * torch.randn(state["a"].shape)
            info = repo.commit(state, step=step, branch=branch)
            made[info.id] = {name: value.clone() for name, value in state.items()}
            for value in state.values():
                value.zero_()  # whoever calls may write to it again
        for commit, state in made.items():
            assert leaves(repo.restore(commit).state) == leaves(state)


def test_what_one_tensor_keeps_is_not_written_over_for_another(tmp_path: Path) -> None:
    """Two tensors are equal, then one of them moves: the other still has the same base after that."""
    fresh = torch.rand(ROWS, 256)
    states = [
        {"c": walk(0)},
        {"a": fresh, "b": fresh.clone()},
        {"a": fresh, "b": fresh + 0.01},
        {"a": fresh + 0.02, "b": fresh + 0.01},
    ]
    with Repository.init(tmp_path) as repo:
        for step, state in enumerate(states):
            repo.commit(state, step=step)
        for step, state in enumerate(states):
            assert leaves(repo.restore(f"step:{step}").state) == leaves(state)
