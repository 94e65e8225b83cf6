"""A commit leans on what the commit that it continues needs, and on nothing of other branches."""

from pathlib import Path

import numpy as np

from mvcs import Repository
from tests.repository.states import leaves


def noise(seed: int, count: int = 50_000) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def test_a_branch_that_is_pushed_alone_can_be_cloned(tmp_path: Path) -> None:
    """Committed in one process, behind a commit of another branch with an equal tensor."""
    with Repository.init(tmp_path / "work") as repo:
        repo.commit({"n": 1}, branch="other")
        repo.commit({"n": 2, "w": noise(0)}, branch="other")
        repo.commit({"w": noise(0)})
        repo.add_remote("lab", str(tmp_path / "lab"))
        repo.push("lab")
    with Repository.clone(str(tmp_path / "lab"), tmp_path / "clone") as clone:
        assert leaves(clone.checkout(numpy=True)) == leaves({"w": noise(0)})


def test_a_commit_stays_whole_when_the_branch_with_an_equal_tensor_goes(tmp_path: Path) -> None:
    """The equal tensor's pack holds another tensor, near one of a pack that goes with the branch."""
    with Repository.init(tmp_path / "work") as repo:
        repo.commit({"x": noise(1)}, branch="other")
        repo.commit({"x": noise(1) + np.float32(1e-4) * noise(2), "w": noise(0)}, branch="other")
        repo.commit({"w": noise(0)})
        repo.delete_branch("other", force=True)
        repo.add_remote("lab", str(tmp_path / "lab"))
        repo.push("lab")
    with Repository.clone(str(tmp_path / "lab"), tmp_path / "clone") as clone:
        assert leaves(clone.checkout(numpy=True)) == leaves({"w": noise(0)})
        assert clone.fsck().ok


def test_a_copy_that_is_near_what_the_commit_does_not_need_is_passed_over(tmp_path: Path) -> None:
    """A tensor returned to an old value; which of its two copies is found first, the names of packs tell."""

    def walk(*seeds: int) -> np.ndarray:
        return noise(1, 100_000) + sum(np.float32(1e-4) * noise(seed, 100_000) for seed in seeds)

    for attempt in range(4):
        folder, kept = tmp_path / str(attempt), {"w": noise(100 + attempt)}
        Repository.init(folder).close()
        history = (
            {"x": walk()},
            *({"x": x} | kept for x in (walk(2), noise(3, 100_000), walk(2), walk(2, 4))),
        )
        for state in history:
            with Repository.open(folder) as repo:
                repo.commit(state)
        with Repository.open(folder) as repo:
            repo.amend(message="said better")
            assert leaves(repo.checkout(numpy=True)) == leaves(history[-1])
