"""The migrations are found in a source tree and in an installed package."""

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import sqlalchemy
from alembic import command

import mvcs.lineage
from mvcs.lineage.database import APPLICATION_ID, Mode, State, connect, look
from mvcs.lineage.engine import engine_on, transaction
from mvcs.lineage.migration import configuration, location

WRITE = """
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
    for name in ("__init__.py", "addresses.py", "errors.py", "machine.py", "memory.py", "objects", "lineage"):
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        (folder / "mvcs").mkdir(parents=True, exist_ok=True)
        copy(source / name, folder / "mvcs" / name)
    return folder


def older(path):
    """A file of the first schema, which the next write has to migrate."""
    with closing(connect(path, Mode.CREATE)) as raw, transaction(engine_on(raw)) as connection:
        config = configuration(location())
        config.attributes["connection"] = connection
        connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
        command.upgrade(config, "0001")
    assert look(path) is State.OLDER
    return path


def write(folder, path):
    # -S: an editable installation would otherwise put its own mvcs first.
    libraries = Path(sqlalchemy.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{libraries}"}
    words = [sys.executable, "-S", "-c", WRITE, str(path)]
    return subprocess.run(words, env=environment, cwd=folder, check=False, capture_output=True, text=True)


def test_an_installed_package_has_them_inside(tmp_path):
    folder = installed(tmp_path / "site 100% packages")
    inside = folder / "mvcs" / "lineage" / "migrations"
    shutil.copytree(location(), inside)
    assert write(folder, older(tmp_path / "lineage.sqlite")).stdout == f"True None\n{inside}\n"


def test_a_broken_installation_fails_no_call(tmp_path):
    folder = installed(tmp_path / "site-packages")
    done = write(folder, older(tmp_path / "lineage.sqlite"))
    assert done.stdout.startswith("False the lineage index")
    assert "are missing beside" in done.stdout


def test_a_new_file_needs_no_migrations(tmp_path):
    folder = installed(tmp_path / "site-packages")
    assert write(folder, tmp_path / "lineage.sqlite").stdout.startswith("True None\n")
