"""The set-up of every make target: quiet while it works, complete where it fails. And the linters."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def quietly(command: str) -> subprocess.CompletedProcess[str]:
    arguments = [str(ROOT / ".ci" / "quietly"), "setting up", "sh", "-c", command]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def test_hundreds_of_lines_become_a_beginning_and_an_end() -> None:
    done = quietly("seq 200; echo warning >&2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "== setting up"
    assert done.stdout.splitlines()[1].startswith("== setting up: done in ")
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("last", ["echo 'no compiler' >&2", "printf 'no compiler'"])
def test_a_failure_shows_everything_and_keeps_its_status(last: str) -> None:
    done = quietly(f"seq 200; {last}; exit 3")
    assert done.returncode == 3
    shown = done.stdout.splitlines()
    assert shown[1:201] == [str(number) for number in range(1, 201)]
    assert shown[201] == "no compiler"
    assert "failed" in shown[202]


def test_a_commit_is_checked_by_what_make_lint_runs() -> None:
    makefile, hooks = (ROOT / "Makefile").read_text(), (ROOT / ".pre-commit-config.yaml").read_text()
    recipe = makefile.partition("\nlint: ")[2].partition("\n\n")[0]
    linted = [
        line.removesuffix(" .") for line in re.findall(r"^\t\$\(VENV\)/bin/(.+)$", recipe, re.MULTILINE)
    ]
    entries = re.findall(r"entry: \.venv/bin/(.+)$", hooks, re.MULTILINE)
    assert [entry.removesuffix(" --force-exclude") for entry in entries] == linted
    assert len(linted) == 4


def test_linters_are_pinned_to_one_version() -> None:
    pinned = re.findall(r"^([a-z-]+)==[0-9.]+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert {"import-linter", "mypy", "ruff"} <= set(pinned)


def test_the_first_python_that_runs_is_taken(tmp_path: Path) -> None:
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\necho 'no such version' >&2\nexit 127\n")
    shim.chmod(0o755)
    asked = [str(ROOT / ".ci" / "first-python"), str(shim), "python-of-nobody"]
    found = subprocess.run([*asked, sys.executable], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == (f"{sys.executable}\n", "")
    none = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (none.returncode, none.stdout) == (1, "")
    assert "none of these is a Python of 3.11 or newer" in none.stderr


@pytest.mark.parametrize("lane", ["minimum", "newest"])
def test_lanes_name_the_python_that_they_take(lane: str) -> None:
    words = [
        "make",
        "--dry-run",
        f"test-{lane}",
        f"{lane.upper()}_VENV=none",
        f"{lane.upper()}_PYTHON=this-python",
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "this-python -m venv none" in done.stdout


def test_what_other_machines_need_is_named_where_it_cannot_be_installed(tmp_path: Path) -> None:
    for tool in ("bash", "env", "id"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    for tool in ("apt-get", "sudo"):
        (tmp_path / tool).write_text("#!/bin/sh\nexit 100\n")
        (tmp_path / tool).chmod(0o755)
    words = [str(ROOT / ".ci" / "elsewhere"), str(tmp_path / "trees")]
    done = subprocess.run(words, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search("could not be installed: qemu-user-static g.*mmdebstrap.*Install them", done.stderr)
    assert not (tmp_path / "trees").exists()


def test_what_is_installed_without_torch_is_all_but_torch() -> None:
    words = [sys.executable, str(ROOT / "tests" / "minimum.py")]
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    others = subprocess.run([*words, "--any"], capture_output=True, text=True, check=True).stdout.split()
    assert set(asked) - set(others) == {"torch>=2.4"}
    lowest = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert lowest == [other.replace(">=", "==") for other in others]
