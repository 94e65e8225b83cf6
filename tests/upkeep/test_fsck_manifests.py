"""fsck reads every record of every manifest, and sees that a manifest alone finds its commit."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.reports import Problem
from mvcs.store import Placement, manifest_path
from tests.repository.states import copied, own_packs, state

COMMITS = 3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exact commits, each near the one before, and the oldest with a second record. To be copied."""
    folder = tmp_path_factory.mktemp("made")
    with Repository.init(folder / "work") as repo:
        for number in range(COMMITS):
            repo.commit(state(number), step=number)
        move(repo, "step:0", lambda placement: placement)
    return folder


@pytest.fixture
def work(made: Path, tmp_path: Path) -> Path:
    copied(made, tmp_path)
    return tmp_path / "work"


def move(repo: Repository, rev: str, change: Callable[[Placement], Placement]) -> None:
    manifests, commit = repo._session.store.manifests, repo._session.resolver.resolve(rev).id
    placement = manifests.placement(commit)
    manifests.append(commit, change(placement), placement)


def path_of(work: Path, rev: str, number: int = 0) -> str:
    with Repository.open(work) as repo:
        return manifest_path(repo._session.resolver.resolve(rev).id, number)


def problems(work: Path, *, full: bool = False) -> list[Problem]:
    with Repository.open(work) as repo:
        report = repo.fsck(full=full)
        assert report.ok == (not report.problems)
        return report.problems


def test_a_second_record_is_no_problem(work: Path) -> None:
    assert problems(work, full=True) == []


@pytest.mark.parametrize(("rev", "number"), [("main", 0), ("step:1", 0), ("step:0", 0), ("step:0", 1)])
def test_a_damaged_record_is_told_by_its_path(work: Path, rev: str, number: int) -> None:
    path = path_of(work, rev, number)
    data = (work / ".mvcs" / path).read_bytes()
    (work / ".mvcs" / path).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert [(one.kind, one.subject) for one in problems(work)] == [("manifest", path)]


@pytest.mark.parametrize("rev", ["main", "step:1", "step:0"])
def test_a_lost_first_record_is_told_by_its_path(work: Path, rev: str) -> None:
    path = path_of(work, rev)
    (work / ".mvcs" / path).unlink()
    assert ("manifest", path) in [(one.kind, one.subject) for one in problems(work)]


def test_the_record_of_another_commit_is_told(work: Path) -> None:
    path, other = path_of(work, "step:1"), path_of(work, "main")
    shutil.copy(work / ".mvcs" / other, work / ".mvcs" / path)
    (problem,) = problems(work)
    assert (problem.kind, problem.subject) == ("manifest", path)
    assert "it is that of commit" in problem.message


def test_what_a_manifest_does_not_name_is_missing_though_the_store_has_it(work: Path) -> None:
    with Repository.open(work) as repo:
        (base,) = own_packs(repo, "step:0")
        others = repo._session.store.manifests.placement(repo._session.resolver.resolve("main").id).others
        assert base in others
        move(repo, "main", lambda found: replace(found, others=tuple(set(found.others) - {base})))
    assert [one.kind for one in problems(work)] == ["commit"]


def test_a_lost_newest_record_is_told_where_the_one_before_names_packs_that_went(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.compact(max_depth=0)
        repo.gc(grace_days=0, wait_days=0, execute=True)
        commit = repo._session.resolver.resolve("main").id
        newest = repo._session.store.manifests.numbers(commit)[0]
    (work / ".mvcs" / manifest_path(commit, newest)).unlink()
    assert newest > 0
    assert [one.subject for one in problems(work)] == [f"commit {commit.hex()[:12]}"]


def test_data_that_are_absent_without_a_record_of_a_drop_are_missing(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.set_retention(last=1, force=True)
        repo.apply_retention(force=True)
        repo.gc(grace_days=0, wait_days=0, execute=True)
        commit = repo._session.resolver.resolve("step:1").id
        assert repo.fsck().ok
        move(repo, "step:1", lambda found: replace(found, dropped=None))
    (problem,) = problems(work)
    assert problem.subject == f"commit {commit.hex()[:12]}"
    with Repository.open(work) as repo:
        assert "the data of 1 commit were dropped on purpose; 'mvcs log' marks them" in repo.fsck().notes


def test_a_pinned_commit_is_checked_though_no_ref_leads_to_it(work: Path) -> None:
    with Repository.open(work) as repo:
        repo.commit(state(9), branch="side", step=9)
        repo.pin("side")
        (name,) = own_packs(repo, "side")
        repo.delete_branch("side", force=True)
        assert repo.fsck().problems == []
    (work / f".mvcs/packs/{name[:2]}/{name}.pack").unlink()
    assert [one.kind for one in problems(work)] == ["commit"]
