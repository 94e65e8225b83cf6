"""Levels of fsck: names and footers, checksums, everything, or everything of a part in turn."""

import json
import shutil
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.local.findings import Findings
from mvcs.local.records import LocalRecords
from tests.repository.states import state


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "work"
    with Repository.init(folder) as repo:
        for number in range(6):
            repo.commit(state(number), step=number, **({"step_size": 0.5} if number > 2 else {}))
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "work")) / ".mvcs"


def packs(store: Path) -> list[Path]:
    return sorted(path for layer in ("exact", "packs") for path in (store / layer).rglob("*.pack"))


def turn(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def test_checksums_alone_tell_of_a_flipped_bit_in_any_pack(store: Path) -> None:
    for path in packs(store):
        turn(path)
    with Repository.open(store.parent) as repo:
        assert repo.fsck(full=False).ok
        report = repo.fsck(decode=False)
        assert {problem.subject for problem in report.problems} == {
            path.relative_to(store).as_posix() for path in packs(store)
        }
        assert {problem.message for problem in report.problems} == {"its bytes do not hash to its name"}
        assert repo.fsck().problems


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_samples_cover_everything_in_turn(store: Path, share: float) -> None:
    for path in packs(store):
        turn(path)
    found: set[str] = set()
    with Repository.open(store.parent) as repo:
        for _ in packs(store):
            report = repo.fsck(sample=share)
            assert report.sample is not None
            now = {problem.subject for problem in report.problems if problem.kind == "pack"}
            assert len(now) == report.sample.packs
            assert not now & found
            found |= now
            assert {problem.subject for problem in Findings.load(store).problems} >= found
            if report.sample.since is not None:
                break
        assert found == {path.relative_to(store).as_posix() for path in packs(store)}
        assert report.sample.done == 1
        again = repo.fsck(sample=share)
        assert again.sample is not None
        assert again.sample.since is not None
        assert again.sample.since >= report.sample.begun


@pytest.mark.parametrize(
    "record", [[], {"after": 7, "begun": "x"}, {"after": "zz", "begun": -1, "before": 1e9}]
)
def test_a_place_that_anything_happened_to_begins_anew(store: Path, record: object) -> None:
    (store / "local/sampled.json").write_text(json.dumps(record))
    with Repository.open(store.parent) as repo:
        report = repo.fsck(sample=0.01)
        assert report.ok
        assert report.sample is not None
        assert report.sample.packs == 1


def test_packs_that_come_and_go_do_not_stop_the_round(store: Path) -> None:
    with Repository.open(store.parent) as repo:
        repo.fsck(sample=0.3)
        after = LocalRecords(store).read("sampled")["after"]
        (store / after).unlink()
        report = repo.fsck(sample=1)
        assert report.sample is not None
        assert report.sample.packs == len([path for path in packs(store) if path > store / after])
        assert repo.fsck(sample=1).sample.packs == len(packs(store))


@pytest.mark.parametrize("share", [0, -1, 1.5, float("nan")])
def test_a_sample_is_a_part(store: Path, share: float) -> None:
    with Repository.open(store.parent) as repo, pytest.raises(UsageError, match="part"):
        repo.fsck(sample=share)


def test_an_empty_store_has_nothing_to_sample(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        report = repo.fsck(sample=0.5)
    assert report.ok
    assert report.sample is not None
    assert report.sample.packs == 0


def test_a_bare_store_remembers_no_place(store: Path) -> None:
    with Repository.open(store.parent) as repo:
        repo.add_remote("origin", str(store.parent.parent / "far"))
        repo.push()
    with Repository.open(store.parent.parent / "far") as bare:
        assert bare.fsck(decode=False).notes == []
        with pytest.raises(UsageError, match="bare store"):
            bare.fsck(sample=0.1)


def test_what_is_no_part_of_a_store_is_named_and_left_alone(store: Path) -> None:
    with Repository.open(store.parent) as repo:
        assert repo.fsck(full=False).notes == []
        (store / "notes.txt").write_text("mine")
        (store / "retention/drops").mkdir(parents=True, exist_ok=True)
        (store / "retention/drops/read me").write_text("mine")
        report = repo.fsck(full=False)
        assert report.ok
        assert report.notes == [
            "'notes.txt', 'retention/drops/read me' are no part of a store, and were left alone"
        ]
        assert repo.repair().ok
    assert (store / "notes.txt").read_text() == "mine"
