"""Hundreds of kills, a command after each: nothing that was published is lost, and nothing else stays."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mvcs import Repository
from tests.repository.states import write_model
from tests.store.dying import Nursery, state

pytestmark = pytest.mark.soak
COMMITS, CHECKOUTS, PUSHES = 300, 100, 100


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    with Nursery() as running:
        yield running


def clean(folder: Path) -> None:
    """Check that a store is whole, and holds nothing but what its refs lead to."""
    with Repository.open(folder) as repo:
        report = repo.fsck(full=False)
        assert report.problems == []
        assert [note for note in report.notes if "belongs to no commit" in note] == []
    assert [path for path in folder.rglob(".mvcs-*") if path.is_file()] == []


def test_kills_in_commits(tmp_path: Path, nursery: Nursery) -> None:
    moments = random.Random(13)
    with Repository.init(tmp_path) as repo:
        tip = repo.commit(state(0), step=0).id
    for number in range(1, COMMITS + 1):
        nursery.kill(
            "commit",
            tmp_path,
            number,
            moments.choice([None, 16]),
            root=tmp_path,
            before=moments.randrange(40),
        )
        with Repository.open(tmp_path) as repo:
            assert tip in {info.id for info in repo.log(limit=3)}
            tip = repo.commit(state(number), step=number, bins=moments.choice([None, 16])).id
            assert repo.restore(numpy=True).state["step"] == number
        if not number % 10:
            clean(tmp_path)


def test_kills_in_checkouts(tmp_path: Path, nursery: Nursery) -> None:
    moments = random.Random(14)
    folder = tmp_path / "work"
    files = [folder / "model.safetensors", folder / "deep/side.safetensors"]
    contents = []
    with Repository.init(folder) as repo:
        for number in range(2):
            contents.append([write_model(path, number) for path in files])
            repo.commit_files(files, message=str(number))
        older, newer = repo.resolve("main~1").id, repo.head().id
    for number in range(CHECKOUTS):
        nursery.kill(
            "checkout", folder, (older, newer)[number % 2], root=folder, before=moments.randrange(30)
        )
        with Repository.open(folder) as repo:
            repo.checkout_files((newer, older)[number % 2], force=True)
        assert [path.read_bytes() for path in files] == contents[1 - number % 2]
        clean(folder)


def test_kills_in_pushes(tmp_path: Path, nursery: Nursery) -> None:
    moments = random.Random(15)
    folder, far = tmp_path / "work", tmp_path / "far"
    with Repository.init(folder) as repo:
        repo.add_remote("origin", str(far))
        repo.commit(state(0))
        repo.push()
        for number in range(1, PUSHES + 1):
            repo.commit(state(number), step=number, bins=moments.choice([None, 16]))
            nursery.kill("push", folder, "main", root=far, before=moments.randrange(20))
            repo.push()
            if not number % 10:
                clean(far)
    with Repository.open(far) as repo:
        assert repo.checkout("main", numpy=True)["step"] == PUSHES
    clean(folder)
