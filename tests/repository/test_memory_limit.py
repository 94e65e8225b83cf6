"""README promises that memory is bounded: a process that commits keeps to its budget."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "limited.py"
MIB = 1 << 20
# The C library keeps what was freed; told not to, it shows what is in use.
AT_ONCE = {"MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="only Linux tells of peaks"
)


def run(folder: Path, budget: int | str, *, room: int = 0, count: int, side: int, threads: int = 1) -> Any:
    arguments = [str(folder), str(budget), *map(str, (room, count, side, threads))]
    result = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env={**os.environ, **AT_ONCE},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


def test_a_process_that_can_have_no_more_than_its_budget_commits_and_restores(tmp_path):
    told = run(tmp_path, 12 * MIB, room=12 * MIB, count=32, side=256)
    assert told["state"] == 24 * MIB
    assert max(told["above"]) <= 12 * MIB
    assert told["same"]


@pytest.mark.slow
def test_groups_that_are_stored_side_by_side_stay_within_the_budget(tmp_path):
    assert max(run(tmp_path, 64 * MIB, count=12, side=1024, threads=4)["above"]) <= 64 * MIB


@pytest.mark.slow
def test_without_a_limit_the_same_process_takes_several_times_as_much(tmp_path):
    assert max(run(tmp_path, "auto", count=32, side=256)["above"]) > 24 * MIB
