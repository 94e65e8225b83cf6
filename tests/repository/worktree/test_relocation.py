"""Files under other names: nothing is stored again, the folder follows, and nothing is overwritten."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mvcs import Repository
from mvcs.errors import ConflictError, NotFoundError, StorageError, UsageError
from mvcs.repository.amending import Relocation
from tests.repository.states import write_model
from tests.store.faults import Disk, Stopped, full_disk

LAST = 27  # changes to the folder: from just before the branch moves, to the end


@pytest.fixture
def repo(tmp_path: Path) -> Any:
    """Three files, two of them in a folder; the first is bounded."""
    with Repository.init(tmp_path / "top") as repository:
        top = repository.top
        for number, name in enumerate(("a", "run/b", "run/c")):
            write_model(top / f"{name}.safetensors", number)
        repository.commit_files([top / "a.safetensors"], message="a", step_size=0.5)
        repository.commit_files([top / "run"], message="all")
        yield repository


def states(repo: Repository) -> dict[str, str]:
    return {entry.path: entry.state for entry in repo.status().entries}


def test_a_file_gets_another_name_and_keeps_all_else(repo: Repository) -> None:
    top, old = repo.top, repo.head()
    data = (top / "a.safetensors").read_bytes()
    info = repo.move_files([top / "a.safetensors"], top / "deep/base.safetensors", message="renamed")
    assert info.moved == {"a.safetensors": "deep/base.safetensors"}
    assert (info.kept, info.left) == (["run/b.safetensors", "run/c.safetensors"], [])
    assert (top / "deep/base.safetensors").read_bytes() == data
    assert not (top / "a.safetensors").exists()
    assert set(states(repo).values()) == {"unmodified"}
    assert info.stored_bytes < 4000
    assert (info.exact_layer, info.worst.relative) == ("kept", old.worst.relative)
    assert info.worst.tensor == old.worst.tensor.replace("a.safetensors", "deep/base.safetensors")
    (top / "deep/base.safetensors").unlink()
    repo.restore_files([top / "deep"], exact=True)
    assert (top / "deep/base.safetensors").read_bytes() == data
    repo.checkout_files("HEAD~1", exact=True)
    assert ((top / "a.safetensors").read_bytes(), (top / "deep").exists()) == (data, False)
    assert repo.fsck().ok


def test_a_changed_file_moves_as_it_is(repo: Repository) -> None:
    mine = write_model(repo.top / "a.safetensors", 99)
    repo.move_files([repo.top / "a.safetensors"], repo.top / "b.safetensors", message="renamed")
    assert (repo.top / "b.safetensors").read_bytes() == mine
    assert states(repo)["b.safetensors"] == "modified"


def test_folders_and_several_files_go_into_a_folder(repo: Repository) -> None:
    top = repo.top
    (top / "run/notes.txt").write_text("mine")
    info = repo.move_files([top / "run"], top / "old", message="renamed")
    assert list(info.moved.values()) == ["old/b.safetensors", "old/c.safetensors"]
    assert [path.name for path in (top / "run").iterdir()] == ["notes.txt"]
    info = repo.move_files([top / "old", top / "a.safetensors"], f"{top}/run", message="all in one")
    assert list(info.moved.values()) == [
        "run/old/b.safetensors",
        "run/old/c.safetensors",
        "run/a.safetensors",
    ]
    assert (repo.list_files()[0].path, (top / "old").exists()) == ("run/a.safetensors", False)
    repo.move_files([top / "run/old/b.safetensors"], top, message="up")
    assert (top / "b.safetensors").exists()


def test_a_file_that_was_moved_already_is_renamed_in_the_commit_alone(repo: Repository) -> None:
    (repo.top / "a.safetensors").rename(repo.top / "b.safetensors")
    info = repo.move_files([repo.top / "a.safetensors"], repo.top / "b.safetensors", message="as it lies")
    assert (info.notes, states(repo)["b.safetensors"]) == ([], "unmodified")


def test_what_has_the_name_already_is_in_the_way(repo: Repository) -> None:
    top, head = repo.top, repo.head().id
    source, mine = top / "a.safetensors", write_model(top / "mine.safetensors", 9)
    for target in (top / "mine.safetensors", top / "run/b.safetensors"):
        with pytest.raises(ConflictError) as caught:
            repo.move_files([source], target, message="no")
        assert "--force" in caught.value.hint
    assert (repo.head().id, (top / "mine.safetensors").read_bytes(), source.exists()) == (head, mine, True)
    data = source.read_bytes()
    info = repo.move_files([source], top / "run/b.safetensors", message="by force", force=True)
    assert (info.left, (top / "run/b.safetensors").read_bytes()) == (["run/b.safetensors"], data)
    assert set(states(repo).values()) == {"unmodified", "untracked"}


def test_names_that_no_file_can_have_are_refused(repo: Repository) -> None:
    top, head = repo.top, repo.head().id
    for sources, target in (
        ([top / "run"], top / "run/inner"),
        ([top / "a.safetensors"], top / ".git/config"),
        ([top / "a.safetensors"], top / ".mvcs/x"),
        ([top / "a.safetensors"], top / "run/b.safetensors/x"),
        ([top / "a.safetensors"], top.parent / "x"),
        ([top / "a.safetensors", top / "run"], top / "one"),
        ([top / "a.safetensors"], top / "a.safetensors"),
    ):
        with pytest.raises(UsageError):
            repo.move_files(sources, target, message="no")
    with pytest.raises(NotFoundError, match="no file 'x'"):
        repo.move_files([top / "x"], top / "y", message="no")
    assert repo.head().id == head


def test_a_file_in_the_place_of_a_folder_is_in_the_way(repo: Repository) -> None:
    head = repo.head().id
    (repo.top / "new").write_text("mine")
    with pytest.raises(ConflictError, match="'new' is a file"):
        repo.move_files([repo.top / "run"], repo.top / "new/run", message="no")
    assert (repo.head().id, (repo.top / "new").read_text()) == (head, "mine")
    repo.move_files([repo.top / "run"], repo.top / "new/run", message="by force", force=True)
    assert set(states(repo).values()) == {"unmodified"}


@pytest.mark.parametrize(("error", "way_on"), [(Stopped, "checkout"), (full_disk, "by hand")])
def test_a_move_that_was_stopped_is_said_and_goes_on(
    repo: Repository, tmp_path: Path, error: Any, way_on: str
) -> None:
    repo.close()
    shutil.copytree(repo.top, tmp_path / "count")
    with Disk(tmp_path / "count") as disk, Repository.open(tmp_path / "count") as counted:
        counted.move_files([tmp_path / "count/run"], tmp_path / "count/new", message="renamed")
    said = 0
    for allowed in range(disk.changes - LAST, disk.changes, 3):
        top = tmp_path / str(allowed)
        shutil.copytree(repo.top, top)
        with Disk(top, allowed, error), suppress(Stopped, OSError), Repository.open(top) as stopped:
            stopped.move_files([top / "run"], top / "new", message="renamed")
        with Repository.open(top) as again:
            problems = again.status().problems
            assert bool(problems) == ("deleted" in states(again).values())
            if problems:
                said += 1
                assert "a move was stopped after 'main' moved" in problems[0]
                with pytest.raises(ConflictError, match="a move was stopped"):
                    again.move_files([top / "new"], top / "newer", message="no")
                if way_on == "checkout":
                    again.checkout_files("HEAD")
                else:
                    (top / "new").mkdir(exist_ok=True)
                    for old in (top / "run").iterdir():
                        old.rename(top / "new" / old.name)
            assert (set(states(again).values()), again.status().problems) == ({"unmodified"}, [])
    assert said > 3


def test_nothing_moves_out_of_the_folder_through_a_link(repo: Repository, tmp_path: Path) -> None:
    top, head, outside = repo.top, repo.head().id, tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs.safetensors").write_bytes(b"precious")
    (top / "d").symlink_to(outside)
    source = top / "a.safetensors"
    for target in ("d/", "d/b.safetensors", "d/theirs.safetensors", "d/deep/b.safetensors"):
        with pytest.raises(UsageError, match="symbolic link"):
            repo.move_files([source], f"{top}/{target}", message="no", force=True)
    moved = source.rename(outside / "a.safetensors")
    with pytest.raises(UsageError, match="symbolic link"):
        repo.move_files([source], top / "d/a.safetensors", message="as it lies, but nothing can restore it")
    assert (repo.head().id, moved.exists(), len(list(outside.iterdir()))) == (head, True, 2)
    assert (outside / "theirs.safetensors").read_bytes() == b"precious"


def test_what_lies_behind_a_link_is_not_moved(repo: Repository, tmp_path: Path) -> None:
    head = repo.head().id
    data = (repo.top / "run/b.safetensors").read_bytes()
    (repo.top / "run").rename(tmp_path / "big")
    (repo.top / "run").symlink_to(tmp_path / "big")
    for target in ("run/y.safetensors", "y.safetensors"):
        with pytest.raises(UsageError, match=r"(behind|through) the symbolic link"):
            repo.move_files([repo.top / "run/b.safetensors"], repo.top / target, message="x", force=True)
    assert (repo.head().id, (tmp_path / "big/b.safetensors").read_bytes()) == (head, data)


def test_a_link_that_comes_between_is_an_error_and_the_move_is_remembered(
    repo: Repository, tmp_path: Path
) -> None:
    session, top = repo._session, repo.top
    head = session.head()
    moving = Relocation.of(session, [top / "run"], top / "new", head, force=False)
    moving.begin(head)
    (top / "run").rename(tmp_path / "big")
    (top / "run").symlink_to(tmp_path / "big")
    with pytest.raises(
        StorageError, match=r"the commit is made, and 'run/b\.safetensors' is still"
    ) as caught:
        moving.execute()
    assert "a symbolic link is there" in caught.value.message
    assert "a move was stopped" in repo.status().problems[0]


def test_a_file_from_elsewhere_stays_where_it_lies(repo: Repository, tmp_path: Path) -> None:
    outside = tmp_path / "big.safetensors"
    data = write_model(outside, 4)
    repo.commit_files([outside], message="from elsewhere", names={outside: "base.safetensors"})
    repo.move_files([outside], repo.top / "other.safetensors", message="renamed")
    assert (outside.read_bytes(), (repo.top / "other.safetensors").exists()) == (data, False)
    assert states(repo)["other.safetensors"] == "unmodified"
