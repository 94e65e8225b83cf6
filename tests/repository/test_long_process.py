"""A process that commits for weeks: what it holds does not grow with the number of commits."""

import gc
import types
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.history.commit_graph import Graph

NOT_HELD = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType, types.MethodType)


def held(root: object) -> int:
    """Count all objects that an object keeps alive and the garbage collector knows."""
    gc.collect()
    seen, waiting = {id(root)}, [root]
    while waiting:
        for found in gc.get_referents(waiting.pop()):
            if id(found) not in seen and gc.is_tracked(found) and not isinstance(found, NOT_HELD):
                seen.add(id(found))
                waiting.append(found)
    return len(seen)


@pytest.mark.parametrize("commits", [80, pytest.param(200, marks=pytest.mark.slow)])
def test_the_second_half_of_commits_holds_no_more_than_the_first(tmp_path: Path, commits: int) -> None:
    weight, rng = np.zeros((16, 16), np.float32), np.random.default_rng(0)
    counts = []
    with Repository.init(tmp_path, store=f"memory://{tmp_path.name}") as repo:
        repo.config_set("compaction.max_depth", "3")
    with Repository.open(tmp_path) as repo:
        session = repo._session
        session.graph = Graph(session.store, held=32)
        for number in range(commits):
            weight += rng.standard_normal(weight.shape).astype(np.float32)
            repo.commit({"w": weight}, step=number, **({"step_size": 0.5} if number % 2 else {}))
            session.warn(f"warning {number}")
            if (number + 1) % (commits // 10) == 0:
                counts.append(held(session))
        half = len(counts) // 2
        assert max(counts[half:]) <= max(counts[half // 2 : half]) + 20
        assert len(session.graph._known) == 32
        assert len(session.warnings) == min(commits, 100)
        assert [info.step for info in repo.log()] == list(range(commits))[::-1]
        assert len(session.graph._known) == 32
