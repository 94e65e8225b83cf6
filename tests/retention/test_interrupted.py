"""Retention that is stopped between two changes of the disk: nothing that stays is lost, and it goes on."""

import contextlib
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import MvcsError
from mvcs.local import Trust
from mvcs.local.place import find
from tests.repository.states import content, state
from tests.store.faults import Disk, FaultyBackend, Stopped, full_disk

COMMITS, ROWS = 6, 60
KEPT = {300, 400, 500}
POINTS = 5


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


def apply(work: Path, *, force: bool = False) -> None:
    with Repository.open(work) as repo:
        repo.apply_retention(force=force)


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


class LayersStay(FaultyBackend):
    """A store of which the process dies before it deletes an exact layer."""

    def delete(self, name: str) -> None:
        if name.startswith("exact/"):
            raise Stopped
        super().delete(name)


def test_exact_layers_go_though_it_stopped_once_the_data_were_dropped(tmp_path: Path) -> None:
    """What such a layer is near is gone with the data: it would be found damaged for good."""
    with Repository.init(tmp_path) as repo:
        for number in range(3):
            repo.commit(state(number, ROWS), step=100 * number, step_size=0.5)
        repo.set_retention(last=1, force=True)
    place = find(str(tmp_path), None, Trust.of_user())
    stopping = Repository(replace(place, backend=LayersStay(place.backend)))
    with pytest.raises(Stopped), stopping:
        stopping.apply_retention(force=True)
    layers = tmp_path / ".mvcs/exact"
    assert len(list(layers.rglob("*.pack"))) == 2
    apply(tmp_path, force=True)
    assert len(list(layers.rglob("*.pack"))) == 1
    with Repository.open(tmp_path) as repo:
        assert [info.data_dropped for info in repo.log()] == [False, True, True]
        repo.gc(grace_days=0, wait_days=0, execute=True)
        assert repo.fsck().ok


class OneCommitMoves(FaultyBackend):
    """A store of which the process dies when one commit was moved."""

    moved = False

    def create(self, name: str, data: bytes) -> None:
        if name.startswith("manifests/"):
            if self.moved:
                raise Stopped
            self.moved = True
        super().create(name, data)


def test_what_was_not_moved_any_more_is_when_it_is_applied_again(tmp_path: Path) -> None:
    """Or it holds for good what was dropped."""
    with Repository.init(tmp_path) as repo:
        for number in range(2):
            repo.commit(state(number, ROWS), step=100 * number)
        repo.create_branch("side")
        repo.commit(state(7, ROWS), step=150, branch="side")
        repo.commit(state(2, ROWS), step=200)
        repo.set_retention(last=1, force=True)
    before = set((tmp_path / ".mvcs/packs").rglob("*.pack"))
    place = find(str(tmp_path), None, Trust.of_user())
    stopping = Repository(replace(place, backend=OneCommitMoves(place.backend)))
    with pytest.raises(Stopped), stopping:
        stopping.apply_retention(force=True)
    with Repository.open(tmp_path) as repo:
        assert not any(info.data_dropped for info in repo.log(all_branches=True))
        assert repo.fsck().ok
        repo.apply_retention(force=True)
        assert sum(info.data_dropped for info in repo.log(all_branches=True)) == 2
        repo.gc(grace_days=0, wait_days=0, execute=True)
        assert repo.fsck().ok
    assert not any(pack.exists() for pack in before)
