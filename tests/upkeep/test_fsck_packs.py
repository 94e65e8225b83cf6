"""fsck tells of each damaged pack once, with how much cannot be read on its account, here and elsewhere."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mvcs import Repository
from mvcs.local.store_watch import known_damaged
from mvcs.store.packs.pack import Tail
from mvcs.ui.checks import checked
from mvcs.ui.text import Screen
from tests.repository.states import own_packs

LAYERS, COMMITS = 12, 4


def state(number: int) -> dict[str, Any]:
    fixed, drift = np.random.default_rng(0), np.random.default_rng(number + 1)
    weights = {f"layer{each}": fixed.standard_normal((64, 64)).astype(np.float32) for each in range(LAYERS)}
    return {
        name: weight + 1e-3 * drift.standard_normal(weight.shape).astype(np.float32)
        for name, weight in weights.items()
    }


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine") / "work"
    with Repository.init(folder) as repo:
        repo.config_set("restore.max_cost", "1000")  # so that all lean on the first
    with Repository.open(folder) as repo:
        for number in range(COMMITS):
            repo.commit(state(number))
    return folder


@pytest.fixture
def work(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "work"))


def first_pack(work: Path) -> str:
    with Repository.open(work) as repo:
        name = own_packs(repo, f"HEAD~{COMMITS - 1}")[-1]
    return f"packs/{name[:2]}/{name}.pack"


def flip_an_entry(data: bytearray) -> None:
    data[len(data) // 3] ^= 4


def flip_the_footer(data: bytearray) -> None:
    data[Tail.parse(data).footer_offset + 10] ^= 4


def wipe_the_entries(data: bytearray) -> None:
    end = Tail.parse(data).footer_offset
    data[16:end] = bytes(end - 16)


DAMAGES = [flip_an_entry, flip_the_footer, wipe_the_entries]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_base_is_one_problem_however_much_leans_on_it(
    work: Path, damage: Callable[[bytearray], None]
) -> None:
    path = first_pack(work)
    data = bytearray((work / ".mvcs" / path).read_bytes())
    damage(data)
    (work / ".mvcs" / path).write_bytes(data)
    with Repository.open(work) as repo:
        report = repo.fsck()
    (problem,) = [problem for problem in report.problems if problem.kind != "commit"]
    assert (problem.kind, problem.subject) == ("pack", path)
    assert len(problem.objects) == len(set(problem.objects)) >= LAYERS * (COMMITS - 1)
    assert f"{len(problem.objects)} objects cannot be read: {problem.objects[0][:12]}, " in problem.message
    assert "'mvcs repair' brings it" in (problem.hint or "")
    assert problem.to_json()["objects"] == problem.objects
    assert known_damaged(work / ".mvcs") == {Path(path).stem}


def test_two_damaged_packs_are_two_problems(work: Path) -> None:
    paths = sorted((work / ".mvcs" / "packs").rglob("*.pack"))[:2]
    for path in paths:
        data = bytearray(path.read_bytes())
        wipe_the_entries(data)
        path.write_bytes(data)
    with Repository.open(work) as repo:
        packs = [problem for problem in repo.fsck().problems if problem.kind == "pack"]
    found = [problem.subject.rpartition("/")[2] for problem in packs]
    assert sorted(found) == [path.name for path in paths]


def test_commits_that_lack_the_same_are_printed_together(work: Path) -> None:
    path = work / ".mvcs" / first_pack(work)
    data = bytearray(path.read_bytes())
    flip_the_footer(data)
    path.write_bytes(data)
    with Repository.open(work) as repo:
        report = repo.fsck()
    lines = [line for line in checked(report, Screen()) if line.startswith("commit: ")]
    assert sum(problem.kind == "commit" for problem in report.problems) == COMMITS
    assert len(lines) == 1  # they all need that pack
    assert not any("run 'mvcs fsck'" in (problem.hint or "") for problem in report.problems)


def test_fsck_does_not_advise_to_run_fsck(work: Path) -> None:
    for path in sorted((work / ".mvcs" / "packs").rglob("*.pack")):
        whole = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(b"damage")
        with Repository.open(work) as repo:
            hints = [problem.hint or "" for problem in repo.fsck().problems]
        path.write_bytes(whole)
        assert hints
        assert not [hint for hint in hints if "mvcs fsck" in hint]


def test_what_a_fetch_does_not_bring_is_copied(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.commit(state(COMMITS), step_size=0.5)
    path = next((work / ".mvcs" / "exact").rglob("*.pack"))
    path.chmod(0o644)
    path.write_bytes(b"damage")
    with Repository.open(work) as repo:
        (problem,) = repo.fsck().problems
    assert "fetch" not in (problem.hint or "")
    assert "copy the file of that name from a clone or remote" in (problem.hint or "")


def test_a_damaged_tree_is_no_fault_of_an_exact_layer(tmp_path: Path) -> None:
    """Nothing tells what values its entries are near; its own bytes are as they were written."""
    with Repository.init(tmp_path) as repo:
        for number in range(2):
            repo.commit(state(number), step_size=0.5)
        damaged = repo._session.resolver.resolve("HEAD")
        located = repo._session.store.catalog.locate(damaged.commit.tree)
    pack = tmp_path / ".mvcs" / f"packs/{located.pack[:2]}/{located.pack}.pack"
    data = bytearray(pack.read_bytes())
    data[located.placed.offset + located.placed.length - 1] ^= 4
    pack.write_bytes(data)
    with Repository.open(tmp_path) as repo:
        report = repo.fsck()
    assert {problem.kind for problem in report.problems} == {"commit", "pack"}
    assert not any("exact/" in problem.subject for problem in report.problems)
    (note,) = [note for note in report.notes if "was not looked into" in note]
    assert damaged.written.exact_packs[0] in note


def test_leftovers_whose_bases_are_missing_are_no_problem(tmp_path: Path) -> None:
    # Twelve packs, since only some orders of their names once told of a pack behind another one.
    with Repository.init(tmp_path / "work") as repo:
        for number in range(3 * COMMITS):
            repo.commit(state(number))
        base = own_packs(repo, f"HEAD~{3 * COMMITS - 1}")[-1]
        repo.add_remote("origin", str(tmp_path / "bare"))
        repo.push()
    (tmp_path / f"bare/packs/{base[:2]}/{base}.pack").unlink()
    shutil.rmtree(tmp_path / "bare/refs/heads")
    with Repository.open(tmp_path / "bare") as repo:
        report = repo.fsck()
    assert report.problems == []
    assert len(report.notes) == 3 * COMMITS - 1
