"""Lossy values that leave a folder's store through another folder: the first one knows as well."""

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import save_file

from mvcs import Repository
from mvcs.restore.handed_out import HANDED_OUT
from tests.repository.origins.test_origins import commit, weights


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a bounded commit of one file, which its own store keeps."""
    top = tmp_path / "one"
    with Repository.init(top) as repo:
        save_file(weights(0), top / "model.safetensors")
        repo.commit_files([top / "model.safetensors"], message="one", step_size=0.5)
    HANDED_OUT.projects.clear()
    return top


def joined(folder: Path) -> Repository:
    return Repository.init(folder.parent / "two", store=str(folder / ".mvcs"))


def joined_by_an_address(folder: Path) -> Repository:
    return Repository.init(folder.parent / "two", store=f"file://{folder / '.mvcs'}")


def led_to(folder: Path) -> Repository:
    (folder.parent / "link").symlink_to(folder / ".mvcs")
    return Repository.open(folder.parent / "link")


def exported(repo: Repository) -> None:
    repo.export("main", Path(repo._session.place.backend.url).parent.parent / "out.npz")


def read(repo: Repository) -> None:
    repo.checkout("main")


@pytest.mark.parametrize("join", [joined, joined_by_an_address, led_to])
@pytest.mark.parametrize("give", [exported, read])
def test_what_leaves_through_another_folder_is_known_in_the_one_that_has_the_store(
    folder: Path, join: Callable[[Path], Repository], give: Callable[[Repository], None]
) -> None:
    with join(folder) as other:
        save_file(weights(1), folder / "model.safetensors")
        assert commit(folder, step_size=0.5) == (True, None)
        HANDED_OUT.projects.clear()
        give(other)
    HANDED_OUT.projects.clear()
    save_file(weights(2), folder / "model.safetensors")
    assert commit(folder) == (None, None)


def test_a_checkout_in_the_other_folder_is_known_as_well(folder: Path) -> None:
    with joined(folder) as other:
        other.checkout_files("main")
    HANDED_OUT.projects.clear()
    save_file(weights(2), folder / "model.safetensors")
    assert commit(folder) == (None, None)


def test_a_store_that_is_nobodys_folder_gets_no_records(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "one", store=str(tmp_path / "store")) as repo:
        repo.commit(weights(0), step_size=0.5)
        repo.checkout("main")
    assert not (tmp_path / "store" / "local").exists()
