"""Symbolic links below a folder that files are written to: none is followed, whenever it comes there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import MvcsError, StorageError, UsageError
from mvcs.restore.open_folder import OpenFolder
from mvcs.restore.written_files import write_files
from tests.restore.test_acting_paths import commit_texts, listed

FILES = {"a/b/one.txt": "1", "a/two.txt": "2", "three.txt": "3"}


@pytest.fixture
def repo(tmp_path: Path):
    with Repository.init(tmp_path / "work") as repo:
        commit_texts(repo, FILES)
        yield repo


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that nothing may change, with files of the same names."""
    for name in ("b/one.txt", "one.txt", "two.txt"):
        path = tmp_path / "outside" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    return tmp_path / "outside"


def content(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in listed(folder) if (folder / name).is_file()}


def swap(folder: Path, outside: Path) -> None:
    """Put a link in the place of a folder, which stays beside it."""
    folder.rename(folder.with_name("swapped"))
    folder.symlink_to(outside)


@pytest.mark.parametrize("inner", ["a", "a/b"])
@pytest.mark.parametrize("moment", ["announced", "ready"])
def test_a_folder_that_is_swapped_for_a_link_in_between_is_not_followed(
    repo: Repository, tmp_path: Path, outside: Path, moment: str, inner: str
) -> None:
    target, before = tmp_path / "target", content(outside)
    (target / "a/b").mkdir(parents=True)
    reading = repo._reading("HEAD")

    def swap_once(at: str) -> Callable[[object], None]:
        def now(_: object) -> None:
            if at == moment and not (target / inner).is_symlink():
                swap(target / inner, outside)

        return now

    with pytest.raises(StorageError, match="a symbolic link is there, which is not followed") as caught:
        write_files(reading, target, swap_once("announced"), ready=swap_once("ready"))
    assert str(target / inner) in caught.value.message
    assert content(outside) == before
    # Nothing is in place; what was written aside may be left only where nobody finds it any more.
    names = [name for name in content(target) if not name.startswith(("a/swapped/", "swapped/"))]
    assert [name for name in names if not (target / name).resolve().is_relative_to(outside)] == []


def test_a_target_that_is_swapped_for_a_link_is_not_left(
    repo: Repository, tmp_path: Path, outside: Path
) -> None:
    """The folder was opened, and is written to where it is now."""
    target, before = tmp_path / "target", content(outside)
    target.mkdir()
    reading = repo._reading("HEAD")

    def now(_: object) -> None:
        if not target.is_symlink():
            swap(target, outside)

    write_files(reading, target, now)
    assert content(outside) == before
    assert content(tmp_path / "swapped") == FILES


def test_the_parent_of_an_export_that_is_swapped_is_not_left(
    repo: Repository, tmp_path: Path, outside: Path
) -> None:
    from mvcs.local import ExportLanding
    from mvcs.restore.export import ExportTarget, export_to

    target, before = tmp_path / "target", content(outside)
    target.mkdir()
    landing = ExportLanding(lambda _: swap(target, outside), None)
    reading = repo._reading("HEAD:three.txt")
    with pytest.raises(StorageError, match="cannot write"):
        export_to(reading, ExportTarget(target / "two.txt"), None, None, landing)
    assert content(outside) == before


@pytest.mark.parametrize("link", ["a", "a/b"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_link_that_is_there_before_is_refused(
    repo: Repository, tmp_path: Path, outside: Path, link: str, *, inside: bool
) -> None:
    target = tmp_path / "target"
    (target / "mine/b").mkdir(parents=True)
    (target / link).parent.mkdir(exist_ok=True)
    (target / link).symlink_to(target / "mine" if inside else outside)
    before = content(outside)
    with pytest.raises(UsageError, match=f"through the symbolic link '{target / link}'"):
        repo.export("HEAD", target, force=True)
    with pytest.raises(MvcsError):  # it may say first that files are there
        repo.export("HEAD", target)
    assert content(outside) == before
    assert content(target / "mine") == {}


def test_a_target_that_the_user_reaches_through_links_is_fine(repo: Repository, tmp_path: Path) -> None:
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/inner").symlink_to("deep")
    repo.export("HEAD", tmp_path / "link/inner")
    assert content(tmp_path / "real/deep") == FILES
    repo.export("HEAD:three.txt", tmp_path / "link/inner/single.txt")
    assert (tmp_path / "real/deep/single.txt").read_text() == "3"
    with Repository.init(tmp_path / "real/repo") as made:
        first = commit_texts(made, {"sub/x.txt": "0"})
        commit_texts(made, {"sub/x.txt": "1", "sub/y.txt": "1"})
    with Repository.open(tmp_path / "link/repo") as linked:
        linked.checkout_files(first)
    assert content(tmp_path / "real/repo") == {"sub/x.txt": "0"}


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_written_through(
    repo: Repository, outside: Path
) -> None:
    (repo.top / "three.txt").unlink()
    (repo.top / "three.txt").symlink_to(outside / "one.txt")
    repo.restore_files([repo.top / "three.txt"], force=True)
    assert not (repo.top / "three.txt").is_symlink()
    assert (outside / "one.txt").read_text() == "precious"


def test_files_behind_a_link_are_neither_removed_nor_moved(repo: Repository) -> None:
    first = repo.head().id
    (repo.top / "new.txt").write_text("new")
    repo.commit_files([repo.top / "new.txt"], message="new", only=True, plain=True)
    repo.checkout_files(first)
    (repo.top / "a").rename(repo.top / "kept")
    (repo.top / "a").symlink_to("kept")
    kept = content(repo.top / "kept")
    assert kept == {"b/one.txt": "1", "two.txt": "2"}
    repo.checkout_files("main", force=True)
    assert listed(repo.top) == ["a", "kept", "kept/b", "kept/b/one.txt", "kept/two.txt", "new.txt"]
    repo.reset(first)
    with pytest.raises(UsageError, match="behind the symbolic link"):
        repo.move_files([repo.top / "a/two.txt"], repo.top / "elsewhere.txt", message="moved", force=True)
    info = repo.remove_files([repo.top / "a/b/one.txt"], message="less", force=True)
    assert info.notes == ["'a/b/one.txt' was left in the folder: it lies behind a symbolic link"]
    assert content(repo.top / "kept") == kept


@pytest.mark.parametrize(
    "change",
    [
        lambda top: top.remove("a/two.txt"),
        lambda top: top.remove("a/b/one.txt"),
        lambda top: top.remove_folder("a/b"),
        lambda top: top.rename("a/two.txt", "stolen.txt"),
        lambda top: top.rename("three.txt", "a/two.txt"),
        lambda top: top.make_above("a/new/x"),
        lambda top: os.close(top.opener("a/new")("", 0)),
        lambda top: top.status("a/two.txt"),
    ],
)
def test_nothing_is_done_behind_a_link(tmp_path: Path, outside: Path, change) -> None:
    top, before = tmp_path / "top", content(outside)
    top.mkdir()
    (top / "three.txt").write_text("3")
    (top / "a").symlink_to(outside)
    with OpenFolder.at(top) as folder:
        folder.remove_emptied("a/b/one.txt")
        folder.sweep_beside("a/x")
        with pytest.raises(OSError, match="a symbolic link is there") as caught:
            change(folder)
    assert caught.value.filename == str(top / "a")
    assert content(outside) == before
    assert (top / "a").is_symlink()


def test_a_new_file_takes_no_others_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("new")
    with OpenFolder.at(tmp_path) as folder:
        for name in ("file", "link"):
            with pytest.raises(FileExistsError):
                folder.opener(name)("", 0)
    assert not (tmp_path / "new").exists()


def test_no_descriptor_is_left_open(repo: Repository, tmp_path: Path, outside: Path) -> None:
    count = len(list(Path("/proc/self/fd").iterdir()))
    target = tmp_path / "target"
    repo.export("HEAD", target)
    (target / "a").rename(target / "other")
    (target / "a").symlink_to(outside)
    for _ in range(3):
        with pytest.raises(MvcsError):
            repo.export("HEAD", target, force=True)
        with OpenFolder.at(target) as folder, pytest.raises(OSError, match="symbolic link"):
            folder.make_above("a/b/c")
    assert len(list(Path("/proc/self/fd").iterdir())) == count
