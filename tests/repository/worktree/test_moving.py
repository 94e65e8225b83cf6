"""Moving between commits of files: what is stored is never in the way, and what is there already stays."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from mvcs import Repository
from mvcs.errors import ConflictError
from tests.repository.states import write_model
from tests.store.faults import Disk, Stopped

CONFIG = '{"layers": 2}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Weights and a configuration in one folder, committed four times, boundedly; notes the last time."""
    Repository.init(tmp_path / "work").close()
    model = tmp_path / "work" / "model"
    model.mkdir()
    (model / "config.json").write_text(CONFIG)
    with Repository.open(tmp_path / "work") as repo:
        for number in range(4):
            write_model(model / "model.safetensors", number)
            if number == 3:
                (model / "notes.txt").write_text("as told")
            repo.commit_files([model], message=str(number), bins=16)
    return model


def stamps(folder: Path, *names: str) -> list[tuple[int, int]]:
    return [((folder / name).stat().st_ino, (folder / name).stat().st_mtime_ns) for name in names]


def test_in_a_clone_one_can_move_between_commits_of_a_folder(folder: Path, tmp_path: Path) -> None:
    Repository.clone(str(folder.parent), tmp_path / "clone").close()
    model = tmp_path / "clone" / "model"
    before = stamps(model, "config.json")
    with Repository.open(tmp_path / "clone") as repo:
        values = {rev: repo.checkout(rev, numpy=True) for rev in ("main", "main~3")}
        for rev in ("main~3", "main", "main~1", "main~3", "main"):
            report = repo.checkout_files(rev)
            assert "model/config.json" in report.unchanged
            assert "model/config.json" not in report.written
            expected = values[rev]["model/model.safetensors"] if rev in values else {}
            found = load_file(model / "model.safetensors")
            assert all(np.array_equal(found[name], tensor) for name, tensor in expected.items())
            assert (model / "notes.txt").exists() == (rev == "main")
        repo.switch("old", create_from="main~2")
    assert stamps(model, "config.json") == before


@pytest.mark.parametrize("index", ["kept", "lost"])
def test_once_exact_layers_are_gone_one_can_move_on(folder: Path, index: str) -> None:
    with Repository.open(folder.parent) as repo:
        repo.checkout_files("main~3")
        assert repo.resolve("HEAD").exact_layer == "dropped"
        if index == "lost":
            (folder.parent / ".mvcs" / "index").unlink()
        repo.checkout_files("main~2")
        assert [entry.state for entry in repo.status().entries] == ["unmodified"] * 2


def test_values_that_restore_bit_for_bit_are_stored_without_an_exact_layer(tmp_path: Path) -> None:
    """A tensor of zeros is a constant in the value layer; nothing is lost with its exact layer."""
    path = tmp_path / "zeros.safetensors"
    with Repository.init(tmp_path) as repo:
        for number in range(4):
            save_file({"w": np.zeros((8, 8), np.float32)}, path, metadata={"number": str(number)})
            repo.commit_files([path], message=str(number), bins=16)
        (tmp_path / ".mvcs" / "index").unlink()
        repo.checkout_files("main~3")
        save_file({"w": np.zeros((8, 8), np.float32)}, path, metadata={"number": "0"})
        repo.checkout_files("main")


@pytest.mark.parametrize("index", ["kept", "lost"])
def test_a_file_that_is_as_the_target_restores_it_is_not_touched(tmp_path: Path, index: str) -> None:
    """Also where it would be written with other bytes: a torch file of another writer."""
    with Repository.init(tmp_path) as repo:
        torch.save({"w": torch.arange(4.0)}, tmp_path / "same.pt", _use_new_zipfile_serialization=False)
        np.savez_compressed(tmp_path / "same.npz", a=np.arange(5))
        write_model(tmp_path / "model.safetensors", 0)
        names = ["same.pt", "same.npz"]
        paths = [tmp_path / name for name in (*names, "model.safetensors")]
        repo.commit_files(paths, message="0")
        write_model(tmp_path / "model.safetensors", 1)
        repo.commit_files(paths, message="1")
        before = stamps(tmp_path, *names)
        for force in (False, True):
            if index == "lost":
                (tmp_path / ".mvcs" / "index").unlink()
            for rev in ("main~1", "main"):
                report = repo.checkout_files(rev, force=force)
                assert (report.written, sorted(report.unchanged)) == (["model.safetensors"], sorted(names))
        assert repo.checkout_files("main").written == []
    assert stamps(tmp_path, *names) == before


def test_by_force_a_file_is_read_before_it_is_left_alone(folder: Path) -> None:
    """Size and time are as recorded, and a bit is another: what `--force` leaves is what was committed."""
    path = folder / "config.json"
    with Repository.open(folder.parent) as repo:
        repo.checkout_files("main", force=True)
        status = path.stat()
        path.write_text(CONFIG.replace("2", "3"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        report = repo.checkout_files("main", force=True)
    assert "model/config.json" in report.written
    assert path.read_text() == CONFIG


def test_what_is_not_stored_is_still_in_the_way(folder: Path) -> None:
    (folder / "config.json").write_text(CONFIG + "\n")
    with Repository.open(folder.parent) as repo:
        with pytest.raises(ConflictError, match="not committed"):
            repo.checkout_files("main~1")
        shutil.rmtree(folder)
        repo.checkout_files("main~3")
        (folder / "notes.txt").write_text("of my own")
        with pytest.raises(ConflictError, match=r"notes\.txt"):
            repo.checkout_files("main")
        (folder / "notes.txt").write_text("as told")
        assert "model/notes.txt" in repo.checkout_files("main").unchanged


def test_a_part_that_is_not_lossy_carries_no_mark_of_it(folder: Path) -> None:
    with Repository.open(folder.parent) as repo:
        repo.checkout_files("main~3")
        (folder / "model.safetensors").unlink()
        assert repo.commit_files([folder], message="the configuration alone").restored_from is None


def test_the_exact_file_of_an_earlier_step_is_not_in_the_way(tmp_path: Path) -> None:
    """It left the commit and lies in the folder; the exact layer of the commit one goes to has it."""
    with Repository.init(tmp_path) as repo:
        for step in (1, 2):
            write_model(tmp_path / f"step_{step}.safetensors", step)
            repo.commit_files([tmp_path / f"step_{step}.safetensors"], message=str(step), bins=16)
        exact = (tmp_path / "step_1.safetensors").read_bytes()
        assert repo.checkout_files("main~1").written == ["step_1.safetensors"]
        repo.checkout_files("main~1", exact=True)
        assert (tmp_path / "step_1.safetensors").read_bytes() == exact


@pytest.fixture
def turned(tmp_path: Path) -> Any:
    """A file that is a folder in the next commit; HEAD is on the second."""
    with Repository.init(tmp_path / "turned") as repo:
        top = repo.top
        (top / "run").mkdir()
        (top / "run/a").write_text("a file")
        repo.commit_files([top / "run"], message="file")
        (top / "run/a").unlink()
        (top / "run/a/deep").mkdir(parents=True)
        for name in ("run/a/y.txt", "run/a/deep/z.txt"):
            (top / name).write_text(name)
        repo.commit_files([top / "run"], message="folder")
        yield repo


def files_of(repo: Repository) -> dict[str, str]:
    # What a process that was stopped left aside stays while it runs, and this one does.
    found = [path for path in repo.top.rglob("[!.]*") if path.is_file() and ".mvcs" not in path.parts]
    return {path.relative_to(repo.top).as_posix(): path.read_text() for path in found}


FILE, FOLDER = {"run/a": "a file"}, {name: name for name in ("run/a/y.txt", "run/a/deep/z.txt")}


def test_a_file_becomes_a_folder_and_a_folder_a_file(turned: Repository) -> None:
    tip = turned.head().id
    turned.checkout_files("HEAD~1")
    assert files_of(turned) == FILE
    turned.switch("main")
    assert files_of(turned) == FOLDER
    for force in (False, True):
        turned.reset("HEAD~1", hard=True, force=force)
        assert (files_of(turned), turned.status().problems) == (FILE, [])
        turned.reset(tip, hard=True, force=force)
        assert (files_of(turned), turned.status().problems) == (FOLDER, [])
        assert {entry.state for entry in turned.status().entries} == {"unmodified"}


def test_what_is_stored_nowhere_does_not_make_way(turned: Repository) -> None:
    tip, mine = turned.head().id, turned.top / "run/a/mine.txt"
    mine.write_text("mine")
    for force in (False, True):
        with pytest.raises(ConflictError, match="'run/a' is a folder with 'run/a/mine"):
            turned.reset("HEAD~1", hard=True, force=force)
    assert (turned.head().id, files_of(turned)) == (tip, {**FOLDER, "run/a/mine.txt": "mine"})
    mine.unlink()
    turned.checkout_files("HEAD~1")
    (turned.top / "run/a").write_text("changed")
    with pytest.raises(ConflictError, match="'run/a' has changes that are not committed"):
        turned.switch("main")
    with pytest.raises(ConflictError, match="'run/a' is a file"):
        turned.restore_files([turned.top / "run/a/y.txt"], rev="main")
    assert files_of(turned) == {"run/a": "changed"}
    turned.switch("main", force=True)
    assert files_of(turned) == FOLDER


@pytest.mark.parametrize("rev", ["HEAD~1", "main"])
def test_stopped_on_the_way_between_file_and_folder_one_can_go_on(
    turned: Repository, rev: str, tmp_path: Path
) -> None:
    if rev == "main":
        turned.checkout_files("HEAD~1")
    turned.close()
    stopped, allowed = True, 0
    while stopped:
        folder = tmp_path / str(allowed)
        shutil.copytree(turned.top, folder, symlinks=True)
        with Disk(folder, allowed) as disk, Repository.open(folder) as repo, suppress(Stopped):
            repo.checkout_files(rev)
        stopped, allowed = disk.refused > 0, allowed + 1
        with Repository.open(folder) as repo:
            repo.checkout_files(rev if repo.branch or rev == "main" else "HEAD")
            assert files_of(repo) == (FOLDER if rev == "main" else FILE)
            assert {entry.state for entry in repo.status().entries} == {"unmodified"}
