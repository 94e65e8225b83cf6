"""Which exact layers stay: the newest two of each branch and tagged ones; the rest goes, on record."""

import os
from pathlib import Path

import numpy as np
import pytest

from mvcs.errors import ConflictError, NotFoundError
from mvcs.history.commit_graph import Graph
from mvcs.refs import RefStore
from mvcs.repository import Repository
from mvcs.retention.drops import Drop, DropLog
from mvcs.retention.exact_layers import drop_old_layers
from mvcs.retention.facts import Source
from mvcs.store.backend import open_backend
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_name, pack_path


def state(step):
    weight = np.arange(2048, dtype=np.float32).reshape(64, 32) * 7919 % 1009
    return {"weight": weight + np.float32(step) / 64, "step": step}


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path) as repository:
        yield repository


def commit(repo, step, bins=8):
    return repo.commit(state(step), step=step, bins=bins)


def kept(repo):
    """The steps whose exact layer is stored."""
    found = set()
    for info in repo.log(all_branches=True):
        if info.exactness == "bounded":
            try:
                restored = repo.checkout(info.id, exact=True, numpy=True)
            except NotFoundError:
                continue
            assert np.array_equal(restored["weight"], state(info.step)["weight"])
            found.add(info.step)
    return found


def test_the_newest_two_stay(repo):
    for step in range(5):
        commit(repo, step)
        assert kept(repo) == {step - 1, step} - {-1}
    assert repo.fsck().ok


def test_exact_commits_between_do_not_count(repo):
    for step, bins in enumerate([8, None, 8, None, None]):
        commit(repo, step, bins)
    assert kept(repo) == {0, 2}
    commit(repo, 5)
    assert kept(repo) == {2, 5}


def test_each_branch_keeps_its_own_and_shares_what_it_shares(repo):
    for step in range(3):
        commit(repo, step)
    repo.switch("other", create_from="main")
    for step in (10, 11):
        commit(repo, step)
    assert kept(repo) == {1, 2, 10, 11}
    repo.switch("main")
    for step in (3, 4):
        commit(repo, step)
    assert kept(repo) == {3, 4, 10, 11}
    assert repo.fsck().ok


def test_tagged_commits_keep_theirs(repo):
    commit(repo, 0)
    repo.create_tag("v1")
    for step in range(1, 5):
        commit(repo, step)
    assert kept(repo) == {0, 3, 4}
    repo.delete_tag("v1")
    commit(repo, 5)
    assert kept(repo) == {4, 5}


def test_the_number_is_a_setting(repo):
    repo.config_set("retention.exact_layers", "3")
    for step in range(5):
        commit(repo, step)
    assert kept(repo) == {2, 3, 4}


def opened(repo):
    backend = open_backend(repo.url)
    return backend, Graph(ObjectStore(backend)), RefStore(backend)


def exact_packs(backend):
    return {pack_name(path) for path in backend.list("exact")}


def test_every_drop_is_on_record(repo):
    commits = [commit(repo, step) for step in range(5)]
    backend, graph, _ = opened(repo)
    recorded = {found.commit.hex(): found.packs for found in DropLog(backend).drops()}
    assert set(recorded) == {info.id for info in commits[:3]}
    for found in DropLog(backend).drops():
        assert found.packs == graph.load(found.commit).written.exact_packs


def test_a_lost_layer_is_told_from_a_dropped_one(repo):
    for step in range(3):
        commit(repo, step)
    backend, _, _ = opened(repo)
    backend.delete(backend.list("exact")[0])
    assert not repo.fsck().ok


def test_behind_a_damaged_record_no_layer_counts_as_lost(repo):
    for step in range(3):
        commit(repo, step)
    backend, _, _ = opened(repo)
    [record] = backend.list("retention/drops")
    backend.delete(record)
    backend.put(record, b"damage")
    for step in range(3, 5):
        commit(repo, step)
    report = repo.fsck()
    assert [problem.kind for problem in report.problems] == ["drop record"]
    assert any("dropped on purpose or lost" in note for note in report.notes)
    assert kept(repo) == {3, 4}


def test_a_drop_that_was_recorded_and_not_carried_out_is_carried_out_later(repo):
    """As a writer leaves it that is killed between its record and its deletion."""
    commit(repo, 0)
    backend, graph, refs = opened(repo)
    [old] = [(path, backend.read(path)) for path in backend.list("exact")]
    for step in (1, 2):
        commit(repo, step)
    backend.put(*old)
    assert len(exact_packs(backend)) == 3
    commit(repo, 3)
    assert kept(repo) == {2, 3}
    assert len(exact_packs(backend)) == 2
    # Also when no branch leads to its commit any more.
    orphan = pack_path("ab" * 32, exact=True)
    backend.put(orphan, b"rest of a layer")
    assert drop_old_layers(Source(*opened(repo)), 2) == []
    assert "ab" * 32 in exact_packs(backend)
    DropLog(backend).append((Drop(graph.load(bytes.fromhex(repo.head().id)).id, ("ab" * 32,), 0),))
    assert drop_old_layers(Source(backend, Graph(ObjectStore(backend)), refs), 2) == []
    assert len(exact_packs(backend)) == 2
    assert repo.fsck().ok


def test_a_pack_that_no_commit_owns_yet_is_left_to_its_writer(repo):
    commit(repo, 0)
    backend, _, _ = opened(repo)
    backend.put(pack_path("cd" * 32, exact=True), b"being written")
    for step in range(1, 4):
        commit(repo, step)
    assert "cd" * 32 in exact_packs(backend)


def test_committing_a_dropped_state_again_brings_its_layer_back(repo):
    for step in (0, 1, 2, 0):
        commit(repo, step)
    assert kept(repo) >= {0, 2}
    assert np.array_equal(repo.checkout(exact=True, numpy=True)["weight"], state(0)["weight"])
    assert repo.fsck().ok


@pytest.mark.parametrize("bins", [8, None], ids=["bounded", "exact"])
def test_the_layers_of_a_deleted_branch_go_with_the_next_commit(repo, bins):
    for step in range(3):
        commit(repo, step)
    repo.create_branch("side")
    repo.switch("side")
    gone = [commit(repo, step).id for step in (10, 11)]
    repo.create_tag("kept", gone[0])
    repo.switch("main")
    repo.delete_branch("side", force=True)
    backend, graph, _ = opened(repo)
    packs = set(graph.load(bytes.fromhex(gone[1])).written.exact_packs)
    assert packs <= exact_packs(backend)
    commit(repo, 3, bins)
    assert not packs & exact_packs(backend)
    assert packs <= {name for drop in DropLog(backend).drops() for name in drop.packs}
    assert kept(repo) >= ({2, 3} if bins else {1, 2})
    assert repo.checkout("kept", exact=True, numpy=True)["step"] == 10
    assert repo.checkout(gone[1], numpy=True)["step"] == 11
    assert repo.fsck().ok


def test_a_branch_that_keeps_the_loser_of_a_race_keeps_its_layers(repo, tmp_path):
    commit(repo, 0)
    before = repo.head().id
    commit(repo, 1)
    with Repository.open(tmp_path) as other, pytest.raises(ConflictError) as lost:
        other.commit(state(2), step=2, bins=8, continues=before)
    for step in range(3, 7):
        commit(repo, step)
    assert kept(repo) >= {2, 5, 6}
    repo.delete_branch(lost.value.branch, force=True)
    commit(repo, 7)
    assert 2 not in kept(repo)
    assert len(exact_packs(open_backend(repo.url))) == 2


def test_rules_for_the_exact_layer_take_the_place_of_the_setting(repo):
    commit(repo, 0)
    repo.set_retention(layer="exact", every=4, last=1)
    for step in range(1, 9):
        commit(repo, step)
    assert kept(repo) == {0, 4, 8}
    repo.set_retention(layer="exact")
    commit(repo, 9)
    assert kept(repo) == {8, 9}
    assert repo.fsck().ok


def test_commits_that_lost_their_layer_before_are_not_counted_again(repo):
    for step in range(6):
        commit(repo, step)
    with pytest.raises(ConflictError, match="would drop 1 of 2 commits"):
        repo.set_retention(layer="exact", last=1)
    repo.set_retention(layer="exact", last=1, force=True)
    found = repo.apply_retention(dry_run=True, force=True)
    assert [(it.step, it.keeps) for it in (*found.kept, *found.dropped)] == [(5, True), (4, False)]


def test_the_best_by_a_metric_keep_theirs(repo):
    repo.set_retention(layer="exact", best="2:min:loss", force=True)
    for step, loss in enumerate([3.0, 1.0, 4.0, 2.0, 5.0, 6.0]):
        repo.commit(state(step), step=step, bins=8, metrics={"loss": loss})
    assert kept(repo) == {1, 3, 5}


def test_pinned_commits_keep_theirs(repo):
    commit(repo, 0)
    repo.pin("HEAD", "why")
    for step in range(1, 5):
        commit(repo, step)
    assert kept(repo) == {0, 3, 4}
    repo.unpin("step:0")
    commit(repo, 5)
    assert kept(repo) == {4, 5}


def test_a_record_that_cannot_be_read_drops_nothing(repo, tmp_path):
    repo.pin(commit(repo, 0).id)
    [path] = (tmp_path / ".mvcs/retention/pins").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    for step in range(1, 4):
        noted = commit(repo, step)
    assert any("not dropped" in note for note in noted.notes)
    assert kept(repo) == {0, 1, 2, 3}


def test_a_pin_between_record_and_deletion_keeps_the_layer(repo, monkeypatch):
    first = commit(repo, 0)
    commit(repo, 1)
    append = DropLog.append

    def slow(log, drops):
        record = append(log, drops)
        with Repository.open(repo.top) as other:
            other.pin(first.id, "just in time")
        return record

    monkeypatch.setattr(DropLog, "append", slow)
    commit(repo, 2)
    monkeypatch.undo()
    assert kept(repo) == {0, 1, 2}
    commit(repo, 3)
    assert kept(repo) == {0, 2, 3}


def test_after_a_commit_rules_go_by_notes_as_when_they_are_applied(repo):
    for step in range(3):
        repo.commit(state(step), step=step, metrics={"loss": 1.0}, bins=8)
    repo.note("step:1", {"loss": 0.1})
    repo.set_retention(layer="exact", best="1:min:loss")
    assert {item.step for item in repo.apply_retention(dry_run=True).kept} == {1, 2}
    for step in (3, 4):
        repo.commit(state(step), step=step, metrics={"loss": 1.0}, bins=8)
    assert kept(repo) == {1, 4}


def test_after_a_commit_head_keeps_its_layer_as_when_rules_are_applied(repo):
    for step in range(2):
        commit(repo, step)
    repo.set_retention(layer="exact", last=1, force=True)
    (Path(repo.top) / ".mvcs/HEAD").write_text(f"{repo.resolve('HEAD').id}\n")
    repo.commit(state(2), step=2, bins=8, branch="main")
    repo.commit(state(3), step=3, bins=8, branch="main")
    assert kept(repo) == {1, 3}


def test_a_layer_that_came_back_stays_where_a_rule_may_keep_it_out_of_sight(repo, monkeypatch):
    monkeypatch.setattr("mvcs.retention.exact_layers.SEARCHED", 2)
    commit(repo, 0)
    backend, *_ = opened(repo)
    [old] = [(path, backend.read(path)) for path in backend.list("exact")]
    for step in (1, 2):
        commit(repo, step)
    backend.put(*old)
    repo.set_retention(layer="exact", every=3)
    for step in (4, 5):
        commit(repo, step)
    assert 0 in kept(repo)


@pytest.fixture
def short_sighted(monkeypatch):
    """Look at 4 commits after each commit, as else at 256."""
    monkeypatch.setattr("mvcs.retention.exact_layers.SEARCHED", 4)


def begin_with_a_deleted_branch(repo):
    """Commit step 0; the deleted branch leads there, however far behind the others are."""
    commit(repo, 0)
    repo.create_branch("tmp")
    repo.delete_branch("tmp", force=True)


def go_on(repo, steps=range(1, 7), bins=8):
    for step in steps:
        repo.commit(state(step), step=step, bins=bins, metrics={"loss": 10.0 + step})


def grow_old(repo):
    for path in (Path(repo.top) / ".mvcs/packs").rglob("*.pack"):
        os.utime(path, (10**9, 10**9))


@pytest.mark.usefixtures("short_sighted")
@pytest.mark.parametrize(
    ("names", "rules"),
    [
        ("branch", {"last": 2}),
        ("branch", {"every": 100}),
        ("branch", {"newer": "1d"}),
        ("pin", {"best": "1:max:loss"}),
        ("tag", {"last": 2, "tagged": True}),
        ("tag", {"newer": "1d", "tagged": True}),
    ],
)
def test_what_is_named_keeps_its_layer_far_out_of_sight(repo, names, rules):
    begin_with_a_deleted_branch(repo)
    {"branch": repo.create_branch, "pin": lambda _: repo.pin("HEAD"), "tag": repo.create_tag}[names]("v1")
    repo.set_retention(layer="exact", force=True, **rules)
    grow_old(repo)
    go_on(repo, range(1, 7))
    assert 0 in kept(repo)
    assert "newer" in rules or 2 not in kept(repo)


@pytest.mark.usefixtures("short_sighted")
@pytest.mark.parametrize("rule", [{"every": 100}, {"best": "1:min:loss"}, {"newer": "1d"}])
def test_what_a_rule_keeps_stays_though_it_is_out_of_sight(repo, rule):
    repo.commit(state(0), step=0, bins=8, metrics={"loss": 0.0})
    repo.create_branch("tmp")
    repo.delete_branch("tmp", force=True)
    repo.set_retention(layer="exact", force=True, **rule)
    go_on(repo)
    assert 0 in kept(repo)
    assert 0 in {item.step for item in repo.apply_retention(dry_run=True, force=True).kept}


@pytest.mark.usefixtures("short_sighted")
def test_the_newest_bounded_commit_keeps_its_layer_behind_many_exact_ones(repo):
    begin_with_a_deleted_branch(repo)
    go_on(repo, bins=None)
    assert kept(repo) == {0}


@pytest.mark.usefixtures("short_sighted")
def test_a_layer_that_came_back_stays_behind_many_exact_commits(repo):
    """A record says that it was dropped; the rule keeps it now."""
    info = commit(repo, 0)
    backend, graph, _ = opened(repo)
    revision = graph.load(bytes.fromhex(info.id))
    DropLog(backend).append((Drop(revision.id, revision.written.exact_packs, 0),))
    go_on(repo, bins=None)
    assert kept(repo) == {0}


@pytest.mark.usefixtures("short_sighted")
@pytest.mark.parametrize("rules", [{}, {"last": 2}, {"last": 2, "tagged": True}])
def test_the_layers_of_a_deleted_branch_go_however_long_the_history_is(repo, rules):
    go_on(repo, range(1, 4))
    repo.switch("side", create_from="main")
    commit(repo, 100)
    repo.switch("main")
    repo.delete_branch("side", force=True)
    repo.set_retention(layer="exact", force=True, **rules)
    go_on(repo, range(4, 9))
    assert kept(repo) == {7, 8}
    assert len(exact_packs(open_backend(repo.url))) == 2
