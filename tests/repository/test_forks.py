"""A forked process has none of the threads of the other, and so must not wait for what these held."""

import contextlib
import dataclasses
import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository, memory
from mvcs.errors import UsageError
from mvcs.lineage.database import Mode, connect
from mvcs.progress import SILENT
from mvcs.repository.session import Session
from mvcs.store.backend.local import LocalBackend
from mvcs.store.upgrades import FOLDER

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
LONG = 120  # seconds: whoever takes so long waits for nobody


class Waiting(LocalBackend):
    """A folder that tells of its upgrades, where another thread than the main one asks, once it may."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked, self.may = threading.Event(), threading.Event()

    def newest(self, folder: str) -> str | None:
        if folder == FOLDER and threading.current_thread() is not threading.main_thread():
            self.asked.set()
            assert self.may.wait(600)
        return super().newest(folder)


def forked(work: Callable[[], object]) -> int:
    """Do work in a forked process and return how that ended: 0 where the work did."""
    child = os.fork()
    if child == 0:
        signal.alarm(LONG)
        ended = 1
        try:
            work()
            ended = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the tests go on in the other process
            traceback.print_exc()
        finally:
            os._exit(ended)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("anew", [False, True])
def test_a_child_reads_and_commits_while_a_thread_of_its_parent_looks_at_the_store(
    tmp_path: Path, anew: bool
) -> None:
    Repository.init(tmp_path).close()
    with Repository.open(tmp_path) as repo:
        repo.commit({"w": np.ones(8)})
        place = repo._session.place
        backend = Waiting(place.backend.root)
        repo._session = Session(dataclasses.replace(place, backend=backend), SILENT)
        thread = threading.Thread(target=lambda: list(repo.log()))
        thread.start()
        assert backend.asked.wait(600)

        def work() -> None:
            mine = Repository.open(tmp_path) if anew else repo
            assert mine.checkout("main")["w"].sum() == 8
            mine.commit({"w": np.zeros(8)})
            assert len(list(mine.log())) == 2

        try:
            assert forked(work) == 0
        finally:
            backend.may.set()
            thread.join()
        assert len(list(repo.log())) == 2


def test_a_child_opens_a_distant_store_itself(tmp_path: Path) -> None:
    with Repository.init(tmp_path, store=f"memory://{tmp_path.name}") as repo:

        def work() -> None:
            with pytest.raises(UsageError, match="another process"):
                repo.status()
            repo.close()

        assert forked(work) == 0


def test_a_fork_waits_for_threads_that_are_inside_the_index(tmp_path: Path) -> None:
    opened, closed = threading.Event(), list[bool]()

    def use() -> None:
        with contextlib.closing(connect(tmp_path / "index", Mode.CREATE)):
            opened.set()
            time.sleep(0.2)
            closed.append(True)

    def look() -> None:
        assert closed
        connect(tmp_path / "index", Mode.CREATE).close()

    thread = threading.Thread(target=use)
    thread.start()
    assert opened.wait(LONG)
    assert forked(look) == 0
    thread.join()


def test_a_child_collects_cycles_as_usual_whatever_its_parent_was_at() -> None:
    usual = gc.get_threshold()

    def look() -> None:
        assert gc.get_threshold() == usual
        with memory.no_collections():
            assert gc.get_threshold() != usual
        assert gc.get_threshold() == usual

    with memory.no_collections(), memory.rare_full_collections():
        assert forked(look) == 0
    assert gc.get_threshold() == usual
