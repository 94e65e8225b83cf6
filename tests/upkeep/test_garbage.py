"""`gc`: what nothing needs is planned, shown, and deleted only when told to, and when it is old enough."""

import os
import time
from dataclasses import replace

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, StorageError, UsageError
from mvcs.objects.ids import ObjectId
from mvcs.store.manifests import manifest_path
from mvcs.upkeep.collecting.garbage import collect_garbage, named
from tests.store.dying import state
from tests.store.faults import FaultyBackend

DAY = 24 * 3600


def packs(folder):
    """The packs and manifests of a repository."""
    store = folder / ".mvcs"
    found = (path for name in ("packs", "exact", "manifests") for path in (store / name).rglob("*.*"))
    return {path.relative_to(store).as_posix() for path in found if named(path.relative_to(store).as_posix())}


def age(folder, paths, days):
    for path in paths:
        written = time.time() - days * DAY
        os.utime(folder / ".mvcs" / path, (written, written))


@pytest.fixture
def repo(tmp_path):
    """Two commits on main, a tag, a branch; and packs of a commit whose branch and reflog are gone."""
    with Repository.init(tmp_path) as repository:
        repository.commit(state(0), bins=16)
        repository.create_tag("first")
        repository.commit(state(1), bins=16)
        kept = packs(tmp_path)
        repository.commit(state(2), bins=16, branch="side")
        for record in (tmp_path / ".mvcs/refs/heads/side").iterdir():
            record.unlink()
        (tmp_path / ".mvcs/refs/heads/side").rmdir()
        (tmp_path / ".mvcs/local/seen.json").unlink()
        repository.lost = packs(tmp_path) - kept
        assert len(repository.lost) == 3
        yield repository


def test_a_plan_deletes_nothing(repo, tmp_path):
    age(tmp_path, repo.lost, 20)
    before = packs(tmp_path)
    report = repo.gc(wait_days=0)
    assert {item.path for item in report.garbage} == repo.lost
    assert report.bytes == sum((tmp_path / ".mvcs" / path).stat().st_size for path in repo.lost)
    assert not report.executed
    assert all(19 < item.age / DAY < 21 for item in report.garbage)
    assert packs(tmp_path) == before


def test_what_is_executed_is_what_was_planned(repo, tmp_path):
    age(tmp_path, repo.lost, 20)
    before = packs(tmp_path)
    planned, done = repo.gc(wait_days=0), repo.gc(execute=True, wait_days=0)
    assert done.executed
    assert {item.path for item in done.garbage} == {item.path for item in planned.garbage} == repo.lost
    assert packs(tmp_path) == before - repo.lost
    with Repository.open(tmp_path) as again:
        assert again.fsck().ok
    assert repo.gc(execute=True).garbage == []
    assert repo.checkout("first", exact=True, numpy=True)["step"] == 0


def test_what_is_young_waits(repo, tmp_path):
    age(tmp_path, repo.lost, 13)
    report = repo.gc(execute=True)
    assert report.garbage == []
    assert {item.path for item in report.waiting} == repo.lost
    assert repo.lost <= packs(tmp_path)
    assert {item.path for item in repo.gc(grace_days=12, wait_days=0, execute=True).garbage} == repo.lost


def test_whatever_a_ref_led_to_stays_at_any_age(repo, tmp_path):
    """A deleted branch, a deleted tag, and the commit that HEAD alone stands on."""
    repo.create_branch("gone", "main")
    repo.switch("gone")
    repo.commit(state(5), bins=16)
    repo.checkout_files(repo.head().id)
    detached = repo.commit(state(6), bins=16).id
    repo.delete_branch("gone", force=True)
    repo.delete_tag("first")
    kept = packs(tmp_path) - repo.lost
    age(tmp_path, packs(tmp_path), 400)
    assert {item.path for item in repo.gc(execute=True, wait_days=0).garbage} == repo.lost
    assert packs(tmp_path) == kept
    assert repo.checkout(detached, numpy=True)["step"] == 6
    repo.create_branch("back", "gone@{1}")
    assert repo.checkout("back", numpy=True)["step"] == 5


def test_what_a_lost_record_of_a_branch_named_stays(repo, tmp_path):
    """The oldest record of three is lost: only it named the commit that was amended."""
    repo.commit(state(7), bins=16)
    repo.reset("first")
    repo.commit(state(8), bins=16)
    kept = packs(tmp_path)
    age(tmp_path, kept, 400)
    (tmp_path / ".mvcs/refs/heads/main/99999999").unlink()
    report = repo.gc(execute=True)
    assert report.garbage == []
    assert any("the records of 'main' before number" in note for note in report.notes)
    assert packs(tmp_path) == kept


def flip(path):
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


def replace_by_broken_link(path):
    path.unlink()
    path.symlink_to("nowhere")


HARM = [flip, replace_by_folder, replace_by_broken_link, lambda path: path.write_bytes(b""), os.unlink]


@pytest.mark.parametrize("harm", HARM)
def test_what_a_damaged_log_of_head_named_stays(tmp_path, harm):
    with Repository.init(tmp_path) as repo:
        first = repo.commit(state(0), bins=16).id
        repo.checkout_files(first)
        alone = repo.commit(state(1), bins=16).id
        repo.switch("main")
        age(tmp_path, packs(tmp_path), 400)
        assert repo.gc(execute=True).garbage == []
        harm(tmp_path / ".mvcs/local/head.json")
        report = repo.gc(execute=True)
        assert report.garbage == []
        assert any("log of where HEAD was" in note for note in report.notes)
        assert not repo.fsck().ok or any("log of where HEAD was" in note for note in repo.fsck().notes)
        repo.checkout_files(first)
        assert repo.gc(execute=True).garbage == []  # a log that began again does not tell either
        assert repo.checkout(alone, numpy=True)["step"] == 1


def test_a_log_of_head_that_began_again_is_believed_once_the_loss_is_past_the_grace(tmp_path):
    with Repository.init(tmp_path) as repo:
        first = repo.commit(state(0), bins=16).id
        repo.checkout_files(first)
        repo.commit(state(1), bins=16)
        repo.switch("main")
        age(tmp_path, packs(tmp_path), 400)
        (tmp_path / ".mvcs/local/head.json").unlink()
        assert repo.gc(execute=True).garbage == []
        assert len(repo.gc(grace_days=0, execute=True).garbage) == 3


def test_files_of_a_user_stay_at_any_age(repo, tmp_path):
    names = [
        "tmp/thesis.tex",
        "packs/notes",
        "packs/ab/x.pack",
        "exact/0123.pack",
        f"packs/zz/{'a' * 64}.pack",
    ]
    for name in names:
        path = tmp_path / ".mvcs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    age(tmp_path, names, 400)
    assert repo.gc(execute=True).garbage == []
    assert all((tmp_path / ".mvcs" / name).read_text() == "mine" for name in names)


def test_a_damaged_history_deletes_nothing(repo, tmp_path):
    age(tmp_path, packs(tmp_path), 20)
    [record] = (tmp_path / ".mvcs/refs/tags/first").iterdir()
    record.write_bytes(b"rotten")
    before = packs(tmp_path)
    with pytest.raises(CorruptionError):
        repo.gc(execute=True)
    assert packs(tmp_path) == before


@pytest.mark.parametrize("days", [-1.0, float("nan")])
def test_a_grace_is_a_length_of_time(repo, days):
    with pytest.raises(UsageError):
        repo.gc(grace_days=days)


def test_a_store_without_a_clock_is_left_alone(repo, tmp_path):
    age(tmp_path, repo.lost, 400)
    place = repo._session.place
    clockless = replace(place, backend=FaultyBackend(place.backend))
    with pytest.raises(StorageError, match="does not tell when"):
        collect_garbage(clockless, 0, execute=True, wait=0)
    assert repo.lost <= packs(tmp_path)


def test_a_ref_that_lost_its_newest_record_loses_nothing_more(repo, tmp_path):
    repo.commit(state(7), bins=16)
    newest = min((tmp_path / ".mvcs/refs/heads/main").iterdir())
    newest.unlink()
    before = packs(tmp_path)
    age(tmp_path, before, 400)
    with Repository.open(tmp_path) as again, pytest.raises(CorruptionError, match="lost records"):
        again.gc(execute=True)
    assert packs(tmp_path) == before


def damage_manifest(folder, commit):
    path = folder / ".mvcs" / manifest_path(ObjectId(bytes.fromhex(commit)), 0)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.fixture
def gone_back(tmp_path):
    """A branch that was set back from a commit whose manifest is damaged; and garbage of nobody."""
    with Repository.init(tmp_path) as repository:
        repository.commit(state(0), bins=16)
        repository.commit(state(1), bins=16)
        damage_manifest(tmp_path, repository.head().id)
    with Repository.open(tmp_path) as repository:
        repository.reset("main@{1}")
        age(tmp_path, packs(tmp_path), 400)
        yield repository


def test_what_a_reflog_leads_to_and_cannot_be_read_keeps_every_pack(gone_back, tmp_path):
    before = packs(tmp_path)
    for execute in (False, True):
        report = gone_back.gc(grace_days=0, execute=execute)
        assert report.garbage == []
        [note] = report.notes
        assert "manifest" in note
        assert "every pack is kept" in note
    assert packs(tmp_path) == before


def test_what_a_branch_leads_to_and_cannot_be_read_is_refused(repo, tmp_path):
    age(tmp_path, packs(tmp_path), 400)
    damage_manifest(tmp_path, repo.head().id)
    before = packs(tmp_path)
    with Repository.open(tmp_path) as again, pytest.raises(CorruptionError, match="manifest"):
        again.gc(execute=True)
    assert packs(tmp_path) == before


def test_what_head_stood_on_and_cannot_be_read_keeps_every_pack(tmp_path):
    with Repository.init(tmp_path) as repo:
        first = repo.commit(state(0), bins=16).id
        repo.checkout_files(first)
        repo.commit(state(1), bins=16)
        lost = repo.head().id
        repo.switch("main")
    damage_manifest(tmp_path, lost)
    age(tmp_path, packs(tmp_path), 400)
    before = packs(tmp_path)
    with Repository.open(tmp_path) as repo:
        report = repo.gc(execute=True, grace_days=500)
        assert report.garbage == []
        assert any("every pack is kept" in note for note in report.notes)
    assert packs(tmp_path) == before


def test_a_doubt_and_a_damaged_manifest_keep_every_pack(repo, tmp_path):
    repo.commit(state(7), bins=16)
    lost = repo.head().id
    repo.reset("first")
    age(tmp_path, packs(tmp_path), 400)
    (tmp_path / ".mvcs/refs/heads/main/99999999").unlink()
    damage_manifest(tmp_path, lost)
    before = packs(tmp_path)
    with Repository.open(tmp_path) as again:
        report = again.gc(execute=True)
    assert report.garbage == []
    assert packs(tmp_path) == before


def test_a_length_of_time_is_refused_by_its_name(repo):
    with pytest.raises(UsageError, match="the wait is not a length of time") as caught:
        repo.gc(wait_days=-1)
    assert "--wait 1" in str(caught.value.hint)
    with pytest.raises(UsageError, match="the grace is not a length of time"):
        repo.gc(grace_days=float("nan"), wait_days=0)


def test_what_only_the_past_of_a_branch_keeps_is_said(tmp_path):
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0), step=0)
        repo.create_branch("side", "main")
        repo.commit(state(1), step=1, branch="side")
        assert not repo.gc(grace_days=0).notes
        repo.delete_branch("side", force=True)
        [note] = repo.gc(grace_days=0).notes
        assert note.startswith("1 pack stays (")
        assert " bytes)" not in note
        assert "'mvcs reflog' lists the past" in note
