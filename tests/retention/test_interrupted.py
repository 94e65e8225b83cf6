"""Retention that is stopped between two changes of the disk: nothing that stays is lost, and it goes on."""

import contextlib
import random
import shutil
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import MvcsError
from tests.repository.states import content, state
from tests.store.faults import Disk, Stopped, full_disk

COMMITS, ROWS = 6, 60
KEPT = {300, 400, 500}
POINTS = 10


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine") / "work"
    with Repository.init(folder) as repo:
        for number in range(COMMITS):
            repo.commit(state(number, ROWS), step=100 * number, step_size=0.5 if number % 2 else None)
        repo.set_retention(last=3)
    return folder


@pytest.fixture(scope="module")
def before(pristine: Path) -> dict[int, object]:
    with Repository.open(pristine) as repo:
        return {info.step or 0: content(repo, info.id) for info in repo.log()}


def apply(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.apply_retention()


def changes_of(pristine: Path, tmp_path: Path) -> int:
    work = Path(shutil.copytree(pristine, tmp_path / "counted"))
    with Disk(work) as disk:
        apply(work)
    return disk.changes


def check(work: Path, before: dict[int, object], *, done: bool) -> None:
    """What stays restores bit for bit; what does not is there, or on record."""
    with Repository.open(work) as repo:
        report = repo.fsck()
        assert report.ok, report.problems
        for info in repo.log():
            if not info.data_dropped:
                assert content(repo, info.id) == before[info.step or 0]
        there = {info.step for info in repo.log() if not info.data_dropped}
        assert there >= KEPT
        assert not done or there == KEPT


@pytest.mark.parametrize("error", [Stopped, full_disk], ids=["killed", "full"])
def test_wherever_it_stops(
    pristine: Path, before: dict[int, object], tmp_path: Path, error: type[BaseException]
) -> None:
    total = changes_of(pristine, tmp_path)
    chosen = random.Random(18).sample(range(total), POINTS)
    for allowed in sorted({0, total - 1, *chosen}):
        work = Path(shutil.copytree(pristine, tmp_path / f"at-{allowed}"))
        # What is refused at the very end may be done again, so that nothing is raised.
        with Disk(work, allowed, error), contextlib.suppress(Stopped, MvcsError, OSError):
            apply(work)
        check(work, before, done=False)
        apply(work)
        check(work, before, done=True)
        with Repository.open(work) as repo:
            repo.gc(grace_days=0, wait_days=0, execute=True)
        check(work, before, done=True)
        shutil.rmtree(work)
