"""What interrupted work leaves is found and removed; what mvcs did not make is never touched."""

import os
import time

import pytest

from mvcs import Repository

YEAR = 365 * 24 * 3600


@pytest.fixture
def folder_of_a_user(tmp_path):
    """A folder with the user's own files, a year old, some of them where mvcs keeps its own."""
    folder = tmp_path / "data"
    for name in (
        "tmp/thesis.tex",
        "tmp/probe/run.log",
        "tmp/deep/er/0123456789abcdef",
        "notes.md",
        "packs/x",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        os.utime(path, (time.time() - YEAR,) * 2)
    return folder


def own_files(folder):
    return {path for path in folder.rglob("*") if path.is_file() and path.read_bytes() == b"mine"}


def test_a_commit_leaves_the_files_of_a_user_alone(tmp_path, folder_of_a_user):
    before = own_files(folder_of_a_user)
    with Repository.init(tmp_path / "work", store=str(folder_of_a_user)) as repo:
        for number in range(3):
            repo.commit({"n": number}, bins=None)
    assert len(before) == 5
    assert own_files(folder_of_a_user) == before


def test_init_says_what_else_lies_there(tmp_path, folder_of_a_user):
    with Repository.init(tmp_path / "work", store=str(folder_of_a_user)) as repo:
        [warning] = repo.warnings
    assert "holds 5 files and folders that mvcs did not make" in warning
    assert "'notes.md'" in warning
    assert "left alone" in warning
    with Repository.init(tmp_path / "again", store=str(folder_of_a_user)) as repo:
        repo.commit({"n": 1})
        assert repo.warnings == [warning]


def test_init_says_nothing_of_what_mvcs_made(tmp_path):
    with Repository.init(tmp_path / "one", store=str(tmp_path / "store")) as repo:
        repo.commit({"n": 1}, bins=None)
        assert repo.warnings == []
    with Repository.init(tmp_path / "two", store=str(tmp_path / "store")) as repo:
        assert repo.warnings == []
    (tmp_path / "one/.mvcs/HEAD").unlink()
    with Repository.init(tmp_path / "one") as repo:
        assert repo.warnings == []
