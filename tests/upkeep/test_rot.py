"""One bit of the store flips, and a run goes on: every later commit restores, whoever had what in memory."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mvcs import Repository
from mvcs.objects.ids import Kind
from mvcs.store.backend import open_backend
from mvcs.store.packs.footer import Placed
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import EXACT_FOLDER, VALUE_FOLDER, pack_name, pack_path

LATER = 12
MOVING, FROZEN = 3, 2


def state(number: int) -> dict[str, Any]:
    """Weights that move, some that never do, and Adam's moments."""
    first, now = np.random.default_rng(0), np.random.default_rng(number + 1)
    weights = {f"w{i}": first.standard_normal((48, 64)).astype(np.float32) for i in range(MOVING)}
    frozen = {f"f{i}": first.standard_normal((40, 64)).astype(np.float32) for i in range(FROZEN)}
    moved = {
        name: value + np.float32(0.02) * now.standard_normal(value.shape).astype(np.float32)
        for name, value in weights.items()
    }
    return {"model": moved | frozen, "step": number}


def flat(values: Any) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in values["model"].items()}


class Rotten:
    """The packs of a repository, and ways to damage them."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / ".mvcs"
        self.catalog = ObjectStore(open_backend(str(self.root))).catalog
        self.catalog.attach_everything()
        self.catalog.attach_everything(exact=True)

    def packs(self, folder: str) -> list[Path]:
        """The packs of a folder, in the order of the commits that they were written for."""
        exact = folder == EXACT_FOLDER
        with Repository.open(self.root.parent) as repo:
            session = repo._session
            written = [found.written for found in session.graph.walk([session.head()])][::-1]
            names = [
                name
                for one in written
                for name in (
                    one.exact_packs if exact else session.store.manifests.first(one.id).placement.own
                )
            ]
        paths = [self.root / pack_path(name, exact=exact) for name in names]
        return [path for path in paths if path.exists()]  # old exact layers were dropped

    def flip(self, folder: str, wanted: Callable[[Placed], bool], place: int = -3) -> None:
        """Flip a bit of the first entry that is wanted, oldest packs first."""
        for path in self.packs(folder):
            name = pack_name(path.name)
            footer = self.catalog.known(name or "", exact=folder == EXACT_FOLDER)
            for placed in footer.entries if footer else ():
                if wanted(placed):
                    self.flip_byte(path, placed.offset + placed.length + place)
                    return
        raise AssertionError("there is no such entry")

    def flip_byte(self, path: Path, place: int) -> None:
        data = bytearray(path.read_bytes())
        data[place] ^= 16
        path.write_bytes(data)


def is_chunk(placed: Placed) -> bool:
    return all(member.kind is Kind.CHUNK for member in placed.entry.members) and placed.length > 90


def holds(*kinds: Kind) -> Callable[[Placed], bool]:
    return lambda placed: any(member.kind in kinds for member in placed.entry.members)


DAMAGE: dict[str, Callable[[Rotten], None]] = {
    "a snapshot": lambda r: r.flip(VALUE_FOLDER, lambda p: is_chunk(p) and not p.entry.bases),
    "a delta": lambda r: r.flip(VALUE_FOLDER, lambda p: is_chunk(p) and bool(p.entry.bases)),
    "a tree": lambda r: r.flip(VALUE_FOLDER, holds(Kind.TREE)),
    "a header": lambda r: r.flip(VALUE_FOLDER, is_chunk, -80),
    "the footer of the first pack": lambda r: r.flip_byte(r.packs(VALUE_FOLDER)[0], -60),
    "a truncated pack": lambda r: r.packs(VALUE_FOLDER)[0].write_bytes(
        r.packs(VALUE_FOLDER)[0].read_bytes()[:-200]
    ),
    "a deleted pack": lambda r: r.packs(VALUE_FOLDER)[0].unlink(),
}
EXACT_DAMAGE: dict[str, Callable[[Rotten], None]] = {
    "an exact chunk": lambda r: r.flip(EXACT_FOLDER, is_chunk),
    "a footer of an exact layer": lambda r: r.flip_byte(r.packs(EXACT_FOLDER)[0], -60),
}
WAYS = {"exact": {}, "bounded": {"step_size": 0.5}, "tables": {"bins": 16}}


@contextlib.contextmanager
def going_on(folder: Path, held: Repository | None) -> Iterator[Repository]:
    """The process that commits: one that lives long and has bases in memory, or a new one each time."""
    if held is not None:
        yield held
        return
    with Repository.open(folder) as opened:
        yield opened


def cases() -> Iterator[Any]:
    """All kinds of damage, ways to commit and processes; a part of them in the ordinary suite."""
    for number, damage in enumerate([*DAMAGE, *EXACT_DAMAGE]):
        for place, way in enumerate(WAYS):
            for one_process in (True, False):
                if way == "exact" and damage in EXACT_DAMAGE:
                    continue  # an exact commit has no exact layer
                rare = (number + place + one_process) % 3 > 0
                name = f"{damage}, {way}, {'one process' if one_process else 'a process a commit'}"
                later = LATER if rare or damage == "a snapshot" else 4
                yield pytest.param(
                    damage, way, one_process, later, id=name, marks=[pytest.mark.slow] if rare else []
                )


@pytest.mark.parametrize(("damage", "way", "one_process", "later"), list(cases()))
def test_after_one_flipped_bit_every_later_commit_restores(
    tmp_path: Path, damage: str, way: str, one_process: bool, later: int
) -> None:
    with Repository.init(tmp_path) as held:
        for number in range(3):
            held.commit(state(number), step=number, **WAYS[way])
        (DAMAGE | EXACT_DAMAGE)[damage](Rotten(tmp_path))
        made, values = {}, {}
        for number in range(3, 3 + later):
            with going_on(tmp_path, held if one_process else None) as repo:
                made[number] = repo.commit(state(number), step=number, **WAYS[way])
                values[number] = flat(repo.checkout(made[number].id, numpy=True))
    with Repository.open(tmp_path) as fresh:
        for number, commit in made.items():
            assert flat(fresh.checkout(commit.id, numpy=True)) == values[number]
        for number in (later + 1, later + 2):
            assert flat(fresh.checkout(made[number].id, numpy=True, exact=True)) == flat(state(number))


@pytest.mark.parametrize("way", ["exact", "bounded"])
def test_a_small_leaf_that_never_changes_is_written_anew_by_the_next_commit_after_it_rots(
    tmp_path: Path, way: str
) -> None:
    generator = {"words": np.random.default_rng(7).integers(0, 1 << 32, 625, dtype=np.uint32)}
    with Repository.init(tmp_path) as repo:
        for number in range(3):
            repo.commit(state(number) | {"rng": generator}, step=number, **WAYS[way])
        small = generator["words"].nbytes
        Rotten(tmp_path).flip(VALUE_FOLDER, lambda p: any(m.length == small for m in p.entry.members))
        told = repo.commit(state(3) | {"rng": generator}, step=3, **WAYS[way])
        silent = repo.commit(state(4) | {"rng": generator}, step=4, **WAYS[way])
    assert "damaged; what this commit needs of it is written again" in " ".join(told.notes)
    assert not any("damaged" in note for note in silent.notes)
    with Repository.open(tmp_path) as fresh:
        for commit in (told, silent):
            restored = fresh.checkout(commit.id, numpy=True)
            np.testing.assert_array_equal(restored["rng"]["words"], generator["words"])
