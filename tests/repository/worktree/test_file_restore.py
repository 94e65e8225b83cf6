"""Single files brought back in place: HEAD and all else stay, and nothing that is stored nowhere goes."""

from pathlib import Path
from typing import Any

import pytest

from mvcs import Repository
from mvcs.errors import ConflictError, NotFoundError, UsageError
from mvcs.repository.worktree.whereabouts import InterruptedMove
from tests.repository.states import write_model


@pytest.fixture
def repo(tmp_path: Path) -> Any:
    """Three files, two of them in a folder; the second commit, which is bounded, has another of the first."""
    with Repository.init(tmp_path) as repository:
        for number, name in enumerate(("a", "run/b", "run/c")):
            write_model(tmp_path / f"{name}.safetensors", number)
        repository.commit_files([tmp_path / "a.safetensors", tmp_path / "run"], message="one")
        write_model(tmp_path / "a.safetensors", 7)
        repository.commit_files([tmp_path / "a.safetensors"], message="two", bins=16)
        yield repository


def states(repo: Repository) -> dict[str, str]:
    return {entry.path: entry.state for entry in repo.status().entries if entry.state != "unmodified"}


def test_files_come_back_and_nothing_else_changes(repo: Repository, tmp_path: Path) -> None:
    head, data = repo.head().id, (tmp_path / "run/b.safetensors").read_bytes()
    (tmp_path / "run/b.safetensors").unlink()
    mine = write_model(tmp_path / "run/c.safetensors", 99)
    report = repo.restore_files([tmp_path / "run/b.safetensors"])
    assert (report.written, report.unchanged, report.layer) == (["run/b.safetensors"], [], "exact")
    assert (tmp_path / "run/b.safetensors").read_bytes() == data
    assert (tmp_path / "run/c.safetensors").read_bytes() == mine
    assert (repo.head().id, repo.branch, states(repo)) == (head, "main", {"run/c.safetensors": "modified"})
    with pytest.raises(ConflictError) as caught:
        repo.restore_files([tmp_path / "run"])
    assert "--force" in caught.value.hint
    assert (tmp_path / "run/c.safetensors").read_bytes() == mine
    assert repo.restore_files([tmp_path], force=True).written == ["a.safetensors", "run/c.safetensors"]
    assert states(repo) == {}


def test_a_file_of_another_commit_is_saved_there_until_it_changes(repo: Repository, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    repo.restore_files([path], rev="HEAD~1")
    assert states(repo) == {"a.safetensors": "modified"}
    repo.restore_files([path])
    assert states(repo) == {}
    repo.restore_files((), rev="HEAD~1:a.safetensors")
    repo.checkout_files("HEAD")
    repo.restore_files([path], rev="HEAD~1")
    mine = write_model(path, 99)
    for going in (lambda: repo.restore_files([path]), lambda: repo.checkout_files("HEAD")):
        with pytest.raises(ConflictError):
            going()
    assert path.read_bytes() == mine


def test_a_restored_bounded_file_is_known_to_be_lossy(repo: Repository, tmp_path: Path) -> None:
    path, tip = tmp_path / "a.safetensors", repo.head().id
    exact = path.read_bytes()
    repo.checkout_files("HEAD~1")
    repo.restore_files([path], rev="main", exact=True)
    assert path.read_bytes() == exact
    path.unlink()
    repo.restore_files([path], rev="main")
    assert path.read_bytes() != exact
    info = repo.commit_files([path], message="continued")
    assert (info.lineage_exact, info.restored_from) == (False, tip)


def test_what_a_commit_does_not_have_is_not_found(repo: Repository, tmp_path: Path) -> None:
    for paths, rev in (
        ([tmp_path / "x"], "HEAD"),
        ([tmp_path / "a"], "main"),
        ((), "HEAD:run/x"),
        ((), "x:a"),
    ):
        with pytest.raises(NotFoundError):
            repo.restore_files(paths, rev=rev)
    with pytest.raises(UsageError, match="no file"):
        repo.restore_files(())


def test_no_single_file_comes_or_goes_while_a_pull_is_unfinished(repo: Repository, tmp_path: Path) -> None:
    """Else a file of the new commit would make all others look as if they had followed."""
    before, head = (repo._session.resolver.resolve(rev).id for rev in ("HEAD~1", "HEAD"))
    repo.checkout_files("HEAD~1")
    repo._session.set_head("ref: main")
    InterruptedMove("main", before, head).begin(repo._session)
    with pytest.raises(ConflictError, match="pull was stopped"):
        repo.restore_files([tmp_path / "a.safetensors"])
    with pytest.raises(ConflictError, match="pull was stopped"):
        repo.remove_files([tmp_path / "run"], message="no")


def test_a_file_of_a_commit_goes_elsewhere_alone(repo: Repository, tmp_path: Path) -> None:
    wanted = (tmp_path / "run/b.safetensors").read_bytes()
    report = repo.export("HEAD~1:run/b.safetensors", tmp_path / "x.safetensors")
    assert ((tmp_path / "x.safetensors").read_bytes(), report.tensors) == (wanted, 2)
    assert list(repo.checkout("main:run", numpy=True)) == ["run/b.safetensors", "run/c.safetensors"]
    with pytest.raises(NotFoundError, match="no file 'x'"):
        repo.export("HEAD:x", tmp_path / "y.safetensors")
