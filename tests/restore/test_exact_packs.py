"""Exact layers belong to one commit each, also when two commits hold the same state."""

import pathlib

import numpy as np

from mvcs import Repository


def test_equal_commits_have_exact_packs_of_their_own(tmp_path: pathlib.Path) -> None:
    repository = Repository.init(tmp_path)
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)

    for _ in range(3):
        repository.commit({"w": weights}, bins=16)

    assert len(list((tmp_path / ".mvcs" / "exact").rglob("*.pack"))) == 2
    assert [commit.exact_layer for commit in repository.log()] == ["kept", "kept", "dropped"]
    assert np.array_equal(repository.checkout("HEAD~1", exact=True, numpy=True)["w"], weights)
    assert repository.fsck().ok
