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


ROWS = """
SELECT commits.step, contents.position, leaves.path, leaves.dtype, leaves.shape, leaves.role, tensors.value,
    tensors.exact, encodings.chunk, encoding, encodings.stored_bytes, encodings.raw_bytes,
    encodings.depth, name
FROM contents JOIN commits ON commits.number = commit_number JOIN leaves ON leaves.number = leaf_number
JOIN tensors ON tensors.number = contents.tensor_number
JOIN encodings ON encodings.tensor_number = contents.tensor_number JOIN packs ON packs.number = pack_number
WHERE step >= ? ORDER BY commits.step, contents.position, encodings.position
""".replace("?", "{}")


def rows_since(repository: Repository, step: int) -> list[tuple[object, ...]]:
    return repository.lineage_query(ROWS.format(step), 1_000_000)[1]


@pytest.mark.parametrize("bins", [None, 16])
def test_rows_of_tensors_that_did_not_change_are_those_of_a_rebuilt_lineage(
    repository: Repository, bins: int | None
) -> None:
    state = {"model": {"a.1": np.ones((20, 30), np.float32), "b": np.arange(600, dtype=np.float32)}, "n": [1]}
    for step, name in enumerate(["a.1", "b", "b"]):
        state["model"][name] = state["model"][name] * 2 + step
        repository.commit(state, step=step, bins=bins)
    repository.commit(state, step=3, bins=bins)
    repository.commit({"exp_avg": state["model"], "n": [1]}, step=4)
    recorded = rows_since(repository, 0)

    repository.lineage_rebuild()

    assert recorded == rows_since(repository, 0)


def test_a_tensor_of_another_form_in_the_place_of_one_has_rows_of_its_own(repository: Repository) -> None:
    values = np.arange(600, dtype=np.float32)
    for step, value in enumerate([values, values.reshape(20, 30), values.astype(np.int32)]):
        repository.commit({"model": {"a": value, "b": values + step}}, step=step)

    found = [row[4:6] for row in rows_since(repository, 0) if row[2] == "model.a"]

    assert found == [("[600]", "small"), ("[20, 30]", "weight"), ("[600]", "other")]


def test_rows_of_a_commit_are_whole_where_the_lineage_had_lost_those_of_the_one_before(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit({"a": np.zeros(600, np.float32)}, step=0)
    for path in (tmp_path / ".mvcs").rglob("lineage*"):
        path.unlink()
    repository.commit({"a": np.ones(600, np.float32)}, step=1)

    assert [row[2] for row in rows_since(repository, 0)] == ["a", "a"]


def test_rows_of_tensors_that_were_stored_anew_meanwhile_say_where_they_lie(
    repository: Repository, tmp_path: Path
) -> None:
    state = small_tensors()
    for step in range(2):
        state = {name: value * np.float32(1.0001) for name, value in state.items()}
        repository.commit(state, step=step)
    repository.compact(max_depth=1)
    repository.close()
    with Repository.open(tmp_path) as opened:
        opened.commit(state, step=2)
        recorded = rows_since(opened, 2)

        opened.lineage_rebuild()

        assert recorded == rows_since(opened, 2)
        assert {row[-2] for row in recorded} == {0}
