"""Pull: the branch first, then files and HEAD; stopped in between, it is said, and the next pull goes on."""

import shutil
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from mvcs import Repository
from mvcs.errors import ConflictError, CorruptionError
from mvcs.objects.ids import ObjectId
from mvcs.refs.refstore import HEADS, RefChange, RefStore
from mvcs.store.backend import open_backend
from tests.repository.states import state
from tests.store.faults import Disk, Stopped

NAMES = ("a.safetensors", "b.safetensors")


def write(folder: Path, number: int, names: tuple[str, ...] = NAMES) -> None:
    for position, name in enumerate(names):
        save_file(state(number + position)["model"], folder / name)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}


@pytest.fixture
def bob(tmp_path: Path) -> Path:
    """A clone one commit behind: one file changes, one goes, one comes."""
    with Repository.init(tmp_path / "ada") as ada:
        write(tmp_path / "ada", 0)
        ada.commit_files([tmp_path / "ada" / name for name in NAMES], message="first")
        Repository.clone(str(tmp_path / "ada"), tmp_path / "bob").close()
        (tmp_path / "ada/b.safetensors").unlink()
        write(tmp_path / "ada", 5, ("a.safetensors", "c.safetensors"))
        chosen = [tmp_path / "ada" / name for name in ("a.safetensors", "c.safetensors")]
        ada.commit_files(chosen, message="second", only=True)
    with Repository.open(tmp_path / "bob") as repo:
        repo.fetch()
    return tmp_path / "bob"


def test_a_pull_that_was_stopped_is_said_and_goes_on(bob: Path, tmp_path: Path) -> None:
    with Repository.open(bob) as repo:
        old, new = repo.head().id, repo.resolve("origin/main").id
    before, after = files(bob), files(tmp_path / "ada")
    shutil.copytree(bob, tmp_path / "count")
    with Disk(tmp_path / "count") as disk, Repository.open(tmp_path / "count") as repo:
        repo.pull()
    assert files(tmp_path / "count") == after
    said = 0
    for allowed in range(disk.changes):
        folder = tmp_path / f"stopped-{allowed}"
        shutil.copytree(bob, folder)
        with Disk(folder, allowed), pytest.raises(Stopped), Repository.open(folder) as repo:
            repo.pull()
        with Repository.open(folder) as repo:
            status = repo.status()
            clean = all(entry.state == "unmodified" for entry in status.entries)
            if status.head.id == old:
                assert (clean, files(folder)) == (True, before)
            elif files(folder) != after:
                said += 1
                assert "pull was stopped" in status.problems[0]
                with pytest.raises(ConflictError, match="pull was stopped"):
                    repo.commit_files([], message="no")
            if allowed % 2:
                repo.pull()
            else:
                repo.pull() if status.head.id == old else repo.checkout_files("main")
            assert files(folder) == after
            status = repo.status()
            assert (status.head.id, status.branch, status.problems) == (new, "main", [])
            assert all(entry.state == "unmodified" for entry in status.entries)
            assert repo.fsck().problems == []
    assert said


def test_a_pull_that_would_lose_a_change_moves_nothing(bob: Path) -> None:
    write(bob, 9, ("a.safetensors",))
    before = files(bob)
    with Repository.open(bob) as repo:
        old = repo.head().id
        with pytest.raises(ConflictError, match="not committed"):
            repo.pull()
        assert repo.head().id == old
        assert files(bob) == before
        assert repo.status().problems == []


def test_a_pull_stopped_midway_does_not_lose_what_is_changed_after_it(bob: Path, tmp_path: Path) -> None:
    """The files of the commit before may go; one that a person changed since may not."""
    with Repository.open(bob) as repo:
        old = repo.head().id
        real = repo.resolve("origin/main")
    written_aside = len(files(tmp_path / "ada"))
    with Repository.open(bob) as repo, Disk(bob / ".mvcs-", written_aside), pytest.raises(Stopped):
        repo.pull()
    with Repository.open(bob) as repo:
        if repo.head().id == old:
            pytest.fail("the branch did not move before the first file")
        write(bob, 9, ("a.safetensors",))
        with pytest.raises(ConflictError, match="not committed"):
            repo.pull()
        write(bob, 0, ("a.safetensors",))
        assert repo.pull().checkout.commit.id == real.id
    assert files(bob) == files(tmp_path / "ada")


def test_a_bad_branch_over_there_does_not_keep_a_good_one_from_being_pulled(
    bob: Path, tmp_path: Path
) -> None:
    store = RefStore(open_backend(str(tmp_path / "ada/.mvcs")))
    store.update(HEADS, "lost", None, RefChange(ObjectId(bytes(32)), "eve", "test"))
    with Repository.open(bob) as repo:
        with pytest.raises(CorruptionError, match="'lost'"):
            repo.pull()
        assert repo.head().id == repo.resolve("origin/main").id
        assert files(bob) == files(tmp_path / "ada")
        with pytest.raises(CorruptionError, match="'lost'"):
            repo.pull(branch="lost")
