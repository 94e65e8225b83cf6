"""Pushes beside other pushes, collectors, and stores that let data go: what is acknowledged is there."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import StorageError
from mvcs.refs.refstore import RefStore

Update = Callable[..., object]


def state(number: int, near: float = 1.0) -> dict[str, np.ndarray]:
    base = np.random.default_rng(99).standard_normal((32, 32))
    noise = np.random.default_rng(number).standard_normal((32, 32))
    return {"w.weight": (base + near * noise).astype(np.float32)}


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """Ada has a branch that her remote lacks; Bob, who shares the remote, fetched it from her."""
    with Repository.init(tmp_path / "ada") as ada:
        ada.add_remote("origin", str(tmp_path / "far"))
        ada.commit(state(0))
        ada.push()
        ada.commit(state(1), branch="side")
    Repository.clone(str(tmp_path / "far"), tmp_path / "bob").close()
    with Repository.open(tmp_path / "bob") as bob:
        bob.add_remote("ada", str(tmp_path / "ada"))
        bob.fetch("ada")
        bob.create_branch("side", "ada/side")
    return tmp_path


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def cut_off() -> None:
    raise StorageError("the network is gone")


def broken_off(folder: Path, how: Callable[[], None]) -> None:
    """Push Ada's branch, and end before the ref of the far store moves."""
    child = os.fork()
    if not child:
        real = RefStore.update

        def update(self: RefStore, *arguments: object) -> object:
            if self._backend.url.endswith("far"):
                how()
            return real(self, *arguments)

        RefStore.update = update
        try:
            with Repository.open(folder / "ada") as ada:
                ada.push(refs=["side"])
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.fixture
def before_the_ref(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What is done once before a branch `side` moves."""
    actions: list[Callable[[], object]] = []
    real = RefStore.update

    def update(self: RefStore, kind: str, name: str, *arguments: object) -> object:
        if (kind, name) == ("heads", "side") and actions:
            actions.pop()()
        return real(self, kind, name, *arguments)

    monkeypatch.setattr(RefStore, "update", update)
    yield actions
    assert actions == []


@pytest.mark.parametrize("how", [killed, cut_off])
def test_packs_of_a_push_that_broke_off_are_another_ones_to_use(
    clones: Path, how: Callable[[], None], before_the_ref: list[Callable[[], object]]
) -> None:
    broken_off(clones, how)

    def ada_goes_on() -> None:
        with Repository.open(clones / "ada") as ada:
            ada.delete_branch("side", force=True)
            ada.commit(state(2), branch="main")
            ada.push(refs=["main"])

    with Repository.open(clones / "bob") as bob:
        before_the_ref.append(ada_goes_on)
        bob.push("origin", refs=["side"])
    with Repository.open(clones / "far") as far:
        assert far.fsck().problems == []
        assert far.checkout("side", numpy=True)["w.weight"].tobytes() == state(1)["w.weight"].tobytes()


def let_go(folder: Path, step_size: float | None, wait: float | None) -> None:
    """Eight commits, of which the remote keeps the data of three; with a wait it was collected."""
    with Repository.init(folder / "ada") as ada:
        ada.add_remote("origin", str(folder / "far"))
        for number in range(8):
            ada.commit(state(number, 0.05), step=number, step_size=step_size)
        ada.push()
        ada.set_retention(remote="origin", last=3)
        ada.apply_retention(remote="origin")
        if wait is not None:
            ada.gc(remote="origin", execute=True, grace_days=0, wait_days=wait)


def compacted(repo: Repository) -> None:
    repo.compact(max_depth=1)


def archived(repo: Repository) -> None:
    repo.compact(for_archive=True)


def without_old_data(repo: Repository) -> None:
    repo.set_retention(last=4)
    repo.apply_retention()


@pytest.mark.parametrize("wait", [None, 0, 1])
@pytest.mark.parametrize("step_size", [None, 0.5])
@pytest.mark.parametrize("before", [lambda _: None, compacted, archived, without_old_data])
def test_a_branch_at_a_commit_that_the_remote_let_go_comes_with_its_data(
    tmp_path: Path, before: Callable[[Repository], object], step_size: float | None, wait: float | None
) -> None:
    let_go(tmp_path, step_size, wait)
    with Repository.open(tmp_path / "ada") as ada:
        expected = ada.checkout("main~5", numpy=True)["w.weight"].tobytes()
        ada.create_branch("keep", "main~5")
        before(ada)
        ada.push(all_branches=True)
        for _ in range(2):
            with Repository.open(tmp_path / "far") as far:
                assert far.checkout("keep", numpy=True)["w.weight"].tobytes() == expected
                assert far.fsck().problems == []
            ada.gc(remote="origin", execute=True, grace_days=0, wait_days=0)


def test_what_a_dead_collector_was_deleting_is_taken_over_and_released(tmp_path: Path) -> None:
    """It died behind its word, over packs that HEAD has come to need by then."""
    with Repository.init(tmp_path) as repo:
        repo.commit(state(0))
        repo.commit(state(1))
        repo.checkout_files("main~1")
        lost = repo.commit(state(2)).id
        repo.switch("main")
        repo.gc(execute=True, grace_days=0, wait_days=1)
    child = os.fork()
    if not child:
        from mvcs.store.condemned.log import CondemnedLog, Standing

        say = CondemnedLog.say_of

        def struck(self: CondemnedLog, standing: Standing, *arguments: object) -> object:
            if standing is Standing.GOING:
                with Repository.open(tmp_path) as other:
                    other.checkout_files(lost)
            said = say(self, standing, *arguments)
            if standing is Standing.GOING:
                killed()
            return said

        CondemnedLog.say_of = struck
        try:
            with Repository.open(tmp_path) as repo:
                repo.gc(execute=True, grace_days=0, wait_days=0)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with Repository.open(tmp_path) as repo:
        assert repo.gc(execute=True, grace_days=0, wait_days=0).garbage == []
        repo.create_branch("keep", lost)
        repo.commit(state(3))
        assert repo.fsck().problems == []
