"""Damage is found, told of, remembered, and made good by committing what was damaged."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import MvcsError
from mvcs.store.reading.pack_files import EXACT_FOLDER, VALUE_FOLDER
from tests.upkeep.test_rot import DAMAGE, WAYS, Rotten, flat, is_chunk, state

LEAVES = {
    "a chunk": lambda r: r.flip(VALUE_FOLDER, is_chunk),
    "a tree": DAMAGE["a tree"],
    "a truncated pack": DAMAGE["a truncated pack"],
    "a deleted pack": DAMAGE["a deleted pack"],
}


def readable(folder: Path, rev: str, *, exact: bool = False) -> bool:
    with Repository.open(folder) as repo:
        try:
            flat(repo.checkout(rev, numpy=True, exact=exact))
        except MvcsError:
            return False
        return True


@pytest.mark.parametrize("way", ["exact", "bounded"])
@pytest.mark.parametrize("damage", LEAVES)
def test_committing_the_same_content_again_heals_older_commits(tmp_path: Path, damage: str, way: str) -> None:
    with Repository.init(tmp_path) as repo:
        first = repo.commit(state(0), **WAYS[way])
        second = repo.commit(state(1), **WAYS[way])
        values = flat(repo.checkout(first.id, numpy=True))
    LEAVES[damage](Rotten(tmp_path))
    assert not readable(tmp_path, first.id)
    with Repository.open(tmp_path) as repo:
        if damage != "a deleted pack":
            repo.fsck()
        repo.commit({"nothing": np.zeros(1, np.float32)})
        again = repo.commit(state(0), **WAYS[way])
    with Repository.open(tmp_path) as repo:
        assert flat(repo.checkout(first.id, numpy=True)) == values
        assert flat(repo.checkout(again.id, numpy=True, exact=True)) == flat(state(0))
    if damage != "a tree":
        assert readable(tmp_path, second.id)


def test_an_exact_layer_is_healed_by_another_of_the_same_state(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        first = repo.commit(state(0), step_size=0.5)
    Rotten(tmp_path).flip(EXACT_FOLDER, is_chunk)
    assert not readable(tmp_path, first.id, exact=True)
    with Repository.open(tmp_path) as repo:
        repo.commit(state(0), step_size=0.5)
    assert readable(tmp_path, first.id, exact=True)


def test_a_commit_tells_of_the_damage_that_it_makes_good(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0), step_size=0.5)
        rotten = Rotten(tmp_path)
        rotten.flip(VALUE_FOLDER, is_chunk)
        made = repo.commit(state(1), step_size=0.5)
        (pack,) = rotten.packs(VALUE_FOLDER)[:1]
        assert any(pack.stem in note and "written again" in note for note in made.notes)
        assert not repo.commit(state(2), step_size=0.5).notes


def test_what_fsck_found_damaged_is_not_counted_as_stored_by_any_process(tmp_path: Path) -> None:
    """A tensor that never changes is only referred to, and so its bytes are not read by a commit."""
    frozen = {"model": {"f": np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)}}
    with Repository.init(tmp_path) as repo:
        repo.commit(frozen)
    Rotten(tmp_path).flip(VALUE_FOLDER, is_chunk)
    with Repository.open(tmp_path) as repo:
        assert not readable(tmp_path, repo.commit(frozen).id)
    with Repository.open(tmp_path) as repo:
        assert not repo.fsck().ok
    with Repository.open(tmp_path) as repo:
        made = repo.commit(frozen)
        assert made.stored_bytes > 200_000
        assert [readable(tmp_path, commit.id) for commit in repo.log()] == [True, True, True]


def test_a_tensor_that_never_changes_is_looked_at_in_turn(tmp_path: Path) -> None:
    """One part in a hundred of what commits hash, across processes: then damage is found and healed."""
    frozen = {"model": {f"f{i}": np.full((64, 64), i, np.float32) for i in range(20)}}
    frozen["model"]["noise"] = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    with Repository.init(tmp_path) as repo:
        first = repo.commit(frozen)
    Rotten(tmp_path).flip(VALUE_FOLDER, lambda placed: is_chunk(placed) and placed.length > 10_000)
    for _ in range(20):
        with Repository.open(tmp_path) as repo:
            notes = repo.commit(frozen).notes
        if notes:
            break
    assert "written again" in notes[0]
    assert readable(tmp_path, first.id)
    record = json.loads((tmp_path / ".mvcs/local/looked.json").read_text().splitlines()[0])
    assert record["damaged"]


def test_fsck_tells_what_was_not_looked_at_since_when(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0), step_size=0.5)
        before = repo.fsck().looks
        assert [look.folder for look in before] == [VALUE_FOLDER, EXACT_FOLDER]
        assert [look.since is None for look in before] == [False, True]
    with Repository.open(tmp_path) as repo:
        after = repo.fsck(full=False).looks
        assert all(look.since is not None for look in after)
        assert [(look.packs, look.bytes) for look in after] == [(look.packs, look.bytes) for look in before]


def test_what_a_commit_found_damaged_is_fetched_again_and_trusted_again(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "far") as far:
        first = far.commit(state(0))
    folder = tmp_path / "near"
    Repository.clone(str(tmp_path / "far"), folder).close()
    Rotten(folder).flip(VALUE_FOLDER, is_chunk)
    with Repository.open(folder) as repo:
        assert repo.commit(state(1)).notes
        repo.fetch()
    with Repository.open(folder) as repo:
        assert flat(repo.checkout(first.id, numpy=True)) == flat(state(0))
        assert not repo.commit(state(2)).notes
        assert repo._session.store.catalog.damaged == set()
        assert repo.fsck().problems == []


@pytest.mark.parametrize(
    "text", ["", "[]", '{"position": 3, "damaged": [1]}', '{"position": {"pack": "../x"}}']
)
def test_a_damaged_record_of_looks_costs_a_look(tmp_path: Path, text: str) -> None:
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
        (tmp_path / ".mvcs/local/looked.json").write_text(text)
    with Repository.open(tmp_path) as repo:
        assert flat(repo.checkout(repo.commit(state(1)).id, numpy=True)) == flat(state(1))


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine")
    with Repository.init(folder) as repo:
        for number in range(4):
            repo.commit(state(number), step=number, **WAYS["bounded" if number % 2 else "exact"])
    return folder


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.slow) for n in range(12, 300))]
)
def test_commits_after_random_damage_restore_and_older_ones_restore_or_say_so(
    pristine: Path, tmp_path: Path, seed: int
) -> None:
    folder, random = Path(shutil.copytree(pristine, tmp_path / "copy")), np.random.default_rng(seed)
    with Repository.open(folder) as held:
        held.commit(state(9))
        expected = {item.id: flat(held.checkout(item.id, numpy=True)) for item in held.log()}
        rotten = Rotten(folder)
        packs = rotten.packs(VALUE_FOLDER) + rotten.packs(EXACT_FOLDER)
        for _ in range(1 + seed % 3):
            path = packs[random.integers(len(packs))]
            rotten.flip_byte(path, int(random.integers(path.stat().st_size)))
        made = []
        for number in range(10, 13):
            settings = WAYS[["exact", "bounded"][int(random.integers(2))]]
            if seed % 2:
                made.append((held.commit(state(number), **settings).id, number))
                continue
            with suppress(MvcsError), Repository.open(folder) as repo:
                made.append((repo.commit(state(number), **settings).id, number))
    with Repository.open(folder) as fresh:
        for rev, number in made:
            assert flat(fresh.checkout(rev, numpy=True))
            with_exact = fresh.restore(rev, numpy=True)
            assert with_exact.lossy or flat(with_exact.state) == flat(state(number))
        for rev, values in expected.items():
            with suppress(MvcsError):
                assert flat(fresh.checkout(rev, numpy=True)) == values
