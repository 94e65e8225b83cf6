"""`stats`: where the bytes of a store are, what restores cost, and what could be freed."""

import dataclasses
import os
import time
from collections import Counter

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, UsageError
from mvcs.local import Trust, find
from mvcs.objects import Kind
from mvcs.progress import SILENT
from mvcs.store import ObjectStore, Placement
from mvcs.upkeep import store_stats
from tests.repository.states import own_packs
from tests.store.faults import FaultyBackend

MONTH = 31 * 24 * 3600
SIZE = (64, 48)


def state(number, seed=0):
    noise = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
    return {
        "model": {"weight": noise + np.float32(number / 100), "bias": np.ones(48, np.float32)},
        "optimizer": {
            "state": {0: {"exp_avg": noise / 8, "exp_avg_sq": noise * noise}},
            "param_groups": [{"lr": 0.1, "params": [0]}],
        },
        "step": number,
    }


def stored_bytes(folder, *layers):
    """The bytes of all files below some folders of a store."""
    files = [path for layer in layers for path in (folder / ".mvcs" / layer).rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files)


@pytest.fixture
def repo(tmp_path):
    """Four bounded commits on main, two of them on side as well, and one on side alone."""
    with Repository.init(tmp_path) as repository:
        repository.config_set("compaction.max_depth", "2")
        for number in range(4):
            repository.commit(state(number), step=number, step_size=0.5, message=f"step {number}\nmore")
        repository.create_branch("side", "main~2")
        repository.commit(state(9, seed=1), branch="side", message="aside", step_size=0.5)
        yield repository


def test_every_byte_of_every_pack_and_manifest_is_counted_once(repo, tmp_path):
    found = repo.stats()
    assert found.commits == 5
    assert found.stored_bytes == stored_bytes(tmp_path, "packs", "exact", "manifests")
    assert found.value_bytes == stored_bytes(tmp_path, "packs", "manifests")
    assert found.exact_bytes == stored_bytes(tmp_path, "exact") > 0
    assert found.unreached_bytes == 0
    assert sum(item.stored_bytes for item in found.classes) == found.value_bytes
    assert sum(item.exact_bytes for item in found.classes) == found.exact_bytes
    by_name = {item.name: item for item in found.classes}
    assert list(by_name) == ["moment", "weight", "small", "metadata"]
    assert by_name["weight"].raw_bytes == 5 * 4 * SIZE[0] * SIZE[1]
    assert by_name["moment"].raw_bytes == 2 * by_name["weight"].raw_bytes
    assert min(by_name[name].stored_bytes for name in ("weight", "moment", "metadata")) > 0
    entries = sum(item.stored_bytes for item in found.encodings)
    assert 0 < entries < found.stored_bytes
    assert found.raw_bytes == sum(info.raw_bytes for info in repo.log(all_branches=True))
    assert found.notes == []


def test_superseded_records_of_manifests_are_of_no_use(repo, tmp_path):
    manifests, commit = repo._session.store.manifests, repo._session.resolver.resolve("main").id
    for number in range(2):
        placement = manifests.placement(commit)
        manifests.append(commit, Placement(placement.packs, ("ab" * 32,) * number), placement)
    before = repo.stats()
    manifests.append(commit, Placement(placement.packs), manifests.placement(commit))
    found = repo.stats()
    sizes = {
        path.suffix: path.stat().st_size for path in (tmp_path / ".mvcs/manifests").rglob(f"{commit.hex()}*")
    }
    assert before.unreached_bytes == sizes[".99999998"]
    assert found.unreached_bytes == sizes[".99999998"] + sizes[".99999997"]


def test_branches_say_what_would_go_with_them(repo):
    main, side = repo.stats().branches
    assert (main.name, main.commits, side.name, side.commits) == ("main", 4, "side", 3)
    sizes = {item.message: item.stored_bytes + item.exact_bytes for item in repo.stats().largest}
    assert side.alone_bytes == sizes["aside"]
    assert main.alone_bytes == sizes["step 2"] + sizes["step 3"]
    assert main.stored_bytes + sizes["aside"] == repo.stats().stored_bytes


def test_depth_and_cost_are_those_of_now(repo):
    found = repo.stats()
    assert sum(item.commits for item in found.depths) == sum(item.commits for item in found.restores) == 5
    depths = Counter(repo.restore_figures(info.id).depth for info in repo.log(all_branches=True))
    assert {item.low: item.commits for item in found.depths if item.commits} == depths
    deepest = max(found.dearest, key=lambda item: item.depth)
    assert deepest.depth == max(depths)
    assert found.dearest[0].read_bytes >= found.dearest[-1].read_bytes
    assert found.largest[0].stored_bytes + found.largest[0].exact_bytes >= found.largest[-1].stored_bytes
    assert all(item.requests > 0 and item.seconds is None for item in found.dearest)
    assert {item.step for item in found.largest} == {0, 1, 2, 3, None}


def test_what_is_held_again_is_told(tmp_path):
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
        assert repo.stats().shared_bytes == 0
        repo.commit({**state(0), "step": 1})
        first = repo.stats()
        weights = sum(item.stored_bytes for item in first.classes if item.name != "metadata")
        assert first.shared_bytes == pytest.approx(weights, rel=0.01)


@pytest.mark.usefixtures("repo")
def test_no_values_are_read_and_nothing_is_changed(tmp_path):
    place = find(str(tmp_path), None, Trust.of_user())
    backend = FaultyBackend(place.backend)
    found = store_stats(dataclasses.replace(place, backend=backend), SILENT)
    assert found.commits == 5
    assert backend.writes == []
    store = ObjectStore(place.backend)
    store.catalog.attach_everything()
    offsets = {
        (f"packs/{located.pack[:2]}/{located.pack}.pack", located.placed.offset)
        for located in store.catalog.with_prefix("").values()
        if {member.kind for member in located.placed.entry.members} <= {Kind.CHUNK}
    }
    read = {(name, offset) for name, offset, _ in backend.reads if name.startswith(("packs/", "exact/"))}
    assert read
    assert not read & offsets
    assert not [offset for name, offset in read if name.startswith("exact/") and offset >= 0]


def test_a_long_history_is_looked_at_with_few_footers_in_memory(tmp_path):
    with Repository.init(tmp_path) as repo:
        repo.config_set("compaction.max_depth", "4")
        for number in range(40):
            repo.commit({"w": np.full((16, 16), number, np.float32)}, step=number)
        place = find(str(tmp_path), None, Trust.of_user())
        backend = FaultyBackend(place.backend)
        found = store_stats(dataclasses.replace(place, backend=backend), SILENT)
        assert found.commits == 40
        assert found.value_bytes == stored_bytes(tmp_path, "packs", "manifests")
        packs = len(list((tmp_path / ".mvcs").rglob("*.pack")))
        ends = [name for name, offset, _ in backend.reads if offset < 0]
        assert len(ends) < 3 * packs


def test_a_price_is_of_a_gigabyte_and_a_month(repo):
    found = repo.stats(price=2.0)
    assert found.monthly == pytest.approx(found.stored_bytes / 1e9 * 2)
    (month,) = found.months
    assert month.commits == 5
    assert month.added_bytes == month.stored_bytes == found.stored_bytes
    assert month.price == pytest.approx(found.monthly)
    for price in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="price"):
            repo.stats(price=price)


def written(folder):
    """The packs and manifests of a repository."""
    store = folder / ".mvcs"
    return {path for layer in ("packs", "exact", "manifests") for path in (store / layer).rglob("*.*")}


def test_what_gc_would_free_is_told_beside_what_is_reached(repo, tmp_path):
    before = written(tmp_path)
    repo.commit(state(3), branch="lost")
    lost = written(tmp_path) - before
    for record in (tmp_path / ".mvcs/refs/heads/lost").iterdir():
        record.unlink()
    (tmp_path / ".mvcs/refs/heads/lost").rmdir()
    (tmp_path / ".mvcs/local/seen.json").unlink()
    size = sum(path.stat().st_size for path in lost)
    with Repository.open(tmp_path) as again:
        found = again.stats()
        assert (found.commits, found.unreached_bytes) == (5, size)
        assert (found.freeable.gc, found.freeable.waiting) == (0, size)
        for path in lost:
            os.utime(path, (time.time() - MONTH,) * 2)
        assert again.stats().freeable.gc == size
        assert again.stats().freeable.retention is None


def test_an_empty_repository_has_nothing(tmp_path):
    with Repository.init(tmp_path) as repo:
        found = repo.stats(price=1)
        assert (found.commits, found.stored_bytes, found.monthly) == (0, 0, 0)
        assert found.classes == found.branches == found.depths == found.restores == found.months == []


def test_a_commit_that_lost_a_pack_counts_as_written(repo, tmp_path):
    lost = own_packs(repo, "main~1")[-1]
    (tmp_path / f".mvcs/packs/{lost[:2]}/{lost}.pack").unlink()
    with Repository.open(tmp_path) as again:
        found = again.stats()
    assert found.commits == 5
    assert any("cannot be read whole" in note for note in found.notes)
    assert {item.message for item in found.largest} >= {"step 2", "aside"}


@pytest.mark.usefixtures("repo")
def test_a_history_that_is_damaged_is_an_error(tmp_path):
    for path in (tmp_path / ".mvcs/manifests").rglob("*.*"):
        path.write_bytes(path.read_bytes()[:-9])
    with Repository.open(tmp_path) as again, pytest.raises(CorruptionError):
        again.stats()


def test_a_plan_says_what_dry_runs_say(tmp_path):
    with Repository.init(tmp_path) as repo:
        for number in range(6):
            repo.commit(state(number, seed=number), step=number)
        repo.set_retention(every=2, last=1)
        found = repo.stats(plan=True)
        assert found.notes == []
        assert found.freeable.retention == repo.apply_retention(dry_run=True).bytes > 0
        dry = repo.compact(dry_run=True)
        assert found.freeable.compact == dry.before - dry.after
        repo.set_retention(last=1, force=True)
        refused = repo.stats(plan=True)
        assert refused.freeable.retention is None
        assert "retention apply" in refused.notes[0]


def test_stats_and_gc_agree_on_a_remote_where_data_were_dropped(tmp_path):
    """What was pushed before retention stays over there, where no rule lets it go."""
    far = tmp_path / "far"
    with Repository.init(tmp_path / "near") as repo:
        repo.add_remote("far", str(far))
        repo.set_retention(last=1)
        for number in range(6):
            repo.commit(state(number), step=number, step_size=0.5)
            if number % 2:
                repo.push("far", exact=True)
                repo.apply_retention(force=True)
                repo.gc(execute=True, grace_days=0, wait_days=0)
    with Repository.open(far) as there:
        found, plan = there.stats(), there.gc()
        assert found.notes == []
        left = {item.path.rpartition("/")[2].removesuffix(".pack") for item in plan.waiting}
        assert found.unreached_bytes == sum(item.bytes for item in plan.waiting)
        for path in far.rglob("*.pack"):
            assert (there.why(path.stem).state == "unneeded") == (path.stem in left)
