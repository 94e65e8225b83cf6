"""History goes to and fro within a project; a store without refs takes on the project of the other."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mvcs import Repository
from mvcs.errors import ConflictError

STATE = {"a": torch.arange(99.0)}
OTHER = {"a": torch.arange(99.0) / 7}


def made(folder: Path, state: dict[str, torch.Tensor] | None) -> Path:
    with Repository.init(folder) as repo:
        if state is not None:
            repo.commit(state)
    return folder


def project(folder: Path) -> str:
    return str(json.loads((folder / ".mvcs/mvcs.json").read_text())["project"])


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def ada(tmp_path: Path) -> Path:
    """A repository whose remote was replaced by the store of another project."""
    made(tmp_path / "far", None)
    folder = made(tmp_path / "ada", STATE)
    with Repository.open(folder) as repo:
        repo.add_remote("far", str(tmp_path / "far"))
    shutil.rmtree(tmp_path / "far")
    made(tmp_path / "far", OTHER)
    return folder


VERBS: dict[str, Callable[[Repository], object]] = {
    "push": lambda repo: repo.push("far"),
    "push --force": lambda repo: repo.push("far", force=True),
    "fetch": lambda repo: repo.fetch("far"),
    "pull": lambda repo: repo.pull("far"),
    "gc": lambda repo: repo.gc(remote="far", grace_days=0, wait_days=0, execute=True),
    "repair": lambda repo: repo.repair(source="far"),
    "retention show": lambda repo: repo.retention("far"),
    "retention set": lambda repo: repo.set_retention(last=1, remote="far", force=True),
    "retention apply": lambda repo: repo.apply_retention(remote="far", force=True),
    "pin": lambda repo: repo.pin("HEAD", remote="far"),
    "remote show": lambda repo: repo.remote("far"),
    "remote set-url": lambda repo: repo.set_remote_url("far", repo.remotes()["far"]),
    "remote add": lambda repo: repo.add_remote("again", repo.remotes()["far"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_store_with_the_history_of_another_project_is_refused(ada: Path, tmp_path: Path, verb: str) -> None:
    before = content(tmp_path / "far")
    with Repository.open(ada) as repo, pytest.raises(ConflictError, match="another project"):
        VERBS[verb](repo)
    assert content(tmp_path / "far") == before
    with Repository.open(ada) as repo:
        assert [info.id for info in repo.log()] == [repo.resolve("HEAD").id]


def test_an_empty_store_takes_on_the_project_of_what_is_pushed(tmp_path: Path) -> None:
    """A backup that was made by 'mvcs init'."""
    ada, far = made(tmp_path / "ada", STATE), made(tmp_path / "far", None)
    store = json.loads((far / ".mvcs/mvcs.json").read_text())["store"]
    with Repository.open(ada) as repo:
        repo.add_remote("far", str(far))
        repo.push("far")
        assert repo.repair(source="far").ok
    assert project(far) == project(ada)
    assert json.loads((far / ".mvcs/mvcs.json").read_text())["store"] == store
    with Repository.open(far) as repo:
        assert repo.fsck().ok


def test_a_repository_without_commits_takes_on_the_project_of_what_it_fetches(tmp_path: Path) -> None:
    ada, bob = made(tmp_path / "ada", STATE), made(tmp_path / "bob", None)
    with Repository.open(bob) as repo:
        repo.add_remote("ada", str(ada))
        repo.pull("ada")
        repo.commit(OTHER)
        repo.push("ada")
    assert project(bob) == project(ada)
    with Repository.open(ada) as repo:
        assert len(list(repo.log())) == 2


def test_a_store_that_has_only_what_is_ours_is_taken_in(tmp_path: Path) -> None:
    """Its description was lost, or it was pushed to before projects were compared."""
    ada, far = made(tmp_path / "ada", STATE), tmp_path / "far"
    with Repository.open(ada) as repo:
        repo.add_remote("far", str(far))
        repo.push("far")
        path = far / "mvcs.json"
        path.write_text(path.read_text().replace(project(ada), "ab" * 16))
        repo.fetch("far")
        assert "ab" * 16 in path.read_text()
        repo.commit(OTHER)
        repo.push("far")
    assert project(ada) in path.read_text()


def test_what_a_store_named_once_counts_as_its_history(tmp_path: Path) -> None:
    """Its branch was deleted, and a collector still goes by where that stood."""
    ada, far = made(tmp_path / "ada", STATE), made(tmp_path / "far", OTHER)
    with Repository.open(far) as repo:
        repo.switch("other", create_from="HEAD")
        repo.delete_branch("main")
    with Repository.open(ada) as repo, pytest.raises(ConflictError, match="another project"):
        repo.add_remote("far", str(far))
