"""A damaged parent must not keep a run from recording the state it has in hand."""

from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository

SPOILED = bytes(64)


def weights(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {f"w{i}": random.standard_normal((128, 128)).astype(np.float32) for i in range(3)}


def nudged(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value * np.float32(1.001) for name, value in state.items()}


@pytest.mark.parametrize("bins", [None, 16])
def test_a_commit_after_damage_stores_its_state_whole(tmp_path: Path, bins: int | None) -> None:
    state = weights(0)
    Repository.init(tmp_path).commit(state, bins=bins)
    (pack,) = (tmp_path / ".mvcs" / "packs").rglob("*.pack")
    content = bytearray(pack.read_bytes())
    content[200:264] = SPOILED
    pack.write_bytes(content)
    repository = Repository.open(tmp_path)

    made = repository.commit(nudged(state), bins=bins)

    restored = repository.checkout(made.id, exact=True, numpy=True)
    assert all(np.array_equal(restored[name], value) for name, value in nudged(state).items())
    assert not repository.fsck().ok
