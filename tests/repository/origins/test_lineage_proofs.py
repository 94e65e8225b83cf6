"""What proves that a state continued from exact values once lossy values left the store: all its content."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mvcs import Repository
from mvcs.restore.handed_out import HANDED_OUT
from tests.repository.origins.test_origins import forget, trained, weights

BLOB = bytes(range(256)) * 64


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("committed") / "work"
    with Repository.init(top) as repo:
        (top / "hf").mkdir()
        save_file(weights(0), top / "hf" / "model.safetensors", {"format": "pt"})
        (top / "hf" / "model.gguf").write_bytes(BLOB)
        (top / "hf" / "config.json").write_text("{}")
        torch.save({"weights": weights(1), "step": 1}, top / "hf" / "state.pt")
        repo.commit_files([top / "hf"], message="one", step_size=0.5)
    return top


@pytest.fixture
def folder(committed: Path, tmp_path: Path) -> Path:
    """A folder of a bounded commit: tensors beside a file that is kept byte for byte, and settings."""
    HANDED_OUT.projects.clear()
    return Path(shutil.copytree(committed, tmp_path / "work"))


def commit(top: Path) -> bool | None:
    """Commit the folder in a process that knows nothing but what lies there."""
    HANDED_OUT.projects.clear()
    with Repository.open(top) as repo:
        return repo.commit_files([top / "hf"], message="next").lineage_exact


def other_blob(hf: Path) -> None:
    (hf / "model.gguf").write_bytes(BLOB[::-1])


def new_blob(hf: Path) -> None:
    (hf / "new.onnx").write_bytes(BLOB[::-1])


def other_text(hf: Path) -> None:
    (hf / "config.json").write_text('{"scales": [0.1, 0.2]}')


def other_metadata(hf: Path) -> None:
    save_file(load_file(hf / "model.safetensors"), hf / "model.safetensors", {"scales": "0.1 0.2"})


def other_step(hf: Path) -> None:
    torch.save(torch.load(hf / "state.pt") | {"step": 2}, hf / "state.pt")


def other_numbers(hf: Path) -> None:
    torch.save({"numbers": [0.1, 0.2]}, hf / "state.pt")


CHANGES = [other_blob, new_blob, other_text, other_metadata, other_step, other_numbers]


@pytest.mark.parametrize("change", CHANGES)
def test_once_values_left_the_store_tensors_of_the_parent_prove_nothing_of_what_stands_beside_them(
    folder: Path, change: Callable[[Path], None]
) -> None:
    with Repository.open(folder) as repo:
        repo.export("HEAD", folder / "lossy.npz", tensors="*.weight")
    change(folder / "hf")
    assert commit(folder) is None


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("known", [True, False])
def test_where_nothing_left_the_store_settings_and_counters_may_change(
    folder: Path, change: Callable[[Path], None], known: bool
) -> None:
    if not known:
        forget(folder)
    change(folder / "hf")
    assert commit(folder) is True


def test_what_is_named_or_laid_out_otherwise_is_still_the_parents(folder: Path) -> None:
    with Repository.open(folder) as repo:
        repo.export("HEAD", folder / "lossy.npz", tensors="*.weight")
    hf = folder / "hf"
    (hf / "model.gguf").rename(hf / "renamed.gguf")
    (hf / "state.pt").rename(hf / "renamed.pt")
    parts = load_file(hf / "model.safetensors")
    (hf / "model.safetensors").unlink()
    for number, (name, tensor) in enumerate(parts.items()):
        save_file({name: tensor}, hf / f"{number}.safetensors", {"format": "pt"})
    assert commit(folder) is True


@pytest.mark.parametrize(
    "state",
    [
        {"weights": weights(0), "numbers": [0.1, 0.3]},
        {"weights": weights(0), "numbers": [0.2, 0.1]},
        {"weights": weights(0), "numbers": [0.1, 0.2], "bytes": b"\1" * 9},
        {"weights": weights(0), "numbers": [0.1, 0.2], "bytes": BLOB},
        {"weights": weights(0), "numbers": [0.1, 0.2], "text": "0.3"},
        {"numbers": [0.3]},
        {"bytes": BLOB},
    ],
)
def test_a_state_is_its_parents_with_all_its_numbers_bytes_and_text(tmp_path: Path, state: Any) -> None:
    with Repository.init(tmp_path / "run") as repo:
        repo.commit({"weights": weights(0), "numbers": [0.1, 0.2]}, step_size=0.5)
        repo.export("HEAD", tmp_path / "lossy.npz", tensors="*.weight")
        HANDED_OUT.projects.clear()
        assert repo.commit(state, message="next").lineage_exact is None


@pytest.mark.parametrize("part", [lambda state: state, lambda state: {"weights": state["weights"]}])
def test_a_state_or_a_part_of_it_as_it_was_handed_over_is_exact(
    tmp_path: Path, part: Callable[[Any], Any]
) -> None:
    with Repository.init(tmp_path / "run") as repo:
        state = {"weights": weights(0), "numbers": [0.1, 0.2], "bytes": BLOB}
        repo.commit(state, step_size=0.5)
        repo.export("HEAD", tmp_path / "lossy.npz", tensors="*.weight")
        HANDED_OUT.projects.clear()
        assert repo.commit(part(state), message="next").lineage_exact is True


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Three commits of a state, the first exact, and a record that lossy values left; the process is gone."""
    with Repository.init(tmp_path / "given") as repo:
        for seed, options in enumerate([{}, {"step_size": 0.5}, {"step_size": 0.5}]):
            repo.commit({"model": weights(seed), "step": seed}, **options)
        repo.export("HEAD", tmp_path / "lossy.pt")
    HANDED_OUT.projects.clear()
    return tmp_path / "given"


@pytest.mark.parametrize(
    "read",
    [
        lambda repo: repo.checkout("main~2"),
        lambda repo: repo.restore("main~2"),
        lambda repo: repo.restore("main~1"),
        lambda repo: repo.checkout("main", exact=True, tensors="*.bias"),
        lambda repo: repo.checkout("main", exact=True, strip_prefix="model."),
        lambda repo: repo.checkout("main:model", exact=True),
    ],
)
def test_what_a_process_read_exactly_proves_nothing_unless_it_is_all_of_the_parent(
    given: Path, read: Callable[[Repository], object]
) -> None:
    with Repository.open(given) as repo:
        read(repo)
        assert repo.lossy_restores == 0
        assert repo.commit({"model": weights(9), "step": 9}, message="next").lineage_exact is None


@pytest.mark.parametrize(
    "read", [lambda repo: repo.restore("main").state, lambda repo: repo.checkout("main", exact=True)]
)
def test_a_process_that_restored_all_of_the_parent_exactly_goes_on_with_it(
    given: Path, read: Callable[[Repository], Any]
) -> None:
    with Repository.open(given) as repo:
        state = read(repo)
        for step in range(3):
            state = {"model": trained(state["model"]), "step": step}
            assert repo.commit(state, message="next", step_size=0.5).lineage_exact is True
        repo.checkout("main")
        assert repo.commit({"model": weights(9), "step": 9}, message="next").lineage_exact is None


def test_a_commit_that_another_process_made_meanwhile_was_not_restored(given: Path) -> None:
    with Repository.open(given) as repo:
        state = repo.restore("main").state
        marks = HANDED_OUT.projects.pop(repo._session.place.description.project_id)
        with Repository.open(given) as other:
            other.commit({"model": weights(7), "step": 7}, restored_from="")
        HANDED_OUT.projects[repo._session.place.description.project_id] = marks
        info = repo.commit({"model": trained(state["model"]), "step": 9}, message="next")
        assert info.lineage_exact is None
