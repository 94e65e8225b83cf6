"""What a commit costs a training run is the difference to the same steps without it."""

import argparse

from mvcs.bench.runs.checkpoint_files import checkpoints
from mvcs.bench.runs.run_maker import make_run
from mvcs.progress import SILENT
from tests.bench.overhead import Pair, figures, measured, told
from tests.bench.runs import tiny_gpt


def test_the_same_steps_are_trained_with_and_without_commits(tmp_path):
    task = tiny_gpt(tmp_path / "data")
    make_run(task, tmp_path / "run", steps=6, every=2, seed=0, progress=SILENT)
    given = argparse.Namespace(steps=2, pairs=2, step_size=0.5, moments="light")
    pairs = measured(task, checkpoints(tmp_path / "run"), given)
    assert len(pairs) == 2
    assert all(pair.codec > 0 < pair.copied < pair.blocked for pair in pairs)
    assert all(pair.extra == pair.committing - pair.plain for pair in pairs)


def test_overhead_is_cost_over_cadence():
    pairs = [
        Pair(plain=8.0, committing=8.0 + extra, blocked=0.1, copied=0.1, codec=0.7) for extra in (0.7, 0.9)
    ]
    lines = told(figures(pairs, steps=8, every=50))
    assert "a commit                 0.800 s ± 0.100" in lines[1]
    assert lines[-1] == "every 50 steps: 1.800%; every 180 s: 0.500%"
