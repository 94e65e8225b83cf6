"""Real processes on real disks: killed at random, racing for a branch, out of space, without permission."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import ConflictError
from tests.store.committing import state
from tests.store.faults import Disk

SCRIPT = Path(__file__).with_name("committing.py")


def start(*arguments: object, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, str(SCRIPT), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def read(process: subprocess.Popen[str]) -> object:
    return json.loads(process.stdout.readline())


def order(process: subprocess.Popen[str]) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    Repository.init(tmp_path).close()
    with start("nursery", tmp_path) as process:
        yield process
        process.stdin.close()


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(nursery: subprocess.Popen[str], tmp_path: Path, kills: int) -> None:
    moments = random.Random(5)
    published: dict[int, str] = {}
    for _ in range(kills):
        order(nursery)
        child = read(nursery)
        for _ in range(moments.randint(0, 2)):
            number, commit = read(nursery)
            published[number] = commit
        # Somewhere inside the next commit, by the clock; nothing depends on where.
        with pytest.raises(subprocess.TimeoutExpired):
            nursery.wait(moments.uniform(0, 0.04))
        os.kill(child, signal.SIGKILL)
        while (line := read(nursery)) != "gone":
            published[line[0]] = line[1]
        check_published(tmp_path, published)
    with Repository.open(tmp_path) as repo:
        assert repo.commit(state(1000)).parents == [repo.log("HEAD~1", limit=1).__next__().id]


def check_published(folder: Path, published: dict[int, str]) -> None:
    with Repository.open(folder) as repo:
        report = repo.fsck()
        assert report.problems == []
        commits = {commit.step: commit for commit in repo.log()} if repo.head() else {}
        assert published.items() <= {step: commit.id for step, commit in commits.items()}.items()
        for commit in list(commits.values())[:2]:
            restored = repo.restore(commit.id, numpy=True)
            if restored.layer == "exact":
                assert np.array_equal(restored.state["weight"], state(commit.step)["weight"])
            assert restored.state["step"] == commit.step


@pytest.mark.parametrize(
    "settings", [{}, {"bins": 16}, pytest.param({"step_size": 0.5}, marks=pytest.mark.slow)], ids=str
)
def test_two_processes_race_for_one_branch(tmp_path: Path, settings: dict[str, float]) -> None:
    Repository.init(tmp_path).close()
    count = 8
    racers = [start("race", tmp_path, 100 * number, count, json.dumps(settings)) for number in range(2)]
    assert [read(racer) for racer in racers] == ["ready", "ready"]
    for racer in racers:
        order(racer)
    made = [json.loads(line) for racer in racers for line in racer.communicate()[0].splitlines()]
    assert len(made) == 2 * count
    with Repository.open(tmp_path) as repo:
        tips = {branch.name: branch.commit for branch in repo.branches()}
        on_main = {commit.id for commit in repo.log("main")}
        for number, commit, branch, lost in made:
            if lost:
                assert branch == f"main.conflict-{commit[:8]}"
                assert tips[branch] == commit
            else:
                assert commit in on_main
            found = repo.restore(commit, numpy=True)
            assert found.state["step"] == number
            if found.layer == "exact":
                assert np.array_equal(found.state["weight"], state(number, 20)["weight"])
        assert len(on_main) == sum(not lost for *_, lost in made)
        if settings:
            # A writer may have looked before the other one's commit, so more are kept than the rule keeps.
            assert repo.resolve("main").exact_layer == "kept"
            assert repo.resolve("main~1").exact_layer == "kept"
        report = repo.fsck()
        assert (report.problems, report.notes) == ([], [])


class Interloper(Disk):
    """Commits once, just before somebody else writes a pack."""

    def __init__(self, root: Path, repo: Repository) -> None:
        super().__init__(root)
        self.repo = repo
        self.done = False

    def change(self, path: str) -> None:
        if not self.done and "/packs/" in path:
            self.done = True
            self.repo.commit({"n": 2}, message="theirs")


def test_the_loser_of_a_race_is_told_where_its_state_is(tmp_path: Path) -> None:
    Repository.init(tmp_path).close()
    with Repository.open(tmp_path) as mine, Repository.open(tmp_path) as theirs:
        mine.commit({"n": 0})
        with Interloper(tmp_path, theirs), pytest.raises(ConflictError) as caught:
            mine.commit({"n": 1}, message="mine")
        assert caught.value.commit.message == "mine"
        assert caught.value.branch == f"main.conflict-{caught.value.commit.id[:8]}"
        assert caught.value.hint
        assert mine.checkout(caught.value.branch) == {"n": 1}
        assert mine.checkout("main") == {"n": 2}
        assert mine.fsck().problems == []


def unshare(*command: str) -> tuple[str, ...]:
    return ("unshare", "--map-root-user", "--mount", *command)


@pytest.fixture(scope="module")
def namespaces() -> None:
    try:
        allowed = subprocess.run(unshare("true"), capture_output=True, check=False).returncode == 0
    except OSError:
        allowed = False
    if not allowed:
        pytest.skip("user namespaces are not allowed here, so no small disk can be mounted")


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(
    "size", ["2600k", *(pytest.param(size, marks=pytest.mark.slow) for size in ("3m", "3500k"))]
)
def test_a_disk_that_is_really_full(tmp_path: Path, size: str) -> None:
    mount = f'mount -t tmpfs -o size={size} small "$0" && exec "$@"'
    with start("fill", tmp_path, 0, prefix=unshare("sh", "-c", mount, str(tmp_path))) as process:
        refused, same_tip, problems, restored, goes_on, whole = read(process)
    assert "no space left" in refused[0]
    assert refused[1]
    assert refused[2] == 7
    assert (same_tip, problems, restored, goes_on, whole) == (True, [], True, True, True)


def test_a_limit_on_the_size_of_a_file(tmp_path: Path) -> None:
    with start("fill", tmp_path, 200_000) as process:
        refused, same_tip, problems, restored, goes_on, whole = read(process)
    assert "too large" in refused[0]
    assert refused[2] == 7
    assert (same_tip, problems, restored, goes_on, whole) == (True, [], True, True, True)


@pytest.mark.usefixtures("namespaces")
def test_a_disk_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    with Repository.init(folder) as repo:
        commits = [repo.commit(state(number), step=number).id for number in range(3)]
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    with start("look", folder, prefix=unshare("sh", "-c", mount, str(folder))) as process:
        head, log, whole, step, files, refused = read(process)
    assert (head, log, whole, step, files) == (commits[-1], commits[::-1], True, 2, [])
    assert refused[0] == "StorageError"
    assert "read-only" in refused[1]
    assert refused[2]
    with Repository.open(folder) as repo:
        assert [commit.id for commit in repo.log()] == commits[::-1]
