"""What is told of long work adds up: every stage ends with as much done as it was said to take."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.store.reading.pack_files import pack_path
from tests.repository.states import own_packs, write_model


class Told:
    """Keeps every stage with what it was to take and what was done."""

    def __init__(self) -> None:
        self.stages: list[list[object]] = []

    def start(self, stage: str, total: int | None, _unit: str) -> None:
        self.stages.append([stage, total, 0])

    def advance(self, amount: int) -> None:
        self.stages[-1][2] += amount

    def finish(self) -> None:
        pass

    def note(self, _message: str) -> None:
        pass

    def check(self, *stages: str) -> None:
        """Check what was told since the last time."""
        told, self.stages = self.stages, []
        assert {stage for stage, _, _ in told} >= set(stages)
        assert [(stage, done) for stage, _, done in told] == [(stage, total) for stage, total, _ in told]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def repo(tmp_path: Path, told: Told) -> Iterator[Repository]:
    """Two commits of three files, one of which stays, and two of a state with one tensor under two names."""
    with Repository.init(tmp_path / "work", progress=told) as made:
        top = made.top / "run"
        top.mkdir()
        (top / "config.json").write_text('{"layers": 2}')
        torch.save({"a": (one := torch.zeros(9)), "b": one, "raw": b"0123"}, top / "other.pt")
        for number in range(2):
            write_model(top / "model.safetensors", number)
            made.commit_files([top], message=f"{number}", step_size=0.5)
            array = np.random.default_rng(number).standard_normal((40, 50 + number)).astype(np.float32)
            made.commit({"w": array, "again": array, "raw": b"abc"}, branch="state", message=f"{number}")
        told.check("storing")
        yield made


def test_restoring_all_or_a_part(repo: Repository, told: Told, tmp_path: Path) -> None:
    for branch in ("main", "state"):
        repo.checkout(branch)
        repo.checkout(branch, tensors="*w*")
        repo.restore(branch)
        repo.export(branch, tmp_path / f"{branch}.npz")
        repo.export(branch, tmp_path / f"{branch}.safetensors", tensors="*w*")
        told.check("restoring")
    repo.checkout_files("main~1", force=True)
    (repo.top / "run/config.json").unlink()
    repo.checkout_files("main", force=True)
    repo.diff("main~1", "main")
    repo.diff("state~1", "state")
    told.check("restoring", "comparing")


def test_checking_and_exchanging(repo: Repository, told: Told, tmp_path: Path) -> None:
    (repo.top / ".mvcs/packs/notes.txt").write_text("mine")
    repo.fsck()
    repo.add_remote("origin", str(tmp_path / "far"))
    repo.push(all_branches=True)
    told.check("checking packs", "copying packs")
    with Repository.clone(str(tmp_path / "far"), tmp_path / "late", progress=told):
        told.check("copying packs", "restoring")


def test_a_fetch_counts_what_an_earlier_one_brought_and_what_it_cannot_take(
    repo: Repository, told: Told, tmp_path: Path
) -> None:
    with Repository.init(tmp_path / "late", progress=told) as late:
        late.add_remote("origin", str(repo.top))
        left = tmp_path / "late/.mvcs/incoming/0123456789abcdef"
        left.mkdir(parents=True)
        (left / "lock").touch()
        name = pack_path(own_packs(repo, "state")[-1])
        (left / Path(name).name).write_bytes((repo.top / ".mvcs" / name).read_bytes())
        late.fetch()
        told.check("copying packs")
