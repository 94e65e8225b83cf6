"""What a collector deletes while fsck looks is no problem once nothing leads to it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.local.findings import Findings
from mvcs.local.store_watch import known_damaged
from mvcs.progress import Silent
from tests.repository.states import state


class During(Silent):
    """Does something once, before the packs of a layer are read."""

    def __init__(self, layer: str, act: Callable[[], None]) -> None:
        self._before = ["packs", "exact"].index(layer)
        self._act = act

    def start(self, stage: str, total: int | None, unit: str) -> None:  # noqa: ARG002
        if stage == "checking packs":
            self._before -= 1
            if self._before == -1:
                self._act()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A bounded commit, and two that no ref leads to any more."""
    folder = tmp_path / "work"
    with Repository.init(folder) as repo:
        repo.commit(state(0), step_size=0.5)
        for number in (1, 2):
            repo.commit(state(number), step_size=0.5, branch="left")
    for record in (folder / ".mvcs/refs/heads/left").iterdir():
        record.unlink()
    (folder / ".mvcs/refs/heads/left").rmdir()
    (folder / ".mvcs/local/seen.json").unlink()
    return folder


def collect(work: Path) -> None:
    with Repository.open(work) as repo:
        assert {
            Path(item.path).parts[0] for item in repo.gc(grace_days=0, wait_days=0, execute=True).garbage
        } == {
            "packs",
            "exact",
            "manifests",
        }


@pytest.mark.parametrize("layer", ["packs", "exact"])
def test_packs_that_a_collector_deleted_meanwhile_are_no_problem(work: Path, layer: str) -> None:
    with Repository.open(work, progress=During(layer, lambda: collect(work))) as repo:
        assert repo.fsck().problems == []


def test_nothing_of_them_stays_remembered_as_damaged(work: Path) -> None:
    with Repository.open(work, progress=During("exact", lambda: collect(work))) as repo:
        repo.fsck()
    assert Findings.load(work / ".mvcs").problems == ()
    assert known_damaged(work / ".mvcs") == set()
    with Repository.open(work) as repo:
        assert repo.status().problems == []
        assert not any("damaged" in note for note in repo.commit(state(3), step_size=0.5).notes)


def test_packs_that_went_since_a_commit_was_stored_again_are_no_problem(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        for number in range(3):
            repo.commit(state(number), step=number)

    def repack() -> None:
        with Repository.open(tmp_path) as repo:
            repo.compact(max_depth=0)
            repo.gc(grace_days=0, wait_days=0, execute=True)

    with Repository.open(tmp_path, progress=During("packs", repack)) as repo:
        assert repo.fsck().problems == []
