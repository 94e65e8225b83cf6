"""Repair: what is damaged or missing comes again byte for byte, and what cannot is named tensor by tensor."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import ConflictError, CorruptionError, NotFoundError, UsageError
from mvcs.local.findings import Findings
from mvcs.local.records import LocalRecords
from tests.repository.states import content, copied, own_packs, state

COMMITS = 4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with exact and bounded commits, and a remote that has all of it. To be copied."""
    folder = tmp_path_factory.mktemp("made")
    with Repository.init(folder / "work") as repo:
        for number in range(COMMITS):
            options = {"step_size": 0.5} if number >= COMMITS - 2 else {}
            repo.commit(state(number), step=number, message=f"step {number}", **options)
        repo.create_tag("first", "step:0")
        repo.add_remote("origin", str(folder / "far"))
        repo.push(exact=True, tags=True)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    copied(made, tmp_path)
    return tmp_path


def files(store: Path) -> dict[str, bytes]:
    """Packs, records and all else that belongs to the store itself."""
    folders = ("packs", "exact", "manifests", "refs", "retention")
    found = [path for name in folders for path in (store / name).rglob("*")]
    return {path.relative_to(store).as_posix(): path.read_bytes() for path in found if path.is_file()}


def contents(folder: Path) -> list[object]:
    with Repository.open(folder) as repo:
        return [content(repo, info.id) for info in repo.log()]


def delete(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def turn(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def blank(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes(min(512, len(data) - 40)) + data[552:])


DAMAGE = [delete, cut, turn, blank]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("layer", ["packs", "exact"])
def test_every_pack_comes_again_byte_for_byte(
    folder: Path, layer: str, damage: Callable[[Path], None]
) -> None:
    store = folder / "work/.mvcs"
    whole, before = files(store), contents(folder / "work")
    packs = sorted((store / layer).rglob("*.pack"))
    assert len(packs) >= 2
    for path in packs:
        damage(path)
    with Repository.open(folder / "work") as repo:
        report = repo.repair()
        assert (report.ok, report.losses, report.commits) == (True, [], COMMITS)
        assert {one.path for one in report.mended} == {path.relative_to(store).as_posix() for path in packs}
        assert {one.how for one in report.mended} == {"copied from 'origin'"}
        assert repo.fsck().ok
    assert files(store) == whole
    assert contents(folder / "work") == before


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_dry_run_says_the_same_and_changes_nothing(folder: Path, damage: Callable[[Path], None]) -> None:
    store = folder / "work/.mvcs"
    for path in sorted((store / "packs").rglob("*.pack")):
        damage(path)
    damaged = files(store)
    with Repository.open(folder / "work") as repo:
        plan = repo.repair(execute=False)
        assert files(store) == damaged
        assert not (store / "damaged").exists()
        done = repo.repair()
    assert not plan.executed
    assert done.executed
    assert (plan.mended, plan.problems, plan.losses) == (done.mended, done.problems, done.losses)


def test_what_lay_there_is_kept_aside_once(folder: Path) -> None:
    store = folder / "work/.mvcs"
    [path] = sorted((store / "packs").rglob("*.pack"))[:1]
    turn(path)
    damaged = path.read_bytes()
    with Repository.open(folder / "work") as repo:
        [kept] = repo.repair().aside
        assert (store / kept).read_bytes() == damaged
        path.write_bytes(damaged)
        assert not repo.fsck().ok
        assert repo.repair().aside == [kept]
        assert repo.repair().aside == []
        assert repo.fsck().ok


def test_it_goes_on_from_what_fsck_found(folder: Path) -> None:
    store = folder / "work/.mvcs"
    first, second = sorted((store / "packs").rglob("*.pack"))[:2]
    turn(first)
    with Repository.open(folder / "work") as repo:
        repo.fsck()
        found = Findings.load(store)
        assert [problem.subject for problem in found.problems] == [first.relative_to(store).as_posix()]
        turn(second)  # which nobody looked at yet
        assert [one.path for one in repo.repair().mended] == [found.problems[0].subject]
        assert Findings.load(store).problems == ()
        assert not repo.fsck().ok
        assert repo.repair().ok


@pytest.mark.parametrize("record", [[], {"time": 3, "problems": 7}, {"problems": [["pack"], [1, 2, 3, 4]]}])
def test_findings_that_anything_happened_to_are_none(folder: Path, record: object) -> None:
    store = folder / "work/.mvcs"
    turn(min((store / "packs").rglob("*.pack")))
    (store / "local").mkdir(exist_ok=True)
    (store / "local/findings.json").write_text(json.dumps(record))
    with Repository.open(folder / "work") as repo:
        assert repo.repair().ok


def test_findings_name_no_file_outside_the_packs(folder: Path) -> None:
    store = folder / "work/.mvcs"
    name = "ab" * 32
    paths = [
        f"../packs/ab/{name}.pack",
        f"packs/../{name}.pack",
        f"refs/ab/{name}.pack",
        "HEAD",
        "/etc/passwd",
    ]
    with LocalRecords(store).change("findings") as record:
        record |= {"time": 1, "problems": [["pack", path, "", ""] for path in paths]}
    before = files(store)
    with Repository.open(folder / "work") as repo:
        report = repo.repair()
    assert (report.ok, report.mended) == (True, [])
    assert files(store) == before


def test_without_a_copy_it_says_what_is_lost(folder: Path) -> None:
    shutil.rmtree(folder / "far")
    store = folder / "work/.mvcs"
    whole = files(store)
    with Repository.open(folder / "work") as repo:
        tree = own_packs(repo, "step:0")[-1]
    path = store / f"packs/{tree[:2]}/{tree}.pack"
    path.unlink()
    with Repository.open(folder / "work") as repo:
        report = repo.repair()
        assert not report.ok
        assert report.mended == []
        assert "remote 'origin' was left out" in report.notes[0]
        lost = {loss.message: loss for loss in report.losses if loss.layer == "value"}
        assert lost["step 0"].count is None or lost["step 0"].tensors
    path.write_bytes(whole[path.relative_to(store).as_posix()])
    with Repository.open(folder / "work") as repo:
        assert repo.repair().losses == []


def test_fsck_and_repair_count_alike_and_readers_name_the_same_place(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32)
    with Repository.init(tmp_path) as repo:
        for number in range(COMMITS):
            repo.commit({"w": weight + np.float32(number / 500)}, step=number, step_size=0.5)
        assert repo.restore_figures().depth == COMMITS - 1
        pack = own_packs(repo, "step:0")[-1]
        entries = repo._session.store.catalog.attach(pack).entries
    entry = max(entries, key=lambda each: each.length)
    path = next(tmp_path.rglob(f"{pack}.pack"))
    data = path.read_bytes()
    middle = entry.offset + entry.length // 2
    path.write_bytes(data[:middle] + bytes(300) + data[middle + 300 :])
    where = f"the entry at offset {entry.offset} does not match its checksum"
    with Repository.open(tmp_path) as repo:
        (found,) = repo.fsck().problems
        assert where in found.message
        assert f"{COMMITS} commits lose something by it" in found.message
        for report in (repo.repair(execute=False), repo.repair()):
            (left,) = report.problems
            assert where in left.message
            assert sorted(left.objects) == sorted(found.objects)
            assert f"{COMMITS} commits lose something by it" in left.message
            assert len({loss.commit for loss in report.losses}) == COMMITS
        with pytest.raises(CorruptionError, match=where):
            repo.checkout("step:0", numpy=True)


def test_what_an_fsck_found_is_said_until_it_is_mended(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        turn(next((folder / "work" / ".mvcs" / "packs").rglob("*.pack")))
        assert repo.status().problems == []
        assert not repo.fsck().ok
        (told,) = repo.status().problems
        assert re.fullmatch(r"the fsck of 20.* UTC found 1 damaged pack: 'mvcs repair' mends that.*", told)
        quick = repo.fsck(full=False)
        assert (quick.ok, quick.notes[-1]) == (True, told)
        assert told not in repo.fsck().notes
        assert repo.repair().ok
        assert repo.status().problems == []
        assert all("found" not in note for note in repo.fsck(full=False).notes)


def test_a_store_of_another_project_is_no_source(folder: Path, tmp_path: Path) -> None:
    turn(min((folder / "work/.mvcs/packs").rglob("*.pack")))
    with Repository.open(folder / "work") as repo:
        repo.add_remote("stranger", str(tmp_path / "other"))
        with Repository.init(tmp_path / "other") as other:
            other.commit({"w": np.ones(4)})
        with pytest.raises(ConflictError, match="another project") as caught:
            repo.repair(source="stranger")
        with pytest.raises(NotFoundError):
            repo.repair(source="nobody")
        report = repo.repair()
        assert report.ok
        said = next(note for note in report.notes if "stranger" in note)
        assert "another project" in said
        assert caught.value.hint in said


def test_a_damaged_copy_is_of_no_use(folder: Path) -> None:
    store = folder / "work/.mvcs"
    [path] = sorted((store / "packs").rglob("*.pack"))[:1]
    name = path.relative_to(store).as_posix()
    whole = path.read_bytes()
    blank(path)
    blanked = path.read_bytes()
    blank(folder / "far" / name)
    shutil.copytree(folder / "far", folder / "good")
    (folder / "good" / name).write_bytes(whole)
    with Repository.open(folder / "work") as repo:
        assert not repo.repair().ok
        assert path.read_bytes() == blanked
        repo.add_remote("good", str(folder / "good"))
        assert repo.repair(source="good").ok
    assert path.read_bytes() == whole


def test_a_bare_store_is_not_repaired_from_inside(folder: Path) -> None:
    with Repository.open(folder / "far") as repo, pytest.raises(UsageError, match="bare store"):
        repo.repair()


def test_a_damaged_lineage_is_made_anew(folder: Path) -> None:
    path = folder / "work/.mvcs/lineage.sqlite"
    data = path.read_bytes()
    page = len(data) // 2 // 4096 * 4096
    path.write_bytes(data[:page] + b"\x07" * 4096 + data[page + 4096 :])
    with Repository.open(folder / "work") as repo:
        assert not any("lineage" in note for note in repo.repair(execute=False).notes)
        assert any("lineage index was rebuilt" in note for note in repo.repair().notes)
        assert repo.lineage_status()["commits"] == COMMITS
        assert not any("lineage" in note for note in repo.repair().notes)
