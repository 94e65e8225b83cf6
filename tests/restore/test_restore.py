"""Restoring while others commit."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository


class Meanwhile:
    """Progress that does something once, when the first bytes have been read."""

    def __init__(self) -> None:
        self.once: Callable[[], object] | None = None

    def start(self, _stage: str, _total: int | None, _unit: str) -> None:
        pass

    def advance(self, _amount: int) -> None:
        action, self.once = self.once, None
        if action is not None:
            action()

    def finish(self) -> None:
        pass

    def note(self, _message: str) -> None:
        pass


def state(seed: int) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(seed)
    return {name: numbers.normal(size=(300, 300)).astype(np.float32) for name in "abcd"}


@pytest.mark.parametrize("same", [False, True])
def test_an_exact_layer_dropped_while_it_is_read_gives_the_values(tmp_path: Path, *, same: bool) -> None:
    meanwhile = Meanwhile()
    with (
        Repository.init(tmp_path) as other,
        Repository.open(tmp_path, progress=meanwhile) as repo,
    ):
        first = other.commit(state(1), bins=16)
        values = repo.checkout(first.id, numpy=True)
        writer = repo if same else other
        meanwhile.once = lambda: [writer.commit(state(seed), bins=16) for seed in (2, 3)]
        found = repo.restore(first.id, numpy=True)
        assert found.lossy
        assert found.layer == "value"
        for name in values:
            np.testing.assert_array_equal(found.state[name], values[name])


def test_commits_beside_a_restore_do_not_take_its_exact_layer_away(tmp_path: Path) -> None:
    meanwhile = Meanwhile()
    with Repository.init(tmp_path) as made, Repository.open(tmp_path, progress=meanwhile) as repo:
        first = made.commit(state(1), bins=16)
        meanwhile.once = lambda: repo.commit(state(2), bins=16)
        found = repo.restore(first.id, numpy=True)
        assert not found.lossy
        np.testing.assert_array_equal(found.state["d"], state(1)["d"])
