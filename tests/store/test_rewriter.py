"""What a commit holds, stored again elsewhere: all of it, and nothing twice."""

from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.history import Revision
from mvcs.objects import Kind
from mvcs.store import LastEntry, ObjectStore, Placement, RestoreLimits, pack_path
from mvcs.store.backend.local import LocalBackend
from mvcs.store.packs.pack import scan
from mvcs.store.writing.rewriter import Rewriter
from tests.repository.states import content, state


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """A store with two commits."""
    with Repository.init(tmp_path) as repository:
        for number in range(2):
            repository.commit(state(number, 24), step=number)
        yield repository


def tip(repo: Repository) -> Revision:
    return repo._session.resolver.resolve("main")


def stored_again(repo: Repository, *, keeps: bool) -> Placement:
    """Store what the newest commit holds once more; with `keeps` its own packs of now stay."""
    backend, store, written = repo._session.place.backend, repo._session.store, tip(repo).written
    assert isinstance(backend, LocalBackend)
    before, source = store.manifests.placement(written.id), ObjectStore(backend)
    source.catalog.attach_all(before.packs)
    target = source.apart()
    kept = before.own if keeps else ()
    target.catalog.attach_all(kept)
    rewriter = Rewriter(source, target, RestoreLimits())
    needs = [
        one
        for footer in source.catalog.loaded()
        for placed in footer.entries
        for member, one in zip(placed.entry.members, placed.ids, strict=True)
        if member.kind is not Kind.COMMIT
    ]
    for one in needs:
        if not rewriter.holds(one):
            rewriter.put(source.catalog.locate(one), None)
    found = rewriter.finish(written, needs, kept)
    rewriter.prove()
    return found


def only(repo: Repository, placement: Placement) -> None:
    """Delete all packs but these, which the newest commit is said to lie in."""
    manifests, commit = repo._session.store.manifests, tip(repo).id
    manifests.append(commit, placement, manifests.placement(commit))
    backend = repo._session.place.backend
    for path in backend.list("packs"):
        if path not in map(pack_path, placement.packs):
            backend.delete(path)


def test_a_commit_lies_in_the_packs_that_it_was_moved_to(repo: Repository) -> None:
    before = content(repo, "main")
    found = stored_again(repo, keeps=False)
    assert found.others == ()
    assert set(found.own).isdisjoint(repo._session.store.manifests.placement(tip(repo).id).packs)
    only(repo, found)
    with Repository.open(repo.top) as again:
        assert content(again, "main") == before


def test_a_pack_that_a_commit_was_moved_to_tells_what_its_manifest_does(repo: Repository) -> None:
    written, found = tip(repo).written, stored_again(repo, keeps=False)
    data = repo._session.place.backend.read(pack_path(found.own[-1]))
    *_, (_, _, payload, _) = scan(data)
    assert LastEntry.decode(bytes(payload)) == LastEntry(written.sizes, written.exact_packs)


def test_what_packs_that_stay_hold_is_not_stored_again(repo: Repository) -> None:
    before, packs = content(repo, "main"), set(repo._session.place.backend.list("packs"))
    found = stored_again(repo, keeps=True)
    kept = repo._session.store.manifests.placement(tip(repo).id).own
    assert found.own[: len(kept)] == kept
    for path in set(repo._session.place.backend.list("packs")) - packs:
        entries = [entry for _, entry, *_ in scan(repo._session.place.backend.read(path))]
        kinds = {member.kind.name for entry in entries for member in entry.members}
        assert "COMMIT" not in kinds
    only(repo, found)
    with Repository.open(repo.top) as again:
        assert content(again, "main") == before
