"""The only copy of a file that has the size and the times of a committed one is not lost."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.checkpoint.state.stamped import Stamp
from mvcs.errors import ConflictError, UsageError
from mvcs.objects.ids import checksum
from mvcs.repository.worktree.file_index import Index
from tests.repository.states import write_model

OLD = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
NAME = "model.safetensors"


def write_old(path: Path, number: int) -> bytes:
    data = write_model(path, number)
    os.utime(path, ns=(OLD, OLD))
    return data


def copied(source: Path, target: Path) -> None:
    """As `cp -p` does: into the file that is there."""
    shutil.copyfile(source, target)
    shutil.copystat(source, target)


def moved(source: Path, target: Path) -> None:
    source.rename(target)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    """Two commits of a file whose time of writing never changes."""
    with Repository.init(tmp_path / "work") as repository:
        for number in (1, 2):
            write_old(repository.top / NAME, number)
            repository.commit_files([repository.top / NAME], message=str(number))
        yield repository


def states_of(repo: Repository) -> list[str]:
    return [entry.state for entry in repo.status().entries]


def settle(repo: Repository) -> Index:
    """Ask for the status until a file is older than a tick of the clock; return the index that knows it."""
    for _ in range(1000):
        assert states_of(repo) == ["unmodified"]
        index = Index.load(repo.top / ".mvcs")
        if index.untouched(repo.top, NAME, repo.head().id):
            return index
    raise AssertionError("the index does not learn what was read")


@pytest.mark.parametrize("put", [copied, moved])
def test_a_file_with_the_size_and_time_of_the_committed_one_is_modified_and_stays(
    repo: Repository, tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    path, other = repo.top / NAME, tmp_path / "other.safetensors"
    mine, before = write_old(other, 3), path.stat()
    put(other, path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert states_of(repo) == ["modified"]
    with pytest.raises(ConflictError, match="not committed"):
        repo.checkout_files("HEAD~1")
    with pytest.raises(ConflictError, match="not committed"):
        repo.remove_files([path], message="gone")
    assert path.read_bytes() == mine


def test_an_export_that_was_rewritten_in_its_size_and_time_stays(repo: Repository, tmp_path: Path) -> None:
    target = tmp_path / "x.safetensors"
    repo.export("HEAD~1", target)
    repo.export("HEAD", target)
    kept = target.stat()
    mine = write_model(target, 3)
    os.utime(target, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    with pytest.raises(ConflictError, match="is there already"):
        repo.export("HEAD", target)
    assert target.read_bytes() == mine


def test_an_export_that_was_rewritten_at_once_stays(repo: Repository, tmp_path: Path) -> None:
    """What is written within a tick of the clock has a stamp that proves nothing."""
    target = tmp_path / "x.safetensors"
    for _ in range(2):
        repo.export("HEAD", target)
    target.write_bytes(mine := target.read_bytes()[:-1] + b"!")
    with pytest.raises(ConflictError, match="is there already"):
        repo.export("HEAD", target)
    assert target.read_bytes() == mine


def test_an_index_that_knows_size_and_time_alone_lets_the_content_decide(repo: Repository) -> None:
    path, head = repo.top / NAME, repo.head().id
    mine, status = write_old(path, 3), path.stat()
    known = [status.st_size, status.st_mtime_ns, head, "exact", False]
    text = json.dumps({"files": {NAME: known}, "places": {}, "looked_ns": 2 * OLD}).encode()
    (repo.top / ".mvcs/index").write_bytes(text + b"\n" + checksum(text).hex().encode())
    with pytest.raises(ConflictError):
        repo.checkout_files("HEAD~1")
    assert (states_of(repo), path.read_bytes()) == (["modified"], mine)
    write_old(path, 2)
    assert states_of(repo) == ["unmodified"]
    settle(repo)


def test_status_notes_what_it_read_and_overwrites_nothing_that_was_noted_meanwhile(repo: Repository) -> None:
    local, path, head = repo.top / ".mvcs", repo.top / NAME, repo.head().id
    before = dict(Index.load(local).files)
    path.chmod(0o600)
    assert not Index.load(local).untouched(repo.top, NAME, head)
    index = settle(repo)
    index.mark_lossy([NAME], head, "value")
    index.save(local)
    late = Index(dict(before))
    late.looked = late.look(repo.top, [NAME])
    late.remember(head, "exact")
    late.confirm(local, before)
    assert Index.load(local).files[NAME].lossy


def test_a_link_that_leads_nowhere_is_not_replaced(repo: Repository) -> None:
    path = repo.top / NAME
    path.unlink()
    path.symlink_to("unmounted.safetensors")
    for change in (
        lambda: repo.checkout_files("HEAD~1"),
        lambda: repo.restore_files([path]),
        lambda: repo.reset("HEAD", hard=True),
        lambda: repo.remove_files([path], message="x"),
    ):
        with pytest.raises(ConflictError, match="is a link that leads nowhere, and would be lost"):
            change()
        assert path.is_symlink()
    repo.restore_files([path], force=True)
    assert not path.is_symlink()


@pytest.mark.parametrize(
    ("changed_ns", "is_told"),
    [(1, True), (7 * SECOND, True), (9 * SECOND, False), (10 * SECOND - 5, False), (10 * SECOND, False)],
)
def test_a_stamp_settles_when_the_clock_has_gone_on(changed_ns: int, *, is_told: bool) -> None:
    """A file system that counts whole seconds gives a later change the same time."""
    moment = 10 * SECOND
    for stamp in (Stamp(5, changed_ns, 1, 7), Stamp(5, 1, changed_ns, 7)):
        assert (stamp.settled(moment) == stamp) is is_told


def test_a_file_that_was_renamed_has_a_new_stamp_unless_it_was_touched() -> None:
    aside, moment = Stamp(5, SECOND + 5, SECOND + 6, 7), 10 * SECOND
    found = Stamp(5, SECOND + 5, moment - 5, 7)
    assert aside.renamed(found, moment) == found
    for other in (Stamp(5, SECOND + 9, moment - 5, 7), Stamp(5, SECOND + 5, 9 * SECOND, 7)):
        assert aside.renamed(other, moment) == Stamp.of_none(other.size, other.mtime_ns)
    assert Stamp(5, moment - 9, moment - 9, 7).renamed(found, moment) not in (found, aside)


def test_an_export_replaces_nothing_that_is_no_file(repo: Repository, tmp_path: Path) -> None:
    pipe, device, lost = (tmp_path / f"{name}.safetensors" for name in ("pipe", "device", "lost"))
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    lost.symlink_to("unmounted")
    for path, kind in ((pipe, "a pipe"), (device, "a device")):
        for force in (False, True):
            with pytest.raises(UsageError, match=f"is {kind}"):
                repo.export("HEAD", path, force=force)
    with pytest.raises(ConflictError, match="leads nowhere"):
        repo.export("HEAD", lost)
    assert (pipe.is_fifo(), device.is_symlink(), lost.is_symlink()) == (True, True, True)
    repo.export("HEAD", lost, force=True)
    assert lost.is_file()


@pytest.mark.parametrize("force", [False, True])
def test_an_export_in_whose_way_something_lies_writes_nothing(
    repo: Repository, tmp_path: Path, *, force: bool
) -> None:
    """Before, the files that were in place by then stayed, and a second try was refused on their account."""
    for name in ("a.safetensors", "run/b.safetensors", "z.safetensors"):
        (repo.top / name).parent.mkdir(exist_ok=True)
        write_model(repo.top / name, 3)
    repo.commit_files([repo.top], message="three")
    folder, file = tmp_path / "folder", tmp_path / "file"
    (folder / "z.safetensors").mkdir(parents=True)
    file.mkdir()
    (file / "run").write_bytes(b"mine")
    with pytest.raises(ConflictError, match=r"z\.safetensors' is a folder, and a file comes in its place"):
        repo.export("HEAD", folder, force=force)
    with pytest.raises(ConflictError, match="run' is a file, and a folder comes in its place"):
        repo.export("HEAD", file, force=force)
    assert [path.name for path in (*folder.rglob("*"), *file.rglob("*"))] == ["z.safetensors", "run"]
    (folder / "z.safetensors").rmdir()
    assert repo.export("HEAD", folder).files == 4
