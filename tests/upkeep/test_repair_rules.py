"""Damaged records of rules and pins: fsck tells, repair mends them or keeps everything."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError
from tests.repository.states import content, state

COMMITS = 6


@pytest.fixture
def work(tmp_path: Path) -> Path:
    with Repository.init(tmp_path / "work") as repo:
        for number in range(COMMITS):
            repo.commit(state(number), step=number)
        repo.set_retention(last=3)
        repo.pin("HEAD~5", reason="paper")
        repo.set_retention(last=2)
    return tmp_path / "work"


def record(work: Path, row: str, number: int) -> Path:
    return work / ".mvcs/retention" / row / f"{99999999 - number}"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.chmod(0o644)
    path.write_bytes(data)


def wipe(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(bytes(64))


def remove(path: Path) -> None:
    path.unlink()


def stray(path: Path) -> None:
    path.with_name("00000000").write_bytes(b"")


def test_a_flipped_bit_is_turned_back(work: Path) -> None:
    path = record(work, "rules", 1)
    before = path.read_bytes()
    flip(path)
    with Repository.open(work) as repo:
        assert [(item.kind, item.subject) for item in repo.fsck().problems] == [
            ("retention", f"retention/rules/{path.name}")
        ]
        report = repo.repair()
        assert report.problems == []
        assert repo.fsck().problems == []
        assert {item.step for item in repo.apply_retention(dry_run=True).dropped} == {1, 2, 3}
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("row", "number", "damage"),
    [
        ("rules", 1, wipe),
        ("rules", 0, wipe),
        ("rules", 0, remove),
        ("rules", 1, stray),
        ("pins", 0, wipe),
        ("pins", 0, stray),
    ],
)
def test_what_cannot_be_had_back_keeps_everything(
    work: Path, row: str, number: int, damage: Callable[[Path], None]
) -> None:
    damage(record(work, row, number))
    with Repository.open(work) as repo:
        was = [content(repo, f"HEAD~{back}") for back in range(COMMITS)]
        assert [item.kind for item in repo.fsck().problems] == ["retention"]
        assert "'mvcs repair'" in (repo.fsck().problems[0].hint or "")
        trial = repo.repair(execute=False)
        assert trial.mended
        assert [item.kind for item in repo.fsck().problems] == ["retention"]
        report = repo.repair()
        assert report.problems == []
        assert any("everything is kept" in note for note in report.notes)
        assert repo.fsck().problems == []
        assert repo.apply_retention().dropped == []
        assert [content(repo, f"HEAD~{back}") for back in range(COMMITS)] == was
        repo.set_retention(last=2)
        kept = {item.step for item in repo.apply_retention(dry_run=True).dropped}
        assert kept == ({1, 2, 3} if row == "rules" else {0, 1, 2, 3} if damage is wipe else {1, 2, 3})


def test_behind_a_damaged_record_nothing_is_dropped(work: Path) -> None:
    wipe(record(work, "rules", 1))
    with Repository.open(work) as repo, pytest.raises(CorruptionError):
        repo.apply_retention()
