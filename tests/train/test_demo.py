"""The demo keeps what it promises: it checks itself and fails when something does not hold."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "docs" / "demo" / "run.py"


@pytest.mark.slow
@pytest.mark.s3
def test_a_short_demo_ends_well(tmp_path: Path) -> None:
    environment = {**os.environ, "DEMO_STEPS": "30", "DEMO_DIR": str(tmp_path / "mine")}
    done = subprocess.run(
        [sys.executable, str(DEMO)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("[ok]") == 6
    assert "steps that were done twice have the same losses, bit for bit" in done.stdout
    assert " of 8 commits are exact" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.slow
def test_too_few_steps_are_refused(tmp_path: Path) -> None:
    environment = {**os.environ, "DEMO_STEPS": "3"}
    done = subprocess.run(
        [sys.executable, str(DEMO)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "15 or more" in done.stderr


@pytest.mark.slow
def test_control_c_ends_it_with_a_line(tmp_path: Path) -> None:
    environment = {**os.environ, "DEMO_DIR": str(tmp_path / "mine")}
    with subprocess.Popen(
        [sys.executable, str(DEMO)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line.startswith("$ python docs/demo/train.py"))
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert err == f"\nthe demo was interrupted; what it made lies in {tmp_path / 'mine'}\n"
    assert "Traceback" not in out
