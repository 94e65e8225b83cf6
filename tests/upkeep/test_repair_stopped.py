"""A repair is stopped before any of its changes, or refused one: nothing is worse, and the next ends it."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import MvcsError
from tests.repository.states import copied, state
from tests.store.faults import Disk, Stopped, full_disk


def files(store: Path) -> dict[str, bytes]:
    folders = ("packs", "exact", "manifests", "refs", "retention")
    found = [path for name in folders for path in (store / name).rglob("*")]
    return {path.relative_to(store).as_posix(): path.read_bytes() for path in found if path.is_file()}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes], dict[str, bytes]]:
    """A damaged repository with a remote that is whole; its files as they were, and as they are."""
    folder = tmp_path_factory.mktemp("world")
    with Repository.init(folder / "work") as repo:
        for number in range(3):
            repo.commit(state(number), step=number, step_size=0.5)
        repo.add_remote("origin", str(folder / "far"))
        repo.push(exact=True)
    store = folder / "work/.mvcs"
    whole = files(store)
    first, second, third = sorted((store / "packs").rglob("*.pack"))[:3]
    first.unlink()
    flipped = [min((store / "exact").rglob("*.pack")), min((store / "refs/heads/main").iterdir())]
    for path in (second, min((store / "manifests").rglob("*.99999999")), *flipped):
        data = path.read_bytes()
        path.write_bytes(data[:100] + bytes([data[100] ^ 4]) + data[101:])
    third.write_bytes(third.read_bytes()[:-5])
    with Repository.open(folder / "work") as repo:
        assert not repo.fsck().ok
    return folder, whole, files(store)


def changes(world: tuple[Path, dict[str, bytes], dict[str, bytes]], target: Path) -> int:
    copied(world[0], target)
    with Disk(target / "work") as disk, Repository.open(target / "work") as repo:
        assert repo.repair().ok
    return disk.changes


def stopped(target: Path, number: int, error: Callable[[], BaseException], *, once: bool) -> bool:
    """Repair until the change of a number; tell whether there was one."""
    disk = Disk(target / "work", number, error, once=once)
    with suppress(Stopped, MvcsError, OSError), disk, Repository.open(target / "work") as repo:
        repo.repair()
    return disk.refused > 0


def check(target: Path, whole: dict[str, bytes], damaged: dict[str, bytes]) -> None:
    """Every file is as it was, or is whole; then a repair ends it."""
    store = target / "work/.mvcs"
    for name, data in files(store).items():
        assert data in (whole[name], damaged.get(name)), name
    with Repository.open(target / "work") as repo:
        assert repo.repair().ok
        assert repo.fsck().ok
    assert files(store) == whole


def cases() -> list[object]:
    quick = {0, 7, 15, 24, 36}
    return [pytest.param(part, marks=[] if part in quick else [pytest.mark.slow]) for part in range(48)]


@pytest.mark.parametrize("part", cases())
def test_it_is_stopped_before_a_change(
    world: tuple[Path, dict[str, bytes], dict[str, bytes]], tmp_path: Path, part: int
) -> None:
    total = changes(world, tmp_path / "all")
    assert total > 20
    number = part * total // 48
    copied(world[0], tmp_path / "copy")
    assert stopped(tmp_path / "copy", number, Stopped, once=False)
    check(tmp_path / "copy", world[1], world[2])
    shutil.rmtree(tmp_path / "copy")
    copied(world[0], tmp_path / "copy")
    stopped(tmp_path / "copy", number, full_disk, once=True)
    check(tmp_path / "copy", world[1], world[2])
