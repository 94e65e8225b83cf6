"""Whether a lineage is exact, lossy or unknown: no way round a lossy restore makes a commit say exact."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors
from safetensors.torch import load_file, save_file

from mvcs import Repository
from mvcs.checkpoint.formats.safetensors_file import FIELD
from tests.repository.origins.origins import commit, forget, restore, train_file, trained, weights


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with three bounded commits of one file, the first without its exact layer."""
    folder = tmp_path / "work"
    with Repository.init(folder) as repo:
        for seed in range(3):
            save_file(weights(seed), folder / "model.safetensors", {"format": "pt"})
            repo.commit_files([folder / "model.safetensors"], message=f"{seed}", step_size=0.5)
    return folder


def flip(folder: Path) -> None:
    index = folder / ".mvcs" / "index"
    data = bytearray(index.read_bytes())
    data[data.index(b"model")] ^= 1
    index.write_bytes(data)


def rename(folder: Path) -> str:
    (folder / "model.safetensors").rename(folder / "renamed.safetensors")
    return "renamed.safetensors"


def test_files_that_training_goes_on_with_stay_exact(work: Path) -> None:
    with Repository.open(work) as repo:
        assert {info.lineage_exact for info in repo.log()} == {True}
    train_file(work / "model.safetensors")
    assert commit(work, step_size=0.5) == (True, None)


@pytest.mark.parametrize("hide", [lambda _: None, forget, flip, rename])
@pytest.mark.parametrize("marked", [True, False])
def test_a_lossy_file_is_found_out_by_mark_and_by_values(
    work: Path, hide: Callable[[Path], str | None], marked: bool
) -> None:
    origin = restore(work)
    path = work / "model.safetensors"
    if not marked:
        save_file(load_file(path), path)
    assert commit(work, hide(work) or "model.safetensors") == (False, origin)


@pytest.mark.parametrize("hide", [forget, flip, rename])
def test_what_training_made_of_a_lossy_file_is_never_exact(
    work: Path, hide: Callable[[Path], str | None]
) -> None:
    restore(work)
    train_file(work / "model.safetensors")
    assert commit(work, hide(work) or "model.safetensors") == (None, None)


def test_a_file_as_it_was_handed_over_is_exact_without_any_index(work: Path) -> None:
    forget(work)
    assert commit(work) == (True, None)
    forget(work)
    train_file(work / "model.safetensors")
    assert commit(work) == (None, None)
    with Repository.open(work) as repo:
        assert repo.show().commit.lineage_exact is None
    train_file(work / "model.safetensors")
    assert commit(work) == (None, None)  # inherited


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".npz"])
def test_an_exported_file_that_comes_back_is_lossy(work: Path, tmp_path: Path, suffix: str) -> None:
    with Repository.open(work) as repo:
        origin = repo.export("main~2", tmp_path / f"out{suffix}").commit.id
    shutil.move(tmp_path / f"out{suffix}", work / f"again{suffix}")
    lineage, restored_from = commit(work, f"again{suffix}", step_size=0.5)
    assert (lineage, restored_from) == (False, origin)


def test_what_training_made_of_an_exported_file_is_unknown(work: Path, tmp_path: Path) -> None:
    with Repository.open(work) as repo:
        repo.export("main~2", tmp_path / "out.safetensors")
    save_file(trained(load_file(tmp_path / "out.safetensors")), work / "model.safetensors")
    assert commit(work) == (None, None)


def test_a_forgotten_record_of_exports_is_no_proof(work: Path, tmp_path: Path) -> None:
    with Repository.open(work) as repo:
        repo.export("main~2", tmp_path / "out.safetensors")
    shutil.rmtree(work / ".mvcs" / "local")
    train_file(work / "model.safetensors")
    assert commit(work) == (None, None)


def test_a_marked_file_tells_in_another_clone(work: Path, tmp_path: Path) -> None:
    with Repository.open(work) as repo:
        origin = repo.export("main~2", tmp_path / "out.safetensors").commit.id
    Repository.clone(str(work), tmp_path / "clone").close()
    shutil.copy(tmp_path / "out.safetensors", tmp_path / "clone" / "other.safetensors")
    assert commit(tmp_path / "clone", "other.safetensors") == (False, origin)
    with Repository.init(tmp_path / "stranger"):
        shutil.copy(tmp_path / "out.safetensors", tmp_path / "stranger" / "other.safetensors")
    assert commit(tmp_path / "stranger", "other.safetensors") == (False, None)


def test_the_mark_is_no_part_of_what_is_compared_or_committed(work: Path) -> None:
    path = work / "model.safetensors"
    origin = restore(work)
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt", FIELD: file.metadata()[FIELD]}
        assert file.metadata()[FIELD].split() == [origin, "value"]
    with Repository.open(work) as repo:
        assert {entry.state for entry in repo.status().entries} == {"unmodified"}
        assert repo.diff("HEAD").tensors == []
        assert repo.commit_files([path], message="untouched").restored_from == origin
        path.unlink()
        repo.checkout_files("HEAD", force=True)
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_an_exact_restore_has_no_mark_and_is_byte_for_byte(work: Path) -> None:
    path = work / "model.safetensors"
    before = path.read_bytes()
    with Repository.open(work) as repo:
        path.unlink()
        repo.checkout_files("HEAD", exact=True)
        assert path.read_bytes() == before
        repo.export("HEAD", work / "out.safetensors", exact=True)
        assert FIELD.encode() not in (work / "out.safetensors").read_bytes()
        repo.export("HEAD", work / "out.safetensors", force=True)
        assert FIELD.encode() in (work / "out.safetensors").read_bytes()
