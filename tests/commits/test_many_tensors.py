"""States of many small tensors: work is done once an entry or a commit, and misses nothing by that."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.repository.session import Session
from tests.store.faults import FaultyBackend

COUNT = 2000
State = dict[str, np.ndarray]


def small_tensors() -> State:
    random = np.random.default_rng(0)
    return {f"layers.{i}": random.standard_normal(64).astype(np.float32) for i in range(COUNT)}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path) as made:
        made.commit(small_tensors())
        yield made


def test_tensors_that_did_not_change_are_looked_at_once_an_entry(repository: Repository) -> None:
    session = repository._session
    backend = FaultyBackend(session.place.backend)
    repository._session = Session(dataclasses.replace(session.place, backend=backend), session.progress)

    repository.commit(small_tensors())

    assert len([name for name, _, _ in backend.reads if name.endswith(".pack")]) < 20


def test_damage_since_the_commit_before_is_found_among_many(repository: Repository, tmp_path: Path) -> None:
    (pack,) = (tmp_path / ".mvcs" / "packs").rglob("*.pack")
    content = bytearray(pack.read_bytes())
    content[5000:5064] = bytes(64)
    pack.write_bytes(content)

    made = repository.commit(small_tensors())

    restored = repository.checkout(made.id, numpy=True)
    assert all(np.array_equal(restored[name], value) for name, value in small_tensors().items())
