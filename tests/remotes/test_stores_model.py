"""Clones and stores of one project, each with rules of its own: what was acknowledged restores.

Commits, exchanges, compactions, retention, collections and repairs come in any order. Some are killed before
one of their changes, and some sleep there while others go on.
"""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mvcs import Repository
from mvcs.errors import ConflictError, MvcsError
from mvcs.objects.ids import ObjectId
from mvcs.store.manifests import Manifests
from mvcs.upkeep.collecting.garbage import named
from tests.store.faults import Disk

CLONES, FAR = ("ada", "bob"), "far"
BRANCHES = ("main", "side")
DAY = 24 * 3600
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
clones, branches = st.sampled_from(CLONES), st.sampled_from(BRANCHES)
depths = st.integers(1, 3)


def weights(number: int) -> dict[str, object]:
    """A state near the one before, so that commits are stored near each other; one tensor never changes."""
    base = np.random.default_rng(0).standard_normal((2, 24, 32)).astype(np.float32)
    noise = np.random.default_rng(number).standard_normal((24, 32)).astype(np.float32)
    return {"frozen": base[0], "weight": base[1] + np.float32(0.01) * noise, "number": number}


class Stores(RuleBasedStateMachine):
    """Two clones that share a bare store, and a backup of its own rules."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="mvcs-stores-", dir=MEMORY))
        self.values: dict[str, bytes] = {}
        self.acknowledged: dict[tuple[str, str], str] = {}
        self.asleep: dict[str, int] = {}
        self.number = 0

    @initialize()
    def begin(self) -> None:
        with self.open("ada", new=True) as repo:
            repo.add_remote(FAR, str(self.folder / FAR))
            self.take("ada", repo.commit(weights(0), step=0).id, repo)
            repo.push(FAR)
        Repository.clone(str(self.folder / FAR), self.folder / "bob").close()
        with self.open("bob") as repo:
            repo.rename_remote("origin", FAR)

    def open(self, name: str, *, new: bool = False) -> Repository:
        opened = Repository.init if new else Repository.open
        return opened(self.folder / name)

    def store(self, name: str) -> Path:
        return self.folder / name / ("" if name == FAR else ".mvcs")

    # What is done, in a process of its own.

    def done(self, name: str, work: Callable[[Repository], object], before: int | None = None) -> bool:
        """Do something in a clone; kill it before one of its changes. Tell whether it came to its end."""
        child = os.fork()
        if not child:
            self._child(name, work, before, signal.SIGKILL)
        return self._ended(child)

    def _child(self, name: str, work: Callable[[Repository], object], before: int | None, how: int) -> None:
        def struck() -> BaseException:
            os.kill(os.getpid(), how)
            disk.allowed = None  # it was asleep, and goes on
            return AwakeError()

        code = 1
        with suppress(BaseException), Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 2)
            disk = Disk(self.folder, before, struck)
            disk.change = _asleep_or_dead(disk)  # type: ignore[method-assign]
            with disk, self.open(name) as repo:
                work(repo)
                code = 0
        os._exit(code)

    @staticmethod
    def _ended(child: int) -> bool:
        _, status = os.waitpid(child, 0)
        return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0

    def take(self, name: str, commit: str, repo: Repository) -> None:
        self.values[commit] = repo.checkout(commit, numpy=True)["weight"].tobytes()
        self.acknowledged[name, repo.branch or "main"] = commit

    @rule(name=clones, branch=branches, bounded=st.booleans(), before=st.none() | st.integers(0, 24))
    def commit(self, name: str, branch: str, bounded: bool, before: int | None) -> None:
        self.number += 1
        number = self.number

        def work(repo: Repository) -> None:
            made = repo.commit(
                weights(number), step=number, branch=branch, step_size=0.5 if bounded else None
            )
            value = repo.checkout(made.id, numpy=True)["weight"].tobytes()
            (self.folder / f"made-{name}").write_bytes(made.id.encode() + value)

        if self.done(name, work, before):
            told = (self.folder / f"made-{name}").read_bytes()
            self.values[told[:64].decode()] = told[64:]
            self.acknowledged[name, branch] = told[:64].decode()

    @rule(name=clones, before=st.none() | st.integers(0, 24))
    def push(self, name: str, before: int | None) -> None:
        if self.done(name, lambda repo: repo.push(FAR, all_branches=True), before):
            for branch in BRANCHES:
                if (name, branch) in self.acknowledged:
                    self.acknowledged[FAR, branch] = self.acknowledged[name, branch]

    @rule(name=clones, before=st.none() | st.integers(0, 24))
    def fetch(self, name: str, before: int | None) -> None:
        self.done(name, lambda repo: repo.fetch(FAR), before)

    @rule(name=clones, branch=branches)
    def go_on_from_the_other(self, name: str, branch: str) -> None:
        """Take the branch of the shared store for one's own, as who gives up what is here."""

        def work(repo: Repository) -> None:
            repo.fetch(FAR)
            repo.resolve(f"{FAR}/{branch}")
            with suppress(MvcsError):
                repo.switch("other", create_from=f"{FAR}/{branch}")
            with suppress(MvcsError):
                repo.delete_branch(branch, force=True)
            repo.create_branch(branch, f"{FAR}/{branch}")

        self.acknowledged.pop((name, branch), None)
        self.done(name, work)

    @rule(name=clones, depth=depths, archive=st.booleans(), before=st.none() | st.integers(0, 40))
    def compact(self, name: str, depth: int, archive: bool, before: int | None) -> None:
        self.done(name, lambda repo: repo.compact(max_depth=depth, for_archive=archive), before)

    @rule(name=clones, remote=st.booleans(), last=st.integers(1, 4), before=st.none() | st.integers(0, 40))
    def let_go(self, name: str, remote: bool, last: int, before: int | None) -> None:
        where = FAR if remote else None

        def work(repo: Repository) -> None:
            repo.set_retention(last=last, remote=where, force=True)
            repo.apply_retention(remote=where, force=True)

        self.done(name, work, before)

    @rule(
        name=clones, remote=st.booleans(), wait=st.sampled_from([0, 1]), before=st.none() | st.integers(0, 16)
    )
    def collect(self, name: str, remote: bool, wait: int, before: int | None) -> None:
        where = FAR if remote else None
        if wait == 0 and self.asleep:
            return  # who waits for nobody says that nobody is at work
        self.done(name, lambda repo: repo.gc(remote=where, execute=True, wait_days=wait), before)

    @rule(name=clones, give_up=st.booleans(), before=st.none() | st.integers(0, 24))
    def repair(self, name: str, give_up: bool, before: int | None) -> None:
        self.done(name, lambda repo: repo.repair(give_up=give_up), before)

    @rule(days=st.sampled_from([2, 20]))
    def time_passes(self, days: int) -> None:
        self.wake()
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                old = path.stat().st_mtime - days * DAY
                os.utime(path, (old, old))

    @rule(name=clones, branch=branches, before=st.integers(0, 24), push=st.booleans())
    def fall_asleep(self, name: str, branch: str, before: int, push: bool) -> None:
        """A commit or a push stops in the middle, and goes on when something else was done."""
        if name in self.asleep:
            return
        number = self.number = self.number + 1

        def work(repo: Repository) -> None:
            if push:
                repo.push(FAR, all_branches=True)
            else:
                repo.commit(weights(number), step=number, branch=branch, step_size=0.5)

        child = os.fork()
        if not child:
            self._child(name, work, before, signal.SIGSTOP)
        _, status = os.waitpid(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            self.asleep[name] = child

    @precondition(lambda self: self.asleep)
    @rule()
    def wake(self) -> None:
        for name, child in list(self.asleep.items()):
            os.kill(child, signal.SIGCONT)
            self._ended(child)
            del self.asleep[name]

    # What must hold.

    @rule(name=st.sampled_from([*CLONES, FAR]))
    def check(self, name: str) -> None:
        """Every commit restores as it was made, or its data were dropped there by a rule and on record."""
        with self.open(name) as repo:
            report = repo.fsck()
            assert report.problems == [], report.problems
            for branch in repo.branches():
                for place, info in enumerate(repo.log(branch.name)):
                    drop = repo._session.store.manifests.placement(ObjectId(bytes.fromhex(info.id))).dropped
                    assert place or drop is None, f"the tip of {branch.name} has no data"
                    assert drop is None or "give-up" not in drop.why, f"{info.id} was there, and given up"
                    if drop is None and info.id in self.values:
                        value = repo.checkout(info.id, numpy=True)["weight"].tobytes()
                        assert value == self.values[info.id]
            for (where, branch), commit in self.acknowledged.items():
                if where == name and not self.asleep:
                    assert commit in self.reached(repo), f"{branch} of {name} lost {commit}"

    @staticmethod
    def reached(repo: Repository) -> set[str]:
        return {info.id for info in repo.log(all_branches=True)}

    def teardown(self) -> None:
        self.wake()
        for name in (*CLONES, FAR):
            if not self.store(name).exists():
                continue
            self.check(name)
            for _ in range(3):
                self.time_passes(400)
                with suppress(ConflictError), self.open(name) as repo:
                    repo.gc(execute=True)
            self.check(name)
            self.refuse_unreferenced(name)
        shutil.rmtree(self.folder)

    def refuse_unreferenced(self, name: str) -> None:
        """No byte is left that neither a commit of the history nor its past needs."""
        with self.open(name) as repo:
            backend, notes = repo._session.place.backend, repo.fsck().notes
            manifests = Manifests(backend)
            needed = set[str]()
            for commit, numbers in manifests.listed().items():
                needed.add(commit.hex())
                needed.update(manifests.numbered(commit, numbers[0]).packs)
                needed.update(manifests.first(commit).written.exact_packs)
            left = {path for path in backend.list("") if named(path) and named(path) not in needed}
        assert left == set(), (left, notes)


class AwakeError(Exception):
    """Nobody sees it."""


def _asleep_or_dead(disk: Disk) -> Callable[[str], None]:
    """Stop or kill the process before the change that is not allowed; what was stopped goes on with it."""
    real = Disk.change

    def change(path: str) -> None:
        with suppress(AwakeError):
            real(disk, path)

    return change


Stores.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestStores = pytest.mark.timeout(600)(Stores.TestCase)


def soak(steps: int) -> None:
    """Take so many steps; `python -c 'from tests.remotes.test_stores_model import soak; soak(20_000)'`."""
    started = time.monotonic()
    Stores.TestCase.settings = settings(
        max_examples=steps // 50,
        stateful_step_count=50,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    Stores.TestCase("runTest").runTest()
    print(f"{steps} steps in {time.monotonic() - started:.0f} s")  # noqa: T201 - run by hand
