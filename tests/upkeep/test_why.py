"""`why`: the shortest way to something in a store; or that nothing leads there, or what gave it up."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.errors import NotFoundError, UsageError
from mvcs.objects import QuantizedTensor, path_text
from mvcs.store import ObjectStore, manifest_path
from mvcs.ui.checks import why
from mvcs.ui.text import Screen
from mvcs.upkeep.reasons import held_by
from tests.repository.states import own_packs


def state(number):
    noise = np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32)
    return {
        "model": {"weight": noise + np.float32(number / 50), "bias": np.arange(300.0) + number},
        "n": number,
    }


@pytest.fixture
def repo(tmp_path):
    """Four bounded commits on main, one on side."""
    with Repository.init(tmp_path) as repository:
        for number in range(4):
            repository.commit(state(number), step=number, message=f"state {number}", step_size=0.5)
        repository.create_branch("side", "main~2")
        repository.commit(state(9), branch="side", message="aside", step_size=0.5)
        yield repository


def ids(repo):
    return {info.message: info.id for info in repo.log(all_branches=True)}


def tree_of(repo, rev):
    store = ObjectStore(repo._session.place.backend)
    store.catalog.attach_everything()
    revision = repo._session.resolver.resolve(rev)
    return revision, store.tree(revision.commit.tree), store


def kinds(found):
    return [step.kind for step in found.steps]


def test_a_commit_is_kept_by_the_nearest_name(repo):
    found = repo.why("main~2")
    assert (found.kind, found.id, found.state) == ("commit", ids(repo)["state 1"], "needed")
    assert kinds(found) == ["branch", "commit"]
    assert found.steps[0].name == "side"
    assert "1 commit back" in found.steps[1].said
    repo.create_tag("kept", "main~2")
    assert [step.kind for step in repo.why(found.id).steps] == ["tag", "commit"]
    assert found.written is not None
    assert len(found.packs) == 1


def test_a_manifest_is_kept_as_its_commit_is(repo):
    commit = repo._session.resolver.resolve("main~2").id
    assert repo.why(manifest_path(commit, 0)).steps == repo.why("main~2").steps


@pytest.mark.parametrize("named", [True, False])
def test_a_commit_whose_manifest_is_lost_is_kept_by_the_ref_that_names_it(repo, named):
    commit = repo._session.resolver.resolve("main").id
    store = repo._session.place.local
    (store / manifest_path(commit, 0)).unlink()
    if not named:
        shutil.rmtree(store / "refs/heads/main")
        (store / "local/seen.json").unlink()
    with Repository.open(repo._session.place.top) as again:
        found = again.why(commit.hex())
    assert (found.kind, found.state) == ("commit", "needed" if named else "unneeded")
    assert [step.said for step in found.steps[1:]] == ["which cannot be read"] * named


def test_a_commit_that_is_nowhere_is_missed_by_the_ref_that_names_it(repo):
    commit, (name,) = repo._session.resolver.resolve("main").id, own_packs(repo, "main")
    store = repo._session.place.local
    (store / manifest_path(commit, 0)).unlink()
    (store / f"packs/{name[:2]}/{name}.pack").unlink()
    with Repository.open(repo._session.place.top) as again:
        found = again.why(commit.hex())
    assert (found.kind, found.state, found.packs) == ("commit", "needed", [])
    assert "its manifest is missing or damaged" in found.notes[0]


def test_a_tree_and_a_chunk_are_kept_by_where_they_stand(repo):
    revision, tree, _ = tree_of(repo, "main")
    found = repo.why(revision.commit.tree.hex())
    assert (found.kind, kinds(found)) == ("tree", ["branch", "commit", "tree"])
    leaf = next(leaf for leaf in tree.leaves if isinstance(leaf.tensor, QuantizedTensor))
    chunk = leaf.tensor.codes[0].hex()
    found = repo.why(chunk[:16])
    assert (found.kind, found.id, found.state) == ("chunk", chunk, "needed")
    assert kinds(found) == ["branch", "commit", "path", "chunk"]
    assert found.steps[2].name.startswith("model")
    assert found.steps[2].said == "its values"


def test_what_a_tensor_is_rounded_from_is_kept_by_it_as_well(tmp_path):
    """The tensor it is rounded from need not be a part of every commit that it is of."""
    weight = torch.from_numpy(state(0)["model"]["weight"])
    with Repository.init(tmp_path) as repo:
        repo.commit({"model": {"weight": weight}, "low": {"weight": weight.bfloat16()}}, step_size=0.5)
        revision, tree, store = tree_of(repo, "main")
    leaf, path = next(
        (leaf, path_text(path))
        for leaf, path in zip(tree.leaves, tree.leaf_paths(), strict=True)
        if isinstance(leaf.tensor, QuantizedTensor) and leaf.tensor.source is not None
    )
    held = {chunk for chunk, step in held_by(store, revision.commit.tree, tree) if step.name == path}
    assert held >= set(leaf.tensor.source.chunk_ids())


def test_a_chunk_of_an_exact_layer_is_kept_as_exact_values(repo):
    _, tree, _ = tree_of(repo, "main")
    leaf = next(leaf for leaf in tree.leaves if leaf.original is not None)
    found = repo.why(leaf.original.chunks[0].hex())
    assert found.state == "needed"
    assert found.steps[2].said == "its exact values"
    assert found.packs[0].startswith("exact/")


def test_what_others_are_stored_near_is_kept_by_them(repo):
    """The commit that has the chunk is two commits back from side: what is near it is as near."""
    base = tree_of(repo, "main~3")[1].leaves
    chunk = next(leaf.tensor.codes[0] for leaf in base if isinstance(leaf.tensor, QuantizedTensor))
    found = repo.why(chunk.hex())
    assert found.state == "needed"
    assert [step.kind for step in found.steps][:3] == ["branch", "commit", "path"]
    assert found.steps[-1].name == chunk.hex()
    near = [step.said for step in found.steps[4:]]
    assert near == ["which that is stored near"] * len(near)
    back = int(found.steps[1].said.split()[0]) if "back" in found.steps[1].said else 0
    assert back + len(near) <= 2
    assert near


def test_a_pack_is_kept_by_the_commit_that_needs_it(repo):
    revision, *_ = tree_of(repo, "main")
    found = repo.why(own_packs(repo, "main")[-1])
    assert (found.kind, found.state, found.steps[-1].said) == ("pack", "needed", "which was written for it")
    exact = revision.written.exact_packs[0]
    assert repo.why(exact[:12]).steps[-1].said == "which holds its exact layer"
    older = own_packs(repo, "main~1")[-1]
    assert repo.why(older).steps[-1].said == "which it reads, of an earlier commit"


def test_what_only_the_past_of_a_branch_leads_to_says_until_when(repo):
    lost = ids(repo)["state 3"]
    repo.reset("main~1")
    found = repo.why(lost)
    assert found.state == "past"
    assert (found.steps[0].kind, found.steps[0].name) == ("reflog", "main@{1}")
    assert found.until is not None
    pack = repo.why(found.packs[0].rpartition("/")[2].removesuffix(".pack"))
    assert (pack.state, kinds(pack)) == ("past", ["reflog", "commit", "pack"])


def test_what_nothing_leads_to_says_so(repo):
    identifier = ids(repo)["aside"]
    shutil.rmtree(repo._session.place.local / "refs/heads/side")
    (repo._session.place.local / "local/seen.json").unlink()
    with Repository.open(repo._session.place.top) as again:
        found = again.why(identifier)
        assert (found.state, found.steps) == ("unneeded", [])
        assert found.written is not None
        name = found.packs[0].rpartition("/")[2].removesuffix(".pack")
        assert again.why(name).state == "unneeded"


def test_what_was_dropped_names_its_record_and_its_commit(repo):
    """The exact layers of all but the newest two commits went."""
    revision, tree, _ = tree_of(repo, "main~3")
    (drop,) = repo.why("main~3").drops
    assert (drop.commit, drop.packs) == (revision.id.hex(), 1)
    found = repo.why(revision.written.exact_packs[0])
    assert (found.state, found.packs, found.bytes) == ("dropped", [], None)
    assert found.drops == [drop]
    assert found.steps[-1].name == revision.id.hex()
    leaf = next(leaf for leaf in tree.leaves if leaf.original is not None)
    chunk = repo.why(leaf.original.chunks[0].hex())
    assert (chunk.state, chunk.drops) == ("dropped", [drop])
    assert chunk.steps[-2].said == "its exact values"


def test_what_is_gone_without_a_record_is_lost(repo):
    revision, tree, _ = tree_of(repo, "main")
    leaf = next(leaf for leaf in tree.leaves if leaf.original is not None)
    for path in (repo._session.place.local / "exact").rglob(f"{revision.written.exact_packs[0]}.pack"):
        path.unlink()
    with Repository.open(repo._session.place.top) as again:
        found = again.why(leaf.original.chunks[0].hex())
    assert (found.state, found.packs, found.drops) == ("needed", [], [])
    assert "it is lost" in found.notes[0]


@pytest.mark.parametrize("rev", ["main~3", "main~1", "main"])
def test_a_pack_that_is_not_there_names_the_commits_that_need_it(repo, tmp_path, rev):
    name = own_packs(repo, rev)[-1]
    commit = repo.resolve(rev).id
    (tmp_path / ".mvcs" / "packs" / name[:2] / f"{name}.pack").unlink()
    with Repository.open(tmp_path) as again:
        found = again.why(name[:20])
    assert (found.kind, found.id, found.state, found.packs) == ("pack", name, "needed", [])
    assert found.steps[-1].kind == "pack"
    told, advice = found.notes
    assert "not in the store" in told
    assert rev == "main~3" or commit[:12] in told
    assert "'mvcs repair'" in advice


def test_odd_names_are_refused(repo):
    with pytest.raises(NotFoundError, match="no revision named"):
        repo.why("no such thing")
    with pytest.raises(NotFoundError, match="nor does a commit name it"):
        repo.why("f" * 64)


def test_a_prefix_of_several_things_is_refused(repo):
    (path, *_) = (repo._session.place.local / "packs").rglob("*.pack")
    name = path.stem
    other = name[:-2] + ("00" if name[-2:] != "00" else "11")
    path.with_name(f"{other}.pack").write_bytes(b"not a pack")
    with pytest.raises(UsageError, match="abbreviates 2 things"):
        repo.why(name[:-2])
    assert repo.why(name).id == name


def test_a_damaged_record_leaves_a_doubt(repo):
    identifier = ids(repo)["state 3"]
    repo.reset("main~1")
    record = sorted((repo._session.place.local / "refs/heads/main").iterdir())[1]
    record.write_bytes(record.read_bytes()[:-1])
    with Repository.open(repo._session.place.top) as again:
        found = again.why(identifier)
    assert (found.state, found.steps) == ("unneeded", [])
    assert "may have led to it" in found.notes[0]


def test_what_is_condemned_says_since_when_and_what_was_deleted_too(repo):
    identifier = ids(repo)["aside"]
    shutil.rmtree(repo._session.place.local / "refs/heads/side")
    (repo._session.place.local / "local/seen.json").unlink()
    with Repository.open(repo._session.place.top) as again:
        name = again.why(identifier).packs[0].rpartition("/")[2].removesuffix(".pack")
        assert again.why(identifier).standing is None
        again.gc(grace_days=0, wait_days=1, execute=True)
        found = again.why(identifier)
        assert (found.state, found.standing) == ("unneeded", "condemned")
        assert found.stands >= found.written
        assert again.why("main").standing is None
        again.gc(grace_days=0, wait_days=0, execute=True)
    with Repository.open(repo._session.place.top) as again:
        found = again.why(name)
        assert (found.kind, found.state, found.standing, found.packs) == ("pack", "dropped", "gone", [])
        assert found.stands is not None


@pytest.fixture
def thinned(repo):
    """The data of the first two commits went by a rule."""
    held = {
        rev: {
            chunk.hex()
            for leaf in tree_of(repo, rev)[1].leaves
            if isinstance(leaf.tensor, QuantizedTensor)
            for chunk in leaf.tensor.chunk_ids()
        }
        for rev in ("main~3", "main~2", "main~1", "main", "side")
    }
    repo.set_retention(last=2)
    repo.apply_retention(force=True)
    repo.gc(grace_days=0, wait_days=0, execute=True)
    return min(held.pop("main~3").difference(*held.values()))


def test_dropped_data_name_the_record_and_the_rule(repo, thinned):
    found = repo.why(thinned)
    assert found.state == "dropped"
    assert [drop.data for drop in found.drops] == [True]
    assert "no rule kept it (the rules then, record 0: the last 2 of each branch)" in found.drops[0].why
    assert repo.why("main~3").drops[0].why == found.drops[0].why


def test_a_drop_of_another_layer_or_one_taken_back_explains_nothing(repo, thinned):
    manifests = repo._session.store.manifests
    commit = repo._session.resolver.resolve("main~3").id
    placement = manifests.placement(commit)
    manifests.append(commit, replace(placement, dropped=None), placement)
    found = repo.why(thinned)
    assert (found.state, found.drops) == ("needed", [])
    assert "it is lost" in found.notes[0]


@pytest.mark.usefixtures("thinned")
def test_whoever_asks_for_dropped_data_hears_by_which_rule_they_went(repo):
    name = repo.resolve("main~3").id
    with Repository.open(repo._session.place.top) as again:
        with pytest.raises(
            NotFoundError, match=r"were dropped on .* no rule kept it \(the rules then, record 0: the last 2"
        ):
            again.checkout_plan(name)
        assert again.show(name).commit.data_dropped
        assert again.show_file(f"{name}:model").commit.data_dropped


def test_a_drop_that_was_taken_back_names_the_record_that_did_it_and_the_pin(repo):
    repo.set_retention(last=2)
    repo.apply_retention(force=True)
    repo.pin("main~3")
    repo.apply_retention(force=True)
    found = repo.why("main~3")
    (drop,) = (one for one in found.drops if one.data)
    assert drop.taken_back is not None
    assert "it is pinned, so no rule lets its data go" in found.notes
    assert f"record {drop.taken_back} took that back: the data stayed" in "\n".join(why(found, Screen()))


def test_fsck_stats_and_log_count_dropped_data_alike_before_a_collector_came(repo):
    repo.set_retention(last=2)
    repo.apply_retention(force=True)
    marked = sum(info.data_dropped for info in repo.log(all_branches=True))
    assert repo.stats().dropped == marked > 0
    assert f"the data of {marked} commit" in " ".join(repo.fsck(full=False).notes)
