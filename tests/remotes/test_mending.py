"""Damage and loss on either side of an exchange: what is missing or damaged goes over again, and is said."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError
from mvcs.local.records import LocalRecords
from mvcs.store.backend import Backend, open_backend
from mvcs.store.reading.pack_files import pack_path
from tests.remotes.conftest import Remote
from tests.remotes.forging import flip, tip_pack
from tests.repository.states import content, state, through_faults

COMMITS = 4


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with some commits. To be copied."""
    with Repository.init(tmp_path_factory.mktemp("committed")) as repo:
        for number in range(COMMITS):
            repo.commit(state(number))
    return repo.top


@pytest.fixture
def ada(tmp_path: Path, committed: Path, remote: Remote) -> Repository:
    url, options = remote
    shutil.copytree(committed, tmp_path / "ada")
    repo = Repository.open(tmp_path / "ada")
    repo.add_remote("origin", url, options)
    repo.push()
    return repo


def far(remote: Remote) -> Backend:
    url, options = remote
    return open_backend(url, options)


def delete(backend: Backend, name: str) -> None:
    backend.delete(name)


def cut(backend: Backend, name: str) -> None:
    backend.replace(name, backend.read(name)[:-10])


def turn(backend: Backend, name: str) -> None:
    """One bit, in the middle: neither size nor end tells."""
    data = bytearray(backend.read(name))
    data[len(data) // 3] ^= 1
    backend.replace(name, bytes(data))


def packs(repo: Repository) -> list[str]:
    """The pack of each commit, oldest first."""
    session = repo._session
    commits = [session.resolver.resolve(info.id).id for info in reversed(list(repo.log()))]
    names = [session.store.manifests.placement(commit).own[-1] for commit in commits]
    return [f"packs/{name[:2]}/{name}.pack" for name in names]


@pytest.mark.parametrize("which", [0, COMMITS - 1])
@pytest.mark.parametrize("damage", [delete, cut])
def test_a_push_sends_again_what_is_missing_over_there(
    ada: Repository, remote: Remote, damage: Callable[[Backend, str], None], which: int
) -> None:
    name = packs(ada)[which]
    true = far(remote).read(name)
    damage(far(remote), name)
    report = Repository.open(ada.top).push()
    assert (report.packs_sent, report.packs_mended, report.updated) == (1, 1, [])
    assert far(remote).read(name) == true
    again = Repository.open(ada.top).push()
    assert (again.packs_sent, again.packs_mended) == (0, 0)


def test_a_push_that_verifies_mends_a_flipped_bit(ada: Repository, remote: Remote) -> None:
    name = packs(ada)[1]
    true = far(remote).read(name)
    turn(far(remote), name)
    assert ada.push().packs_sent == 0
    assert ada.push(verify=True).packs_mended == 1
    assert far(remote).read(name) == true
    assert ada.push(verify=True).packs_mended == 0


@pytest.mark.parametrize("which", [0, COMMITS - 1])
@pytest.mark.parametrize("damage", [delete, cut])
def test_a_fetch_brings_again_what_is_missing_here(
    ada: Repository, damage: Callable[[Backend, str], None], which: int
) -> None:
    here, name = open_backend(str(ada.top / ".mvcs")), packs(ada)[which]
    true = here.read(name)
    before = content(ada, "HEAD")
    damage(here, name)
    with Repository.open(ada.top) as repo:
        report = repo.fetch()
        assert (report.packs_received, report.packs_mended) == (1, 1)
        assert here.read(name) == true
        assert content(repo, "HEAD") == before
        assert repo.fsck().problems == []
        again = repo.fetch()
        assert (again.packs_received, again.packs_mended, again.updated) == (0, 0, [])


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("damage", [delete, cut])
def test_the_newest_bounded_commits_come_again_beside_their_exact_layers(
    ada: Repository, damage: Callable[[Backend, str], None], lost: int
) -> None:
    values = np.random.default_rng(0).standard_normal((3, 64, 64)).astype(np.float32)
    for step, weight in enumerate(values):
        ada.commit({"w": weight}, step=step, step_size=0.5)
    ada.push()
    here, names = open_backend(str(ada.top / ".mvcs")), packs(ada)[-lost:]
    before = content(ada, "HEAD")
    for name in names:
        damage(here, name)
    with Repository.open(ada.top) as repo:
        assert repo.fetch().packs_mended == lost
        assert content(repo, "HEAD") == before
        assert repo.checkout("HEAD", exact=True, numpy=True)["w"].tobytes() == values[-1].tobytes()
        assert repo.fsck().problems == []


def test_a_fetch_that_verifies_mends_a_flipped_bit(ada: Repository) -> None:
    here, name = open_backend(str(ada.top / ".mvcs")), packs(ada)[1]
    true = here.read(name)
    turn(here, name)
    with Repository.open(ada.top) as repo:
        assert repo.fetch().packs_mended == 0
        assert repo.fetch(verify=True).packs_mended == 1
        assert here.read(name) == true
        assert repo.fsck().problems == []
        assert repo.fetch(verify=True).packs_mended == 0


def test_a_fetch_brings_again_what_was_found_damaged(ada: Repository) -> None:
    here, name = open_backend(str(ada.top / ".mvcs")), packs(ada)[1]
    true = here.read(name)
    turn(here, name)
    records = LocalRecords(ada.top / ".mvcs")
    with Repository.open(ada.top) as repo:
        assert not repo.fsck().ok
    assert list(records.read("damaged")) == [Path(name).stem]
    with Repository.open(ada.top) as repo:
        assert repo.fetch().packs_mended == 1
    assert here.read(name) == true
    assert records.read("damaged") == {}


def test_everything_lost_here_comes_again(ada: Repository) -> None:
    here = open_backend(str(ada.top / ".mvcs"))
    true = {name: here.read(name) for name in packs(ada)}
    for name in true:
        here.delete(name)
    with Repository.open(ada.top) as repo:
        report = repo.fetch()
        assert report.packs_received == COMMITS
        assert report.packs_mended
        assert repo.fsck().problems == []
    assert {name: here.read(name) for name in true} == true


def test_what_is_whole_nowhere_is_named_and_never_up_to_date(ada: Repository, remote: Remote) -> None:
    here, name = open_backend(str(ada.top / ".mvcs")), packs(ada)[1]
    cut(far(remote), name)
    delete(here, name)
    for action in (Repository.open(ada.top).fetch, Repository.open(ada.top).push):
        with pytest.raises(CorruptionError, match=name) as caught:
            action()
        assert caught.value.hint


def test_the_whole_copy_wins_where_sizes_differ(ada: Repository, remote: Remote) -> None:
    here, name = open_backend(str(ada.top / ".mvcs")), packs(ada)[1]
    true = here.read(name)
    cut(far(remote), name)
    assert Repository.open(ada.top).fetch().packs_received == 0
    assert here.read(name) == true
    far(remote).replace(name, true)
    cut(here, name)
    assert Repository.open(ada.top).push().packs_sent == 0
    assert far(remote).read(name) == true


def test_a_new_commit_near_a_damaged_one_is_taken_when_that_is_mended(
    ada: Repository, remote: Remote, tmp_path: Path
) -> None:
    """What comes is near what is here: damage here that nobody has met yet is found and mended on the way."""
    url, options = remote
    with Repository.clone(url, tmp_path / "bob", options=options) as bob:
        bob.commit(state(7))
        bob.push()
        catalog = bob._session.store.catalog
        entries = catalog.attach(tip_pack(bob.top)).entries
        base = catalog.locate(next(base for placed in entries for base in placed.entry.base_ids))
        expected = content(bob, "HEAD")
    assert pack_path(base.pack) in packs(ada)
    flip(ada.top / ".mvcs" / pack_path(base.pack), base.placed.offset + base.placed.length - 1)
    with Repository.open(ada.top) as repo:
        report = repo.fetch()
        assert (report.packs_received, report.packs_mended) == (2, 1)
        assert content(repo, "origin/main") == expected
        assert repo.fsck().problems == []


def test_nothing_new_costs_a_few_requests(tmp_path: Path) -> None:
    """The price does not grow with the history: no pack is read, and each side is listed once."""
    with Repository.init(tmp_path / "ada") as ada:
        for number in range(40):
            ada.commit({"step": number})
        ada.add_remote("origin", str(tmp_path / "far"))
        ada.push()
        ada.fetch()
    repo, backend = through_faults(tmp_path / "ada")
    repo.push()
    repo.fetch()
    read = [name for name, _, _ in backend.reads if name.startswith("packs/")]
    assert len(read) <= 4
