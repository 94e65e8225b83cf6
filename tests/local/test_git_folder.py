"""Inside a folder that git has, init and clone offer the line that keeps the store out of git."""

import shutil
import subprocess

import pytest

from mvcs.repository import Repository
from tests.cli.conftest import Console


@pytest.fixture
def project(tmp_path):
    """A folder of git, with a folder in it."""
    folder = tmp_path / "a project"
    (folder / "runs").mkdir(parents=True)
    git = shutil.which("git")
    if git is None:
        (folder / ".git").mkdir()
    else:
        subprocess.run([git, "init", "-q", str(folder)], check=True)
    return folder


def test_init_offers_the_line_and_once_it_stands_there_nobody_speaks_of_it(project, tmp_path):
    result = Console(project / "runs")("init", "gpt")
    (line,) = result.err.splitlines()
    assert line.startswith("note: git has this folder too")
    command = line.partition("keep it out: ")[2]
    assert command == f"echo .mvcs/ >> '{project}/.gitignore'"
    assert not (project / ".gitignore").exists()
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - as a user copies it
    if shutil.which("git"):
        seen = subprocess.run(["git", "status", "--porcelain"], cwd=project, capture_output=True, check=True)
        assert seen.stdout == b"?? .gitignore\n"
    assert Console(project / "runs")("init", "other").err == ""
    assert Console(tmp_path)("init", "elsewhere").err == ""


@pytest.mark.parametrize(("name", "line"), [(".git/info/exclude", "/.mvcs"), ("runs/.gitignore", ".mvcs")])
def test_any_list_of_git_will_do(project, name, line):
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(f"# ours\n{line}\n")
    with Repository.init(project / "runs") as repo:
        assert repo.warnings == []


def test_a_clone_and_a_script_hear_of_it_too(project, tmp_path):
    with Repository.init(tmp_path / "source") as source:
        source.commit({"a": 1})
    with Repository.clone(str(tmp_path / "source" / ".mvcs"), project / "copy") as copy:
        assert [note for note in copy.warnings if "keep it out" in note]
    with Repository.open(project / "copy") as repo:
        assert repo.warnings == []
