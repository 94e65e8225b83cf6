"""What lies in the place of a local file is never waited for, nor read without end."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mvcs import Repository
from mvcs.errors import MvcsError, StorageError
from mvcs.local import (
    Trust,
    exported_files,
    head,
    seen_refs,
    store_description,
    store_watch,
)
from mvcs.local_files import read_file
from mvcs.repository import lineage_record
from mvcs.repository.sharing import upstreams
from mvcs.repository.worktree import whereabouts
from mvcs.train import Checkpointer
from mvcs.train.saving import run_writer
from tests.repository.states import modified_model


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


ODD = [os.mkfifo, endless, os.mkdir]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return modified_model(tmp_path / "work")


def put(path: Path, odd: Callable[[Path], None]) -> Path:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    odd(path)
    return path


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["config.toml", "HEAD", "failures.log"])
def test_what_is_obeyed_is_refused_by_name(work: Path, name: str, odd: Callable[[Path], None]) -> None:
    path = put(work / ".mvcs" / name, odd)
    with pytest.raises(MvcsError, match=f"'{path}'") as caught, Repository.open(work) as repo:
        repo.status()
    assert "move it away" in caught.value.hint


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["lineage.sqlite", "lineage.sqlite-journal"])
def test_what_is_a_cache_is_done_without(work: Path, name: str, odd: Callable[[Path], None]) -> None:
    put(work / ".mvcs" / name, odd)
    with Repository.open(work) as repo:
        made = repo.commit_files([repo.top / "model.safetensors"], message="two")
        assert repo.resolve(made.id[:12]).id == made.id


SUBJECTS = [
    store_watch.DAMAGED,
    store_description.SUBJECT,
    exported_files.SUBJECT,
    head.HEAD_LOG,
    lineage_record.SUBJECT,
    run_writer.SUBJECT,
    seen_refs.SEEN_REFS,
    whereabouts.SUBJECT,
    upstreams.SUBJECT,
    store_watch.SUBJECT,
]


@pytest.mark.parametrize("odd", ODD)
def test_what_a_clone_remembers_is_done_without(
    work: Path, tmp_path: Path, odd: Callable[[Path], None]
) -> None:
    with Repository.open(work) as repo:
        repo.add_remote("origin", str(tmp_path / "far"))
        repo.push(set_upstream=True)
        repo.export("HEAD", tmp_path / "out.safetensors")
        written = {path.stem for path in (work / ".mvcs/local").glob("*.json")}
    assert (
        {
            lineage_record.SUBJECT,
            seen_refs.SEEN_REFS,
            exported_files.SUBJECT,
            store_watch.SUBJECT,
            upstreams.SUBJECT,
        }
        <= written
        <= set(SUBJECTS)
    )
    for subject in SUBJECTS:
        put(work / f".mvcs/local/{subject}.json", odd)
    with Repository.open(work) as repo:
        made = repo.commit_files([repo.top / "model.safetensors"], message="two")
        assert made.lineage_exact is True  # nothing is bounded
        assert repo.push().packs_sent == 1
        repo.pull()
        model = torch.nn.Linear(2, 2)
        with Checkpointer(repo, model, torch.optim.SGD(model.parameters()), branch="run", every=1) as saving:
            saving.after_step(0)
        assert {problem.subject for problem in repo.fsck().problems} <= {"reflog"}
        assert repo.status().entries[0].state == "unmodified"
    with Repository.open(tmp_path / "far") as far:
        assert far.resolve("main").id == made.id


@pytest.mark.parametrize("odd", [os.mkfifo, endless])
def test_an_odd_index_of_files_counts_as_none(work: Path, odd: Callable[[Path], None]) -> None:
    put(work / ".mvcs/index", odd)
    with Repository.open(work) as repo:
        assert [file.state for file in repo.status().entries] == ["modified"]
        repo.commit_files([], message="two")
        assert [file.state for file in repo.status().entries] == ["unmodified"]


@pytest.mark.parametrize("odd", ODD)
def test_settings_of_a_user_or_of_a_remote_folder(
    work: Path, tmp_path: Path, odd: Callable[[Path], None]
) -> None:
    settings = put(tmp_path / "settings/mvcs/config.toml", odd)
    with pytest.raises(StorageError, match=f"'{settings}'"):
        Trust.of_user(tmp_path / "settings").config.items()
    path = put(work / ".mvcs/config.toml", odd)
    with pytest.raises(StorageError, match=f"'{path}'"):
        Repository.clone(str(work), tmp_path / "copy")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"12345")
    assert read_file(tmp_path / "small", 5) == b"12345"
    assert read_file(tmp_path / "none", 5) is None
    with pytest.raises(StorageError, match="more than 4 bytes"):
        read_file(tmp_path / "small", 4)


@pytest.mark.parametrize("odd", [os.mkfifo, lambda path: path.write_text("x")])
def test_a_file_in_the_place_of_a_branch_hinders_no_other(
    work: Path, odd: Callable[[Path], None], tmp_path: Path
) -> None:
    with Repository.open(work) as repo:
        repo.create_branch("dev")
        repo.add_remote("origin", str(tmp_path / "far"))
        repo.push()
    shutil.rmtree(work / ".mvcs/refs/heads/dev")
    odd(work / ".mvcs/refs/heads/dev")
    with Repository.open(work) as repo:
        made = repo.commit_files([work / "model.safetensors"], message="two")
        assert repo.push().packs_sent == 1
        repo.pull()
        repo.create_branch("other")
        repo.delete_branch("other", force=True)
        assert [branch.name for branch in repo.branches()] == ["main"]
        assert next(iter(repo.log())).id == made.id
        assert not repo.fsck().ok
        with pytest.raises(MvcsError):
            repo.gc()
