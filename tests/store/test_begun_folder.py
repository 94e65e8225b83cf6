"""A folder of records comes with its first record: a writer that is killed leaves none that is empty."""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from mvcs import Repository
from mvcs.errors import ConflictError, StorageError
from mvcs.local_files import FOLDER, temporary_name
from mvcs.store.backend.local import LocalBackend
from tests.store.dying import die
from tests.store.faults import Disk, full_disk

RECORD = "refs/heads/main/99999999"


def empty_folders(root: Path) -> list[Path]:
    """The folders in which nothing lies, but for those of files that are being written."""
    folders = [
        path for path in root.rglob("*") if path.is_dir() and "tmp" not in path.relative_to(root).parts
    ]
    return [path for path in folders if not any(path.iterdir())]


def killed(root: Path, name: str, before: int) -> bool:
    """Kill a process before so many changes of its creating a file; tell whether it got so far."""
    child = os.fork()
    if not child:
        with Disk(root, before, die):
            LocalBackend(root).create(name, b"content")
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("there", ["", "refs", "refs/heads"])
def test_whenever_a_writer_is_killed_no_folder_is_empty(tmp_path: Path, there: str) -> None:
    """And what it had begun goes with the next look at leftovers."""
    steps = 0
    while True:
        root = tmp_path / str(steps)
        backend = LocalBackend(root)
        backend.put("mvcs.json", b"{}")
        if there:
            backend.create(f"{there}/other/0", b"other")
        if not killed(root, RECORD, steps):
            break
        assert empty_folders(root) == []
        assert backend.children("refs/heads/main") in ([], ["99999999"])
        backend.sweep()
        assert backend.children("tmp") == []
        backend.create(RECORD, b"content")
        assert backend.read(RECORD) == b"content"
        steps += 1
    assert steps > 6


def test_a_refused_change_leaves_nothing(tmp_path: Path) -> None:
    """Where the folder cannot be begun the file is made as in one that is there; else it is an error."""
    for allowed in range(20):
        root = tmp_path / str(allowed)
        backend = LocalBackend(root)
        backend.put("mvcs.json", b"{}")
        try:
            with Disk(root, allowed, full_disk, once=True) as disk:
                backend.create(RECORD, b"content")
        except StorageError:
            assert backend.size(RECORD) is None
        else:
            assert backend.read(RECORD) == b"content"
        backend.sweep()
        if not disk.refused:
            break
    assert allowed > 6


def test_of_many_writers_of_a_new_name_one_succeeds(tmp_path: Path) -> None:
    backend, writers = LocalBackend(tmp_path), 6
    barrier = Barrier(writers)

    def create(number: int, name: str) -> bool:
        barrier.wait()
        try:
            backend.create(name, bytes([number]))
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        for turn in range(20):
            name = f"refs/kind{turn // 4}/name{turn}/0"
            won = list(pool.map(create, range(writers), [name] * writers))
            assert won.count(True) == 1
            assert backend.read(name) == bytes([won.index(True)])
        for turn in range(20):
            names = [f"refs/other{turn}/{number}/0" for number in range(writers)]
            assert all(pool.map(create, range(writers), names))
    assert backend.children("tmp") == []


Hook = Callable[[str, tuple[object, ...]], None]
_HOOKS: list[Hook] = []


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    for hook in tuple(_HOOKS):
        hook(event, arguments)


sys.addaudithook(_listen)


@contextmanager
def before_rename(top: Path, act: Callable[[], object]) -> Iterator[None]:
    """Do something right before something is renamed to a path, once."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.rename" and str(arguments[1]) == str(top):
            _HOOKS.remove(hook)
            act()

    _HOOKS.append(hook)
    yield
    assert hook not in _HOOKS


def test_a_writer_that_made_the_folder_first_and_is_slower_loses(tmp_path: Path) -> None:
    """As writers of before do: a rename takes the place of their empty folder, and they find the record."""
    backend, folder = LocalBackend(tmp_path), tmp_path / "refs/heads/main"
    backend.create("refs/heads/other/0", b"other")
    slower = tmp_path / "tmp" / "slower"
    with before_rename(folder, folder.mkdir):
        backend.create(RECORD, b"ours")
    slower.write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        os.link(slower, tmp_path / RECORD)
    assert backend.read(RECORD) == b"ours"


def test_a_writer_that_made_the_folder_first_and_is_quicker_wins(tmp_path: Path) -> None:
    backend, folder = LocalBackend(tmp_path), tmp_path / "refs/heads/main"
    backend.create("refs/heads/other/0", b"other")
    theirs = tmp_path / RECORD

    def write() -> None:
        folder.mkdir()
        theirs.write_bytes(b"theirs")

    with before_rename(folder, write), pytest.raises(ConflictError):
        backend.create(RECORD, b"ours")
    assert theirs.read_bytes() == b"theirs"
    assert backend.children("tmp") == []


def test_an_empty_folder_that_is_there_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "refs/heads/main"
    folder.mkdir(parents=True)
    number = folder.stat().st_ino
    LocalBackend(tmp_path).create(RECORD, b"content")
    assert folder.stat().st_ino == number


@pytest.mark.parametrize("odd", ["two", "link", "file"])
def test_what_no_writer_begins_is_left_alone(tmp_path: Path, odd: str) -> None:
    """Nothing goes but a folder of such a name, of a process that is gone, with one file in it."""
    name = temporary_name(FOLDER).replace(f"-{os.getpid()}-", f"-{2**22 + 1}-")
    place = tmp_path / "tmp" / name
    place.parent.mkdir()
    if odd == "two":
        place.mkdir()
        (place / "a").write_bytes(b"")
        (place / "b").write_bytes(b"")
    elif odd == "link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.write_bytes(b"")
    LocalBackend(tmp_path).sweep()
    assert place.exists()


def test_nobody_is_told_that_such_a_folder_is_foreign(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "work") as repo:
        repo.commit({"x": 1})
        store = Path(repo.url)
    (store / "tmp" / temporary_name(FOLDER)).mkdir()
    with Repository.open(tmp_path / "work") as repo:
        report = repo.fsck()
        assert report.ok
        assert report.notes == []
        assert repo.gc(execute=True).garbage == []
