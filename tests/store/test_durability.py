"""What a power cut must leave: every folder on the way to a file is synchronised in the one above it."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import StorageError
from mvcs.store.backend.local import LocalBackend


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The inodes of the folders that were synchronised."""
    inodes: set[int] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            inodes.add(status.st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return inodes


def lost(top: Path, synced: set[int]) -> list[Path]:
    """The folders below `top` that a power cut could take; temporary files are nobody's."""
    folders = [path for path in top.rglob("*") if path.is_dir() and "tmp" not in path.relative_to(top).parts]
    return [path for path in folders if path.parent.stat().st_ino not in synced]


def test_a_new_repository_outlives_a_power_cut(tmp_path: Path, synced: set[int]) -> None:
    top = tmp_path / "base"
    top.mkdir()
    with Repository.init(top / "a" / "b") as repo:
        repo.commit({"w": np.ones((20, 20), np.float32)}, bins=4)
    assert lost(top, synced) == []


def test_so_does_a_store_elsewhere(tmp_path: Path, synced: set[int]) -> None:
    top = tmp_path / "base"
    top.mkdir()
    with Repository.init(top / "work", store=str(top / "far" / "store")) as repo:
        repo.commit({"x": 1})
    assert lost(top, synced) == []


def test_a_file_that_another_process_wrote_just_now_is_made_durable_too(
    tmp_path: Path, synced: set[int]
) -> None:
    (tmp_path / "base/packs/ab").mkdir(parents=True)
    (tmp_path / "base/packs/ab/x.pack").write_bytes(b"content")
    LocalBackend(tmp_path / "base").put("packs/ab/x.pack", b"content")
    assert lost(tmp_path / "base", synced) == []
    assert (tmp_path / "base/packs/ab").stat().st_ino in synced


def test_so_is_a_pack_that_was_written_before(tmp_path: Path, synced: set[int]) -> None:
    (tmp_path / "base/packs/ab").mkdir(parents=True)
    (tmp_path / "base/packs/ab/x.pack").write_bytes(b"content")
    file = LocalBackend(tmp_path / "base").stage()
    file.write(b"content")
    file.publish("packs/ab/x.pack")
    assert lost(tmp_path / "base", synced) == []
    assert (tmp_path / "base/packs/ab").stat().st_ino in synced


def test_a_discarded_file_takes_no_more_bytes(tmp_path: Path) -> None:
    """Another file may have its descriptor by now, which must not get them."""
    file = LocalBackend(tmp_path / "base").stage()
    file.write(b"content")
    file.discard()
    with (tmp_path / "other").open("wb") as other:
        with pytest.raises(StorageError):
            file.write(bytes(2 << 20))
        with pytest.raises(StorageError):
            file.publish("packs/ab/x.pack")
        assert other.tell() == 0
    assert (tmp_path / "other").read_bytes() == b""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes fork on POSIX systems alone")
def test_a_forked_child_leaves_what_its_parent_writes(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys\n"
        "from mvcs.store.backend.local import LocalBackend\n"
        "file = LocalBackend(pathlib.Path(sys.argv[1])).stage()\n"
        "file.write(b'content')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "file.publish('packs/ab/x.pack')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert (tmp_path / "packs/ab/x.pack").read_bytes() == b"content"


def test_a_folder_of_packs_goes_with_the_last_of_them(tmp_path: Path, synced: set[int]) -> None:
    one, other = LocalBackend(tmp_path / "base"), LocalBackend(tmp_path / "base")
    for backend in (one, other):
        backend.put("packs/ab/x.pack", b"content")
        backend.put("packs/ab/y.pack", b"content")
        one.delete("packs/ab/x.pack")
        assert (tmp_path / "base/packs/ab").is_dir()
        one.delete("packs/ab/y.pack")
        assert list((tmp_path / "base/packs").iterdir()) == []
    synced.clear()
    one.put("packs/ab/x.pack", b"content")
    assert (tmp_path / "base/packs").stat().st_ino in synced
    one.put("refs/heads/main/0", b"record")
    one.delete("refs/heads/main/0")
    assert (tmp_path / "base/refs/heads/main").is_dir()


def test_who_writes_where_others_delete_makes_the_folder_again(tmp_path: Path) -> None:
    def work(name: str) -> None:
        backend = LocalBackend(tmp_path / "base")
        for _ in range(100):
            backend.put(f"packs/ab/{name}.pack", b"content")
            backend.delete(f"packs/ab/{name}.pack")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    assert list((tmp_path / "base/packs").iterdir()) == []
