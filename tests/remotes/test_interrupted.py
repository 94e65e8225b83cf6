"""A transfer that breaks off, and a network that fails for a moment."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from mvcs import Repository
from mvcs.errors import StorageError
from mvcs.local import Trust
from tests.repository.states import content, state
from tests.store.faults import Disk, Stopped

COMMITS = 9


class Flaky(MemoryFileSystem):
    """Refuses so many of the next writes."""

    protocol = "flaky"
    refusals = 0

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        if Flaky.refusals:
            Flaky.refusals -= 1
            raise ConnectionResetError("reset by peer")
        super().pipe_file(path, value, mode, **options)


@pytest.fixture(autouse=True)
def _allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Trust.of_user().config.set("safe.protocol", "flaky")


@pytest.fixture
def flaky(tmp_path: Path) -> Iterator[str]:
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    yield f"flaky://{tmp_path.parent.name}-{tmp_path.name}"
    Flaky.refusals = 0


@pytest.fixture
def ada(tmp_path: Path) -> Repository:
    repo = Repository.init(tmp_path / "ada")
    for number in range(COMMITS):
        repo.commit(state(number))
    return repo


def packs(folder: Path) -> int:
    return len(list((folder / "packs").rglob("*.pack")))


@pytest.mark.parametrize("back", [2, 5, 8, 12, 20])
def test_the_next_push_sends_only_what_is_owed(ada: Repository, tmp_path: Path, back: int) -> None:
    far = tmp_path / "far"
    ada.add_remote("origin", str(far))
    ada.add_remote("count", str(tmp_path / "count"))
    # An empty store first, since its probe is many changes.
    for name, folder in (("origin", far), ("count", tmp_path / "count")):
        Repository.init(tmp_path / f"{name}-side", store=str(folder)).close()
    with Disk(tmp_path / "count") as disk:
        ada.push("count")
    # Which of two threads makes a folder that both need differs: so close to its end a push may be through.
    stopped = suppress(Stopped) if back < 5 else pytest.raises(Stopped)
    with Disk(far, disk.changes - back), stopped:
        ada.push()
    there = packs(far)
    assert 0 < there <= COMMITS
    with Repository.open(far) as store:
        assert store.fsck().problems == []
    report = ada.push()
    assert (report.packs_sent, report.packs_skipped) in {(COMMITS - there, there), (0, 0)}
    with Repository.open(far) as store:
        assert store.fsck().problems == []
        assert content(store, "main") == content(ada, "main")
        assert store.fsck().notes == []


def test_a_network_that_fails_for_a_moment_is_tried_again(ada: Repository, flaky: str) -> None:
    ada.add_remote("origin", flaky)
    ada.push(refs=["main"])
    ada.commit(state(50))
    Flaky.refusals = 2
    assert ada.push().packs_sent == 1
    with Repository.open(flaky) as there:
        assert content(there, "main") == content(ada, "main")


def test_a_network_that_stays_away_is_a_storage_error_and_nothing_moved(ada: Repository, flaky: str) -> None:
    ada.add_remote("origin", flaky)
    ada.push()
    before = ada.head().id
    ada.commit(state(50))
    Flaky.refusals = 1000
    with pytest.raises(StorageError) as caught:
        ada.push()
    assert caught.value.exit_code == 7
    assert caught.value.hint
    Flaky.refusals = 0
    with Repository.open(flaky) as there:
        assert there.resolve("main").id == before
        assert there.fsck().problems == []
    assert ada.push().packs_sent == 1
