"""Files and folders named on a command line: what is taken, under which path, and what is refused."""

import json
import os
import pathlib
import socket
import subprocess

import numpy as np
import pytest
import safetensors.torch
import torch

from mvcs.checkpoint.chosen_files import KnownFiles
from mvcs.checkpoint.files import capture_files, format_of, write_file
from mvcs.errors import FileFormatError, NotFoundError, StorageError, UsageError
from mvcs.objects.trees.leaves import FileFormat
from mvcs.repository.worktree.status import Uncommitted


def model_folder(folder):
    folder.mkdir(parents=True)
    safetensors.torch.save_file({"w": torch.ones(2, 2)}, folder / "model.safetensors")
    torch.save({"state": {}, "param_groups": []}, folder / "optimizer.pt")
    torch.save(torch.nn.Linear(1, 1), folder / "module.pt")
    np.savez(folder / "arrays.npz", a=np.ones(2))
    np.savez(folder / "names.npz", a=np.array(["x"]))
    (folder / "config.json").write_text(json.dumps({"hidden": 2}))
    (folder / "empty.txt").write_bytes(b"")
    (folder / ".gitattributes").write_text("*.bin\n")
    (folder / ".model.safetensors.tmp123").write_text("half written")
    (folder / "sub").mkdir()
    (folder / "sub" / "tokenizer.bin").write_bytes(bytes(range(256)) * 40)
    (folder / ".mvcs").mkdir()
    (folder / ".mvcs" / "mvcs.json").write_text("{}")
    return folder


def test_a_folder_keeps_every_file(tmp_path, hold_files):
    folder = model_folder(tmp_path / "run" / "model")
    held = hold_files(folder)
    formats = {entry.path: entry.format for entry in held.tree.files}
    assert formats == {
        "run/model/.gitattributes": FileFormat.OPAQUE,
        "run/model/arrays.npz": FileFormat.NPZ,
        "run/model/config.json": FileFormat.OPAQUE,
        "run/model/empty.txt": FileFormat.OPAQUE,
        "run/model/model.safetensors": FileFormat.SAFETENSORS,
        "run/model/module.pt": FileFormat.BINARY,
        "run/model/names.npz": FileFormat.OPAQUE,
        "run/model/optimizer.pt": FileFormat.TORCH,
        "run/model/sub/tokenizer.bin": FileFormat.OPAQUE,
    }
    assert [note.split(":")[0] for note in held.captured.notes] == [
        "'run/model/.mvcs' left out",
        "'run/model/module.pt' is kept as it is, and its tensors as such",
        "'run/model/names.npz' is kept as it is",
    ]
    held.write(tmp_path / "out")
    for name, kind in formats.items():
        if kind in (FileFormat.OPAQUE, FileFormat.SAFETENSORS):
            assert (tmp_path / "out" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_paths_are_relative_to_the_top_or_given(tmp_path, hold_files):
    folder = model_folder(tmp_path / "elsewhere")
    top = tmp_path / "top"
    top.mkdir()
    path = folder / "model.safetensors"
    with pytest.raises(UsageError, match="lies outside") as caught:
        capture_files([path], top)
    assert "--as NAME" in caught.value.hint
    held = hold_files(path, top=top, names={path: "a/b.safetensors"})
    assert [entry.path for entry in held.tree.files] == ["a/b.safetensors"]
    assert held.captured.leaves[0].path == ("a/b.safetensors", "w")
    held = hold_files(folder, top=top, names={folder: "renamed"})
    assert held.tree.files[0].path == "renamed/.gitattributes"
    assert hold_files(folder, top=folder).tree.files[0].path == ".gitattributes"


def test_the_same_file_twice_is_one_file(tmp_path, hold_files, monkeypatch):
    folder = model_folder(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    held = hold_files("model/model.safetensors", folder / "model.safetensors", top=pathlib.Path())
    assert [entry.path for entry in held.tree.files] == ["model/model.safetensors"]


@pytest.mark.parametrize("name", ["../x.npz", "/x.npz", "a//x.npz", ".mvcs/x.npz", "a\\x.npz", "", "C:x.npz"])
def test_unsafe_names_are_refused(tmp_path, name):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.ones(1))
    with pytest.raises(UsageError, match="cannot be the path of a file"):
        capture_files([path], tmp_path, {path: name})


def test_colliding_names_are_refused(tmp_path):
    for name in ("a.npz", "b.npz"):
        np.savez(tmp_path / name, a=np.ones(1))
    one, two = tmp_path / "a.npz", tmp_path / "b.npz"
    with pytest.raises(UsageError, match="would both be"):
        capture_files([one, two], tmp_path, {one: "b.npz"})
    with pytest.raises(UsageError, match="cannot both be files"):
        capture_files([one, two], tmp_path, {one: "b.npz/a.npz"})


def test_a_named_file_of_another_format_is_kept_as_it_is(tmp_path, kept):
    path = tmp_path / "config.json"
    path.write_text("{}")
    assert "it is not of a format that mvcs reads" in kept(path)


def test_a_broken_file_inside_a_folder_is_refused(tmp_path):
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").write_text("not tensors at all")
    with pytest.raises(FileFormatError, match=r"model\.safetensors"):
        capture_files([folder], tmp_path)


def test_missing_and_empty_are_named(tmp_path):
    with pytest.raises(NotFoundError, match="no such file"):
        capture_files([tmp_path / "missing.pt"], tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no file to commit"):
        capture_files([tmp_path / "empty"], tmp_path)


def test_links_that_leave_a_folder_are_refused(tmp_path, hold_files):
    folder = model_folder(tmp_path / "model")
    (folder / "inside.safetensors").symlink_to(folder / "model.safetensors")
    assert any(entry.path == "model/inside.safetensors" for entry in hold_files(folder).tree.files)
    (folder / "outside.json").symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match="leaves the folder"):
        capture_files([folder], tmp_path)
    (folder / "outside.json").unlink()
    (folder / "up").symlink_to(tmp_path)
    assert "'model/up' was left out: it is a link to a folder" in capture_files([folder], tmp_path).notes


def test_pipes_are_left_out_of_folders_and_refused_by_name(tmp_path, hold_files):
    folder = model_folder(tmp_path / "model")
    os.mkfifo(folder / "pipe.pt")
    assert "'model/pipe.pt' was left out: it is a pipe" in hold_files(folder).captured.notes
    with pytest.raises(UsageError, match="is a pipe, not a file or a folder"):
        capture_files([folder / "pipe.pt"], tmp_path)


def test_what_is_no_file_is_never_opened(tmp_path, monkeypatch):
    folder = model_folder(tmp_path / "model")
    monkeypatch.chdir(folder)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    os.mkfifo("pipe")
    links = {
        "pipe.pt": "pipe",
        "zero.pt": "/dev/zero",
        "random.npz": "/dev/random",
        "socket.safetensors": "socket",
        "nowhere.pt": "gone",
        "round.pt": "round.pt",
        "folder.pt": "sub",
    }
    for name, target in links.items():
        pathlib.Path(name).symlink_to(target)
    notes = [note for note in capture_files([folder], tmp_path).notes if "left out: it is" in note]
    assert notes == [
        "'model/folder.pt' was left out: it is a link to a folder",
        "'model/nowhere.pt' was left out: it is a link that leads nowhere",
        "'model/pipe' was left out: it is a pipe",
        "'model/pipe.pt' was left out: it is a pipe",
        "'model/random.npz' was left out: it is a device",
        "'model/round.pt' was left out: it is a link that leads nowhere",
        "'model/socket' was left out: it is a socket",
        "'model/socket.safetensors' was left out: it is a socket",
        "'model/zero.pt' was left out: it is a device",
    ]
    for name in links.keys() - {"folder.pt"}:
        with pytest.raises((UsageError, NotFoundError), match=r"not a file or a folder|leads nowhere"):
            capture_files([folder / name], tmp_path)
    listener.close()


def test_a_folder_of_two_thousand_others_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    safetensors.torch.save_file({"w": torch.ones(2, 2)}, "model.safetensors")
    for _ in range(2000):
        pathlib.Path("a").mkdir()
        os.chdir("a")
    os.link(tmp_path / "model.safetensors", "model.safetensors")
    try:
        with pytest.raises((UsageError, StorageError)):
            capture_files([tmp_path], tmp_path)
        with pytest.raises((UsageError, StorageError)):
            capture_files([tmp_path.joinpath(*"a" * 2000, "model.safetensors")], tmp_path)
        assert Uncommitted.of(tmp_path, KnownFiles()).checkpoints == ["model.safetensors"]
    finally:
        os.chdir(tmp_path)
        subprocess.run(["rm", "-r", "a"], check=True)


def test_writing_where_nothing_can_be_written_is_a_storage_error(tmp_path, hold_files):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.ones(1))
    held = hold_files(path)
    with pytest.raises(StorageError, match="cannot write"):
        write_file(held.tree.files[0], held.content, tmp_path / "none" / "x.npz")


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("name", ["model.safetensors", "arrays.npz", "optimizer.pt", "config.json"])
def test_a_full_disk_is_a_storage_error(tmp_path, hold_files, name):
    held = hold_files(model_folder(tmp_path / "model"))
    entry = next(entry for entry in held.tree.files if entry.path == f"model/{name}")
    with pytest.raises(StorageError):
        write_file(entry, held.content, pathlib.Path("/dev/full"))


def test_formats_go_by_suffix():
    assert format_of(pathlib.Path("a/B.SafeTensors")) is FileFormat.SAFETENSORS
    assert format_of(pathlib.Path("pytorch_model.bin")) is None


def test_all_that_cannot_be_read_is_named_at_once(tmp_path):
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1])
    (folder / "empty.pt").touch()
    np.savez(folder / "cut.npz", a=np.ones(3))
    (folder / "cut.npz").write_bytes((folder / "cut.npz").read_bytes()[:40])
    with pytest.raises(FileFormatError) as caught:
        capture_files([folder], tmp_path)
    assert caught.value.message.startswith("3 files cannot be read: ")
    for reason in (
        "torch.save: it is empty",
        "model.safetensors' is not",
        "cut.npz' is not an npz archive: the list",
    ):
        assert reason in caught.value.message


def test_plain_keeps_what_cannot_be_read(tmp_path):
    (tmp_path / "empty.pt").touch()
    (tmp_path / "run.py").write_text("print()")
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 and no more")
    np.savez(tmp_path / "whole.npz", a=np.ones(3))
    captured = capture_files(sorted(tmp_path.iterdir()), tmp_path, plain=True)
    found = {entry.path: entry.format for entry in captured.files}
    assert found.pop("whole.npz") is FileFormat.NPZ
    assert found == dict.fromkeys(("empty.pt", "run.py", "x.npz"), FileFormat.OPAQUE)
    assert len(captured.notes) == 3
