"""What is missing or damaged in a long history costs a check little more, and is told once, where it lies."""

import shutil
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.objects import Kind
from mvcs.progress import SILENT
from mvcs.reports import FsckReport
from mvcs.store.backend.counted import Counted
from mvcs.store.backend.local import LocalBackend
from mvcs.store.packs.footer import Placed
from mvcs.store.reading.objects import ObjectStore
from mvcs.upkeep import check_store
from tests.repository.states import own_packs, state

COMMITS, LOST = 24, 4
TIMES = 3  # as many reads as a whole store takes, at most


class Listed(LocalBackend):
    """A store that counts how often its packs are listed."""

    listings = 0

    def list(self, prefix: str = "") -> list[str]:
        self.listings += prefix.startswith(("packs", "exact"))
        return super().list(prefix)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of bounded commits, each near the one before."""
    folder = tmp_path_factory.mktemp("pristine") / "work"
    with Repository.init(folder) as repo:
        for number in range(COMMITS):
            repo.commit(state(number, 40), step=number, metrics={"loss": 1 / (number + 1)}, step_size=0.5)
    return folder


@pytest.fixture
def work(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "work"))


def checked(work: Path) -> tuple[FsckReport, int, int]:
    """Return what a check finds, and how many reads and listings it takes."""
    backend = Listed(work / ".mvcs")
    counted = Counted(backend)
    report = check_store(ObjectStore(counted), SILENT)
    return report, counted.requests, backend.listings


def pack_of(work: Path, step: int) -> Path:
    with Repository.open(work) as repo:
        name = own_packs(repo, f"step:{step}")[-1]
    return work / ".mvcs" / "packs" / name[:2] / f"{name}.pack"


def chunk_entries(work: Path, name: str) -> list[Placed]:
    footer = ObjectStore(LocalBackend(work / ".mvcs")).catalog.attach(name)
    kinds = [{member.kind for member in placed.entry.members} for placed in footer.entries]
    return [placed for placed, found in zip(footer.entries, kinds, strict=True) if found == {Kind.CHUNK}]


def test_what_was_dropped_costs_a_check_nothing(work: Path) -> None:
    whole, requests, listings = checked(work)
    with Repository.open(work) as repo:
        repo.set_retention(last=2)
        repo.apply_retention()
        repo.gc(grace_days=0, wait_days=0, execute=True)
    report, fewer, again = checked(work)
    assert whole.ok
    assert report.ok
    assert fewer <= requests
    assert again <= listings + 2  # the upgrades and drops that there are now


def test_a_lost_pack_is_one_problem_however_much_leans_on_it(work: Path) -> None:
    _, requests, listings = checked(work)
    lost = pack_of(work, LOST)
    lost.unlink()
    report, more, again = checked(work)
    packs = [problem for problem in report.problems if problem.kind == "pack"]
    assert [problem.subject.rpartition("/")[2] for problem in packs] == [lost.name]
    assert more <= TIMES * requests
    assert again <= listings + 2


def test_a_damaged_pack_is_one_problem_and_commits_that_lose_by_it_are_named(work: Path) -> None:
    _, requests, listings = checked(work)
    damaged = pack_of(work, LOST)
    data = bytearray(damaged.read_bytes())
    for placed in chunk_entries(work, damaged.stem):
        data[placed.offset + placed.length // 2] ^= 1
    damaged.chmod(0o644)
    damaged.write_bytes(data)
    report, more, again = checked(work)
    (problem,) = report.problems
    assert problem.subject.endswith(damaged.name)
    assert f"{COMMITS - LOST} commits lose something by it: " in problem.message
    assert more <= TIMES * requests
    assert again <= listings + 2
