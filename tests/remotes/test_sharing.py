"""Push, fetch, pull and clone between stores of every kind."""

from pathlib import Path

import pytest
import safetensors.numpy

from mvcs import Repository
from mvcs.errors import ConflictError, NotFoundError, UsageError
from tests.remotes.conftest import Remote, everywhere
from tests.repository.states import content, leaves, state, write_model


@pytest.fixture
def ada(tmp_path: Path, remote: Remote) -> Repository:
    url, options = remote
    repo = Repository.init(tmp_path / "ada")
    repo.config_set("user.name", "Ada")
    repo.add_remote("origin", url, options)
    return repo


def clone(tmp_path: Path, remote: Remote, name: str = "bob") -> Repository:
    url, options = remote
    repo = Repository.clone(url, tmp_path / name, options=options)
    repo.config_set("user.name", name)
    return repo


def far(remote: Remote) -> Repository:
    url, options = remote
    return Repository.open(url, options=options)


def tips(repo: Repository) -> dict[str, str]:
    return {branch.name: branch.commit for branch in repo.branches()}


@everywhere
def test_there_and_back(ada: Repository, remote: Remote, tmp_path: Path) -> None:
    path = write_model(tmp_path / "ada" / "model.safetensors", 0)
    ada.commit_files([tmp_path / "ada" / "model.safetensors"], message="file", bins=16)
    for number in range(3):
        ada.commit(state(number), message=f"state {number}", step=number, bins=None if number == 1 else 16)
    ada.create_branch("side", "HEAD~1")
    ada.create_tag("v1", "HEAD~2", "one")
    ada.note("HEAD", {"loss": 0.25})
    report = ada.push(all_branches=True, tags=True)
    assert {update.name for update in report.updated} == {"main", "side", "v1"}
    assert report.packs_sent == 4
    assert ada.status().remote == (0, 0)
    bob = clone(tmp_path, remote)
    assert tips(bob) == tips(ada)
    assert [tag.name for tag in bob.tags()] == ["v1"]
    assert bob.head().metrics == {"loss": 0.25}
    infos = list(zip(ada.log(), bob.log(), strict=True))
    for mine, theirs in infos:
        assert (mine.id, mine.metrics, mine.exactness) == (theirs.id, theirs.metrics, theirs.exactness)
        if mine.step is not None:
            assert content(bob, theirs.id) == content(ada, mine.id)
    bob.checkout_files("HEAD~3")
    ada.checkout_files("HEAD~3", force=True)
    assert (tmp_path / "bob/model.safetensors").read_bytes() == (
        tmp_path / "ada/model.safetensors"
    ).read_bytes()
    restored = safetensors.numpy.load((tmp_path / "bob/model.safetensors").read_bytes())
    assert {name: array.shape for name, array in restored.items()} == {
        name: array.shape for name, array in safetensors.numpy.load(path).items()
    }
    for repo in (ada, bob, far(remote)):
        assert repo.fsck().problems == []


@everywhere
def test_what_comes_later_is_fetched_and_pulled(ada: Repository, remote: Remote, tmp_path: Path) -> None:
    ada.commit(state(0), bins=16)
    ada.push()
    bob = clone(tmp_path, remote)
    before = tips(bob)
    ada.commit(state(1), bins=16)
    ada.push()
    assert bob.fetch().packs_received == 1
    assert tips(bob) == before
    assert bob.status().remote == (0, 1)
    assert bob.fetch().packs_received == 0
    report = bob.pull()
    assert report.fast_forward
    assert not bob.pull().fast_forward
    assert tips(bob) == tips(ada)
    bob.commit(state(2), bins=16)
    bob.push()
    assert ada.pull().fast_forward
    assert content(ada, "HEAD") == content(bob, "HEAD")
    assert ada.fsck().ok
    assert bob.fsck().ok


def test_a_second_push_sends_nothing(ada: Repository) -> None:
    ada.commit(state(0))
    assert ada.push().packs_sent == 1
    again = ada.push()
    assert (again.packs_sent, again.bytes_sent, again.updated) == (0, 0, [])


def test_histories_that_parted_are_refused_and_nothing_moves(
    ada: Repository, remote: Remote, tmp_path: Path
) -> None:
    ada.commit(state(0))
    ada.push()
    bob = clone(tmp_path, remote)
    ada.commit(state(1))
    ada.push()
    mine = bob.commit(state(2))
    bob.create_branch("fine", "HEAD")
    there = tips(far(remote))
    for names in (None, ["main"], ["fine", "main"]):
        with pytest.raises(ConflictError) as caught:
            bob.push(refs=names)
        assert "fetch" in caught.value.hint
        assert tips(far(remote)) == there
    with pytest.raises(ConflictError) as caught:
        bob.pull()
    assert caught.value.hint
    assert bob.head().id == mine.id
    assert bob.status().remote == (1, 1)
    forced = bob.push(force=True)
    assert [(update.name, update.forced) for update in forced.updated] == [("main", True)]
    assert tips(far(remote))["main"] == mine.id
    assert [entry.commit for entry in far(remote).reflog("main")][1] == there["main"]
    assert far(remote).fsck().ok


def test_a_tag_does_not_move_over_there(ada: Repository, remote: Remote, tmp_path: Path) -> None:
    ada.commit(state(0))
    ada.create_tag("v1")
    ada.push(tags=True)
    bob = clone(tmp_path, remote)
    bob.delete_tag("v1")
    mine = bob.commit(state(1))
    bob.create_tag("v1")
    with pytest.raises(ConflictError) as caught:
        bob.push(tags=True)
    assert "force" in caught.value.hint
    assert tips(far(remote)) == tips(ada)
    assert far(remote).tags()[0].commit == ada.head().id
    bob.push(tags=True, force=True)
    assert far(remote).tags()[0].commit == mine.id


def test_tags_and_notes_are_merged_both_ways(ada: Repository, remote: Remote, tmp_path: Path) -> None:
    info = ada.commit(state(0))
    ada.note("HEAD", {"a": 1.0})
    ada.push()
    bob = clone(tmp_path, remote)
    ada.create_tag("from-ada")
    ada.note("HEAD", {"b": 2.0})
    bob.create_tag("from-bob")
    bob.note("HEAD", {"c": 3.0})
    ada.push(tags=True)
    bob.push(tags=True)
    for repo in (ada, bob):
        repo.fetch()
        assert {tag.name for tag in repo.tags()} == {"from-ada", "from-bob"}
        assert repo.resolve(info.id).metrics == {"a": 1.0, "b": 2.0, "c": 3.0}
        assert len(repo.notes()) == 3
    ada.push(tags=True)
    bob.fetch()
    assert len(bob.notes()) == 3
    assert len(far(remote).notes(info.id)) == 3


def test_exact_layers_stay_here_unless_asked(ada: Repository, remote: Remote, tmp_path: Path) -> None:
    for number in range(3):
        ada.commit(state(number), bins=16)
    ada.push()
    bob = clone(tmp_path, remote)
    assert [info.exact_layer for info in bob.log()] == ["dropped"] * 3
    assert bob.restore(numpy=True).layer == "value"
    assert bob.fsck().problems == []
    assert far(remote).fsck().problems == []
    report = ada.push(exact=True)
    assert report.packs_sent == 2
    there = far(remote)
    assert [info.exact_layer for info in there.log()] == ["kept", "kept", "dropped"]
    assert leaves(there.restore(numpy=True).state) == leaves(state(2))
    assert there.fsck().problems == []


def test_a_branch_deleted_over_there_is_forgotten_here(
    ada: Repository, remote: Remote, tmp_path: Path
) -> None:
    ada.commit(state(0))
    ada.create_branch("side")
    ada.push(all_branches=True)
    bob = clone(tmp_path, remote)
    far(remote).delete_branch("side")
    bob.fetch()
    assert "origin/side" not in {name for names in bob.decorations().values() for name in names}
    assert "side" in tips(bob)


def test_what_is_missing_is_said(ada: Repository, remote: Remote, tmp_path: Path) -> None:
    url, options = remote
    for action in (
        ada.fetch,
        lambda: Repository.clone(url, tmp_path / "none", options=options),
        lambda: ada.push("nowhere"),
        lambda: ada.push(refs=["nothing"]),
    ):
        with pytest.raises(NotFoundError) as caught:
            action()
        assert caught.value.hint
    assert not (tmp_path / "none").exists()
    with pytest.raises((NotFoundError, UsageError)):
        ada.push()
    ada.commit(state(0))
    ada.push()
    with pytest.raises(NotFoundError) as caught:
        ada.pull(branch="other")
    assert "main" in caught.value.hint


def test_a_clone_into_a_place_that_is_taken_is_refused(
    ada: Repository, remote: Remote, tmp_path: Path
) -> None:
    ada.commit(state(0))
    ada.push()
    clone(tmp_path, remote)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    for name in ("bob", "full", "ada"):
        with pytest.raises(ConflictError):
            clone(tmp_path, remote, name)
    assert (tmp_path / "full" / "file").read_text() == "mine"
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]
