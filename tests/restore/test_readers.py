"""Reading through the repository that commits at the same time."""

import threading
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository


@pytest.mark.parametrize("commits", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_readers_are_not_disturbed_by_commits_through_the_same_repository(
    tmp_path: Path, commits: int
) -> None:
    repository = Repository.init(tmp_path)
    random = np.random.default_rng(0)
    states = [
        {f"w{i}": random.standard_normal((64, 64)).astype(np.float32) for i in range(8)} for _ in range(4)
    ]
    first = repository.commit(states[0], bins=16)
    repository.create_tag("first")
    second = repository.commit(states[1], bins=16)
    repository.create_tag("second")
    done, begun = threading.Event(), threading.Semaphore(0)

    def commit() -> None:
        try:
            for turn in range(commits):
                begun.release()
                repository.commit(states[2 + turn % 2], bins=16)
        finally:
            done.set()
            begun.release()

    writer = threading.Thread(target=commit)
    writer.start()
    while not done.is_set():
        begun.acquire()  # one look for each commit, beside it
        exact = repository.checkout(second.id, exact=True, numpy=True)
        assert np.array_equal(exact["w0"], states[1]["w0"])
        assert len(repository.diff(first.id, second.id).tensors) == 8
        assert len(repository.show(first.id).tensors) == 8
    writer.join()

    assert repository.fsck().ok
    assert len(list(repository.log())) == commits + 2
