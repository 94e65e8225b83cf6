"""`repair --give-up`: what is lost for good is recorded, and everything else goes on without it."""

from contextlib import suppress

import numpy as np
import pytest

from mvcs import MvcsError, NotFoundError, Repository
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


@pytest.mark.parametrize("number", [0, 2, COMMITS - 1])
@pytest.mark.parametrize("damage", [remove, overwrite, cut_values])
def test_the_rest_goes_on(repo, tmp_path, damage, number):
    before = restored(repo)
    for name in own_packs(repo, f"HEAD~{COMMITS - 1 - number}"):
        damage(tmp_path / f"work/.mvcs/packs/{name[:2]}/{name}.pack")
    with pytest.raises(MvcsError):
        repo.compact(for_archive=True)
    report = repo.repair(give_up=True)
    assert report.ok
    lost = {loss.commit for loss in report.losses if loss.layer == "value"}
    after = restored(repo)
    assert [name is None for name in after] == [info.id in lost for info in reversed(list(repo.log()))]
    assert all(now in (None, was) for now, was in zip(after, before, strict=True))
    assert after[number] is None
    repo.commit(state(9), message="later")
    repo.gc(grace_days=0, wait_days=0, execute=True)
    repo.compact()
    repo.compact(for_archive=True)
    repo.gc(grace_days=0, wait_days=0, execute=True)
    assert (repo.fsck().problems, repo.fsck().ok) == ([], True)
    assert restored(repo)[:COMMITS] == after
    repo.add_remote("far", str(tmp_path / "far"))
    repo.push("far")
    with Repository.clone(str(tmp_path / "far"), tmp_path / "other") as other:
        assert restored(other)[:COMMITS] == after
        assert other.fsck().ok
    repo.stats()


def test_a_given_up_commit_says_so(repo):
    remove(pack(repo, "HEAD~1"))
    repo.repair(give_up=True)
    with pytest.raises(NotFoundError, match=r"were dropped .*: they were lost, and 'mvcs repair --give-up'"):
        repo.checkout("HEAD~1")
    assert [info.data_dropped for info in repo.log()] == [True, True, False, False, False]


def test_a_lost_exact_layer_alone(tmp_path):
    with Repository.init(tmp_path / "work") as repo:
        for number in range(2):
            repo.commit(state(number), message=str(number), step_size=0.05)
        before = restored(repo)
        for path in (tmp_path / "work/.mvcs/exact").rglob("*.pack"):
            overwrite(path)
        report = repo.repair(give_up=True)
        assert {loss.layer for loss in report.losses} == {"exact"}
        assert restored(repo) == before
        assert (report.ok, repo.fsck().ok, list((tmp_path / "work/.mvcs/exact").rglob("*.pack"))) == (
            True,
            True,
            [],
        )


def test_a_rehearsal_changes_nothing(repo, tmp_path):
    remove(pack(repo, "HEAD~2"))
    before = {path: path.read_bytes() for path in (tmp_path / "work/.mvcs/manifests").rglob("*.*")}
    report = repo.repair(give_up=True, execute=False)
    assert report.ok
    assert not repo.fsck().ok
    assert {path: path.read_bytes() for path in (tmp_path / "work/.mvcs/manifests").rglob("*.*")} == before


def test_without_it_nothing_is_given_up(repo):
    remove(pack(repo, "HEAD~2"))
    assert not repo.repair().ok
    with pytest.raises(MvcsError, match="needs pack"):
        repo.gc(execute=True)
