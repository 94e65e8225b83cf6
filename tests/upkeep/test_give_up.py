"""`repair --give-up`: what is lost for good is recorded, and everything else goes on without it."""

import shutil
from contextlib import suppress

import numpy as np
import pytest

from mvcs import MvcsError, NotFoundError, Repository, StorageError, UsageError
from tests.repository.states import own_packs

COMMITS = 5


def state(number):
    start, drift = np.random.default_rng(0), np.random.default_rng(number)
    weight = start.standard_normal(40_000).astype(np.float32)
    return {"w": weight + 0.001 * drift.standard_normal(40_000).astype(np.float32), "step": number}


@pytest.fixture(params=[{}, {"step_size": 0.05}], ids=["exact", "bounded"])
def repo(tmp_path, request):
    """Five commits, each near the one before."""
    with Repository.init(tmp_path / "work") as found:
        for number in range(COMMITS):
            found.commit(state(number), message=str(number), **request.param)
        yield found


def restored(repo):
    """What each commit restores, None where its data are gone, from the first one on."""
    found = []
    for info in reversed(list(repo.log())):
        with suppress(NotFoundError):
            found.append(repo.checkout(info.id, numpy=True)["w"].tobytes())
            continue
        found.append(None)
    return found


def pack(repo, revision):
    """The last pack that was written for a commit."""
    return next((repo.top / ".mvcs/packs").rglob(f"{own_packs(repo, revision)[-1]}.pack"))


def remove(path):
    path.unlink()


def overwrite(path):
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:200] + bytes(len(path.read_bytes()) - 200))


def cut_values(path):
    """Leave the end, where the tree lies."""
    path.chmod(0o644)
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes(2000) + data[2100:])


def given_up(repo):
    """Go on from the newest commit that is whole, or a new one, and give up the others."""
    for found in repo.repair().newest:
        if found.commit is None:
            repo.commit(state(8), message="anew")
        elif not found.tip:
            repo.reset(found.commit)
    return repo.repair(give_up=True)


@pytest.mark.parametrize("number", [0, 2, COMMITS - 1])
@pytest.mark.parametrize("damage", [remove, overwrite, cut_values])
def test_the_rest_goes_on(repo, tmp_path, damage, number):
    before = dict(zip((info.id for info in repo.log()), restored(repo)[::-1], strict=True))
    for name in own_packs(repo, f"HEAD~{COMMITS - 1 - number}"):
        damage(tmp_path / f"work/.mvcs/packs/{name[:2]}/{name}.pack")
    with pytest.raises(MvcsError):
        repo.compact(for_archive=True)
    assert given_up(repo).ok
    after = dict(zip((info.id for info in repo.log()), restored(repo)[::-1], strict=True))
    assert all(value is None or value == before.get(name, value) for name, value in after.items())
    assert repo.checkout("HEAD")
    repo.commit(state(9), message="later")
    repo.compact()
    repo.compact(for_archive=True)
    repo.gc(grace_days=0, wait_days=0, execute=True)
    assert repo.fsck().problems == []
    assert restored(repo)[:-1] == list(after.values())[::-1]
    repo.add_remote("far", str(tmp_path / "far"))
    repo.push("far")
    with Repository.clone(str(tmp_path / "far"), tmp_path / "other") as other:
        assert restored(other) == restored(repo)
        assert other.fsck().ok
    repo.stats()


def test_a_given_up_commit_says_so(repo):
    remove(pack(repo, "HEAD~1"))
    repo.commit(state(8), message="stored alone")
    report = repo.repair(give_up=True)
    assert len(report.given_up) == 2
    with pytest.raises(NotFoundError, match=r"were dropped .*: they were lost, and 'mvcs repair --give-up'"):
        repo.checkout("HEAD~1")
    assert [info.data_dropped for info in repo.log()] == [False, True, True, False, False, False]


def test_where_a_branch_stands_nothing_is_given_up(repo):
    remove(pack(repo, "HEAD"))
    report = repo.repair(give_up=True)
    assert (report.ok, report.given_up) == (False, [])
    assert any("since a branch or HEAD stands on it" in note for note in report.notes)


def test_what_only_the_past_leads_to_is_given_up_as_well(repo):
    remove(pack(repo, "HEAD"))
    repo.reset("HEAD~1")
    assert repo.fsck().ok
    assert any("cannot be read, so every pack is kept" in note for note in repo.gc().notes)
    assert len(repo.repair(give_up=True).given_up) == 1
    assert repo.gc().notes == []


def test_no_pack_is_deleted_by_giving_up(repo):
    """A commit that is being written may lean on what is whole of it."""
    overwrite(pack(repo, "HEAD~1"))
    before = {path: path.read_bytes() for path in (repo.top / ".mvcs/packs").rglob("*.pack")}
    given_up(repo)
    assert all(path.read_bytes() == data for path, data in before.items())


def test_what_turns_up_again_is_brought_back(repo, tmp_path):
    before = restored(repo)
    repo.add_remote("far", str(tmp_path / "far"))
    repo.push("far")
    repo.remove_remote("far")
    remove(pack(repo, "HEAD~2"))
    repo.commit(state(8), message="stored alone")
    assert repo.repair(give_up=True).given_up
    assert None in restored(repo)
    repo.add_remote("far", str(tmp_path / "far"))
    assert repo.repair().ok
    assert restored(repo)[:COMMITS] == before
    assert repo.repair().mended == []


def test_a_remote_that_cannot_be_asked_may_have_it(repo, tmp_path):
    repo.add_remote("far", str(tmp_path / "far"))
    repo.push("far")
    remove(pack(repo, "HEAD~2"))
    (tmp_path / "far").rename(tmp_path / "away")
    with pytest.raises(StorageError, match="so nothing is given up"):
        repo.repair(give_up=True)
    with pytest.raises(UsageError, match="what another remote has is not lost"):
        repo.repair(source="far", give_up=True)


def test_a_lost_exact_layer_alone(tmp_path):
    with Repository.init(tmp_path / "work") as repo:
        for number in range(2):
            repo.commit(state(number), message=str(number), step_size=0.05)
        before = restored(repo)
        for path in (tmp_path / "work/.mvcs/exact").rglob("*.pack"):
            overwrite(path)
        repo.commit(state(2), message="exact")
        report = repo.repair(give_up=True)
        assert {loss.layer for loss in report.losses} == {"exact"}
        assert restored(repo)[:2] == before
        assert report.ok
        assert repo.fsck().ok
        assert not list((tmp_path / "work/.mvcs/exact").rglob("*.pack"))


def test_a_rehearsal_changes_nothing(repo, tmp_path):
    remove(pack(repo, "HEAD~2"))
    repo.commit(state(8))
    before = {path: path.read_bytes() for path in (tmp_path / "work/.mvcs/manifests").rglob("*.*")}
    assert repo.repair(give_up=True, execute=False).ok
    assert not repo.fsck().ok
    assert {path: path.read_bytes() for path in (tmp_path / "work/.mvcs/manifests").rglob("*.*")} == before
    assert repo.repair(give_up=True).ok


def test_without_it_nothing_is_given_up(repo):
    remove(pack(repo, "HEAD~2"))
    assert not repo.repair().ok
    with pytest.raises(MvcsError, match="needs pack"):
        repo.gc(execute=True)


def test_what_is_brought_back_is_no_damaged_pack(repo, tmp_path):
    """Another clone of a store knows nothing of what is damaged in it."""
    before = restored(repo)
    overwrite(pack(repo, "HEAD~2"))
    repo.commit(state(8), message="stored alone")
    repo.repair(give_up=True)
    repo.add_remote("far", str(tmp_path / "far"))
    repo.push("far")
    shutil.rmtree(repo.top / ".mvcs/local")
    repo.repair()
    assert [value in (None, was) for value, was in zip(restored(repo), before, strict=False)] == [
        True
    ] * COMMITS
    assert repo.fsck().ok


def test_the_exact_layer_of_a_tip_is_not_given_up(tmp_path):
    with Repository.init(tmp_path / "work") as repo:
        repo.commit(state(0), step_size=0.05)
        [path] = (tmp_path / "work/.mvcs/exact").rglob("*.pack")
        overwrite(path)
        report = repo.repair(give_up=True)
        assert (report.ok, report.given_up) == (False, [])
        assert path.exists()


def test_a_remote_that_dropped_data_is_not_followed_while_another_may_have_them(tmp_path):
    with Repository.init(tmp_path / "work") as repo:
        for number in range(3):
            repo.commit(state(number))
        for name in ("one", "two"):
            repo.add_remote(name, str(tmp_path / name))
            repo.push(name)
        repo.set_retention(last=1, remote="one", force=True)
        repo.apply_retention(remote="one", force=True)
        repo.gc(remote="one", grace_days=0, wait_days=0, execute=True)
        remove(pack(repo, "HEAD~1"))
        (tmp_path / "two").rename(tmp_path / "away")
        assert not repo.repair().ok
        (tmp_path / "away").rename(tmp_path / "two")
        assert repo.repair().ok
        assert None not in restored(repo)
