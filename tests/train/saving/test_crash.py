"""Killed anywhere, a run resumes and ends with the bits of one that nobody disturbed."""

import json
import random
import signal
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.loaded import Program
from tests.train.runs import Run, undisturbed

CHILD = Path(__file__).parents[1] / "child.py"


class Child:
    """The run in its process."""

    def __init__(self, forked: ForkServerContext, folder: Path, steps: int, every: int) -> None:
        self.result = folder / "weights.json"
        arguments = [str(folder), str(steps), str(every), str(self.result)]
        self.process = Program(forked, CHILD, *arguments)
        self.start = int(self.read().split()[1])

    def read(self) -> str:
        return self.process.stdout.readline()

    def allow(self, steps: int) -> None:
        self.process.stdin.write("\n" * steps)
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate()
        return self.process.returncode, errors


@pytest.mark.parametrize(("kills", "steps"), [(2, 21), pytest.param(4, 40, marks=pytest.mark.slow)])
def test_kill_at_any_moment_then_the_same_weights(
    forked: ForkServerContext, tmp_path: Path, kills: int, steps: int
) -> None:
    every = 3
    Repository.init(tmp_path).close()
    moments = random.Random(11)
    starts = []
    for _ in range(kills):
        child = Child(forked, tmp_path, steps, every)
        starts.append(child.start)
        allowed = moments.randint(4, 8)
        child.allow(allowed)
        for _ in range(moments.randint(1, allowed)):
            child.read()
        # The commit of the step before goes on beside us: how far it is is anybody's guess.
        child.process.kill()
        assert child.end()[0] == -signal.SIGKILL
    last = Child(forked, tmp_path, steps, every)
    last.allow(steps)
    code, errors = last.end()
    assert code == 0, errors
    assert starts == sorted(starts)
    assert all(start % every == 0 for start in starts)
    assert json.loads(last.result.read_text()) == undisturbed(steps).weights()
    with Repository.open(tmp_path) as repo:
        assert repo.fsck().problems == []
        assert {commit.lineage_exact for commit in repo.log()} == {True}


def test_sigterm_commits_the_step_it_arrived_in(forked: ForkServerContext, tmp_path: Path) -> None:
    Repository.init(tmp_path).close()
    child = Child(forked, tmp_path, 20, 10)
    child.allow(3)
    assert [child.read() for _ in range(3)][-1] == "done 2\n"
    child.process.terminate()
    child.allow(1)
    code, errors = child.end()
    assert code == 128 + signal.SIGTERM, errors
    run = Run()
    with Repository.open(tmp_path) as repo, Checkpointer(repo, *run.parts, **run.options) as checkpointer:
        assert checkpointer.resume() == 4
        assert run.weights() == undisturbed(4).weights()
