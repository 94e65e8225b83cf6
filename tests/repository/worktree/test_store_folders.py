"""Stores that lie in the working folder: no commit takes them, and no checkout touches them."""

import shutil
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import UsageError
from tests.repository.states import write_model
from tests.restore.test_acting_paths import committed_under, listed, paths


@pytest.fixture
def repo(tmp_path: Path):
    """A repository with its store, a remote and a copy of another repository's folder in it."""
    with Repository.init(tmp_path / "other") as other:
        write_model(other.top / "model.safetensors", 9)
        other.commit_files([other.top], message="other")
    work = tmp_path / "work"
    with Repository.init(work, store=str(work / "store")) as repo:
        shutil.copytree(tmp_path / "other/.mvcs", work / "copied")
        repo.add_remote("origin", str(work / "sub/backup"))
        write_model(work / "model.safetensors", 0)
        yield repo


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in listed(folder) if (folder / name).is_file()}


def test_stores_are_left_out_of_a_commit_and_outlive_every_checkout(repo: Repository) -> None:
    first = repo.commit_files([repo.top], message="0")
    assert paths(repo) == ["model.safetensors"]
    assert first.notes == [f"'{name}' was left out: it is a store of mvcs" for name in ("copied", "store")]
    repo.push()
    write_model(repo.top / "model.safetensors", 1)
    second = repo.commit_files([repo.top], message="1")
    assert paths(repo) == ["model.safetensors"]
    before = content(repo.top / "sub"), content(repo.top / "copied")
    repo.checkout_files(first.id)
    repo.checkout_files(second.id)
    assert (content(repo.top / "sub"), content(repo.top / "copied")) == before
    assert repo.fsck().problems == []


@pytest.mark.parametrize("name", ["store", "store/mvcs.json", "copied/refs"])
def test_what_lies_in_a_store_cannot_be_named(repo: Repository, name: str) -> None:
    with pytest.raises(UsageError, match="lies in the store"):
        repo.commit_files([repo.top / name], message="0")


def test_nothing_is_written_into_a_store_or_removed_from_it(repo: Repository, tmp_path: Path) -> None:
    first = repo.commit_files([repo.top], message="0")
    source = tmp_path / "source"
    source.mkdir()
    (source / "readme").write_text("x")
    held = committed_under(repo, source, {"readme": "store/readme"})
    (repo.top / "link").symlink_to("store")
    linked = committed_under(repo, source, {"readme": "link/readme"})
    before = content(repo.top)
    for rev in (held, linked):
        with pytest.raises(UsageError, match="lies in a store"):
            repo.checkout_files(rev, force=True)
        with pytest.raises(UsageError, match="lies inside the store"):
            repo.export(rev, repo.top / "store")
        with pytest.raises(UsageError, match="own folder"):
            repo.export(rev, repo.top / ".mvcs", force=True)
    assert content(repo.top) == before
    repo.checkout_files(first.id, force=True)
    committed_under(repo, source, {"readme": "store/readme"})
    (repo.top / "store/readme").write_text("x")
    removed = repo.remove_files([repo.top / "store"], message="out", force=True)
    assert removed.left == ["store/readme"]
    assert removed.notes == ["'store/readme' was left in the folder: it lies in a store of mvcs"]
    committed_under(repo, source, {"readme": "store/readme"})
    repo.checkout_files(first.id, force=True)
    assert (repo.top / "store/readme").read_text() == "x"


def test_a_working_folder_is_no_store_itself(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be a store itself"):
        Repository.init(tmp_path, store=f"file://{tmp_path}")
    assert listed(tmp_path) == []
