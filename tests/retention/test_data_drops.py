"""Drops of data: the upgrade comes first, and they travel with the commits they are about."""

import pytest

from mvcs import Repository
from mvcs.objects import ObjectId
from mvcs.store import DROPPED_DATA, DataDrop, LocalBackend, Manifests, Placement, has_upgrade
from mvcs.store.backend import open_backend
from tests.repository.states import state

COMMIT = ObjectId(bytes(32))


def test_the_upgrade_is_there_before_the_first_drop(tmp_path):
    class Stops(LocalBackend):
        def create(self, name, data):
            if name.startswith("manifests/"):
                raise KeyboardInterrupt
            super().create(name, data)

    with pytest.raises(KeyboardInterrupt):
        Manifests(Stops(tmp_path)).append(COMMIT, Placement(dropped=DataDrop(5)), Placement())
    assert has_upgrade(open_backend(str(tmp_path)), DROPPED_DATA)


def test_push_and_fetch_carry_drops(tmp_path):
    """The number of a record of rules means something in its own store alone: what it says goes along."""
    with Repository.init(tmp_path / "a") as one:
        for number in range(3):
            one.commit(state(number), step=number)
        gone = ObjectId(bytes.fromhex(one.resolve("HEAD~1").id))
        one.set_retention(last=1, force=True)
        one.set_retention(last=1, every=2, force=True)
        assert one.apply_retention(force=True).dropped
        one.add_remote("far", str(tmp_path / "far"))
        one.push("far")
    [drop] = Manifests(open_backend(str(tmp_path / "far"))).dropped([gone]).values()
    assert drop.rules is None
    assert "the rules then, record 1: the last 1 of each branch, every 2 steps" in drop.why
    with Repository.clone(str(tmp_path / "far"), tmp_path / "b") as two:
        assert [info.data_dropped for info in two.log()] == [False, True, False]
        assert two._session.store.manifests.dropped([gone]) == {gone: drop}
        assert two.fsck().ok


def test_a_commit_is_named_by_its_branch_and_step(tmp_path):
    with Repository.init(tmp_path) as repo:
        made = [repo.commit(state(number), step=10 * number).id for number in range(3)]
        repo.create_branch("side", "HEAD~1")
        assert repo.resolve("main@20").id == made[2]
        assert repo.resolve("side@10").id == repo.resolve("HEAD@10~0").id == made[1]
        assert repo.resolve("main@20~2").id == made[0]
        with pytest.raises(LookupError, match="no commit behind side has step 20"):
            repo.resolve("side@20")
        with pytest.raises(LookupError, match="no revision named 'nobody@20'"):
            repo.resolve("nobody@20")
