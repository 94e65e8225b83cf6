"""The migrations are found in a source tree and in an installed package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import sqlalchemy

import mvcs.lineage
from mvcs.lineage.migration import location

CREATE = """
import sys
from pathlib import Path
from mvcs.lineage import Lineage
from mvcs.lineage.migration import location
lineage = Lineage.open(Path(sys.argv[1]))
print(lineage.record([]), lineage.problem)
print(location())
"""


def test_wherever_the_tests_run_they_are_found():
    assert (location() / "env.py").is_file()


def installed(folder):
    """A copy of the package without what lies beside it in a source tree."""
    source = Path(mvcs.lineage.__file__).parents[1]
    for name in ("__init__.py", "addresses.py", "errors.py", "objects", "lineage"):
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        (folder / "mvcs").mkdir(parents=True, exist_ok=True)
        copy(source / name, folder / "mvcs" / name)
    return folder


def create(folder, path):
    # -S: an editable installation would otherwise put its own mvcs first.
    libraries = Path(sqlalchemy.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{libraries}"}
    command = [sys.executable, "-S", "-c", CREATE, str(path)]
    return subprocess.run(command, env=environment, cwd=folder, check=False, capture_output=True, text=True)


def test_an_installed_package_has_them_inside(tmp_path):
    folder = installed(tmp_path / "site 100% packages")
    inside = folder / "mvcs" / "lineage" / "migrations"
    shutil.copytree(location(), inside)
    assert create(folder, tmp_path / "lineage.sqlite").stdout == f"True None\n{inside}\n"


def test_a_broken_installation_fails_no_call(tmp_path):
    folder = installed(tmp_path / "site-packages")
    done = create(folder, tmp_path / "lineage.sqlite")
    assert done.stdout.startswith("False the lineage index")
    assert "are missing beside" in done.stdout
