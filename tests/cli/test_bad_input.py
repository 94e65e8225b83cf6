"""Each way things are bad that a command line can meet: a clear error, the right code, nothing lost."""

import json
import os
import pickle
import resource
import shutil
import subprocess
import zipfile

import numpy as np
import pytest
import torch

from tests.cli.conftest import Console
from tests.cli.test_files import digest

PROGRAM = "from mvcs.cli import main; raise SystemExit(main())"


class Evil:
    """What runs a command when a careless reader unpickles it."""

    def __reduce__(self):
        return os.system, ("touch owned",)


def flip(path, position=None):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if position is None else position] ^= 0x40
    path.chmod(0o644)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "command", [("status",), ("log",), ("fsck",), ("commit", "x", "-m", "y"), ("lineage",)]
)
def test_not_a_repository(console, command):
    assert "mvcs init" in console(*command, code=3).err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.safetensors", b"just some text"),
        ("empty.safetensors", b""),
        ("long.safetensors", b"\xff" * 8 + b"{}"),
        ("text.pt", b"just some text"),
        ("text.npz", b"just some text"),
    ],
)
def test_not_a_checkpoint(mvcs, name, content):
    (mvcs.folder / name).write_bytes(content)
    result = mvcs("commit", name, "-m", "x", code=1)
    assert name in result.err
    assert "No commit yet" in mvcs("status").out


def test_a_file_that_is_not_there(mvcs):
    assert "nope.safetensors" in mvcs("commit", "nope.safetensors", "-m", "x", code=3).err


def test_nothing_to_commit(mvcs):
    assert mvcs("commit", "-m", "x", code=2).err.startswith("mvcs: error: ")


@pytest.mark.parametrize("name", ["evil.pt", "evil.pth"])
def test_a_pickle_with_code_is_kept_and_not_run(mvcs, name):
    with zipfile.ZipFile(mvcs.folder / name, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"w": Evil()}))
        archive.writestr("archive/version", "3")
    content = digest(mvcs.folder / name)
    (note,) = mvcs.json("commit", name, "-m", "x")["notes"]
    assert note.endswith("which could run code; nothing was run")
    mvcs.json("show", "HEAD")
    (mvcs.folder / name).unlink()
    mvcs("restore", name)
    assert digest(mvcs.folder / name) == content
    assert not (mvcs.folder / "owned").exists()


def test_a_bare_pickle_is_not_run(mvcs):
    (mvcs.folder / "old.pt").write_bytes(pickle.dumps(Evil()))
    mvcs("commit", "old.pt", "-m", "x")
    assert not (mvcs.folder / "owned").exists()


def test_numpy_objects_are_not_unpickled(mvcs):
    np.savez(mvcs.folder / "evil.npz", x=np.array([Evil()], dtype=object))
    mvcs("commit", "evil.npz", "-m", "x")
    assert not (mvcs.folder / "owned").exists()


def test_a_flipped_bit_in_a_pack_is_found_and_never_shown(mvcs):
    mvcs.commit()
    for pack in mvcs.packs():
        flip(pack, 60)
    report = mvcs.json("fsck", code=5)
    assert list(report)[:4] == ["ok", "objects", "bytes", "problems"]
    assert report["ok"] is False
    assert report["problems"]
    out = mvcs("fsck", code=5).out
    assert "problem" in out
    before = digest(mvcs.folder / "model.safetensors")
    mvcs("checkout", "HEAD", "-o", "copy.safetensors", code=5)
    assert not (mvcs.folder / "copy.safetensors").exists()
    assert digest(mvcs.folder / "model.safetensors") == before


def test_a_truncated_pack(mvcs):
    mvcs.commit()
    (pack,) = mvcs.packs()
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:100])
    assert mvcs("show", code=5).err.startswith("mvcs: error: ")
    assert mvcs.json("fsck", code=5)["ok"] is False


def test_a_pack_that_is_gone(mvcs):
    mvcs.commit()
    for pack in mvcs.packs():
        pack.unlink()
    result = mvcs("show", code=5)
    assert "fsck" in result.err
    assert mvcs.json("fsck", code=5)["ok"] is False


def test_a_damaged_ref_record(mvcs):
    mvcs.commit()
    for record in (mvcs.folder / ".mvcs" / "refs" / "heads" / "main").iterdir():
        flip(record)
    mvcs("log", code=5)
    assert mvcs.json("fsck", code=5)["ok"] is False


def test_a_damaged_config(mvcs):
    mvcs.commit()
    (mvcs.folder / ".mvcs" / "config.toml").write_text("[user\n")
    assert "config.toml" in mvcs("log", code=5).err


def test_a_damaged_description(mvcs):
    (mvcs.folder / ".mvcs" / "mvcs.json").chmod(0o644)
    (mvcs.folder / ".mvcs" / "mvcs.json").write_text("{")
    assert "mvcs.json" in mvcs("status", code=5).err


@pytest.mark.parametrize(
    "change",
    [
        {"format": "1"},
        {"format": True},
        {"format": 1.0},
        {"features": None},
        {"features": "none"},
        {"exclusive_create": 1},
        {"store": "0" * 31},
        {"project": "G" * 32},
        {"default_branch": 1},
        {"other": "x" * 65536},
    ],
)
def test_a_description_of_other_types(mvcs, change):
    path = mvcs.folder / ".mvcs" / "mvcs.json"
    path.chmod(0o644)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert ".mvcs/mvcs.json" in mvcs("status", code=5).err


def test_a_newer_description_may_have_other_keys(mvcs):
    path = mvcs.folder / ".mvcs" / "mvcs.json"
    path.chmod(0o644)
    path.write_text('{"format": 2}')
    assert "upgrade" in mvcs("status", code=6).err


@pytest.mark.parametrize("change", [{"format": 2}, {"features": ["quantum"]}])
def test_a_repository_of_a_newer_format(mvcs, change):
    mvcs.commit()
    path = mvcs.folder / ".mvcs" / "mvcs.json"
    path.chmod(0o644)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    before = digest(path)
    for command in (("log",), ("status",), ("commit", "-m", "x"), ("fsck",)):
        assert "upgrade" in mvcs(*command, code=6).err
    assert digest(path) == before


def test_a_healthy_store_passes(history):
    report = history.json("fsck")
    assert report["ok"] is True
    assert report["problems"] == []
    assert report["objects"] > 0
    assert report["bytes"] > 0
    assert history("fsck").out.splitlines()[-1].startswith("ok: ")
    assert history.json("fsck", "--quick")["ok"] is True


def in_shell(python, folder, *words, prefix=(), before=None):
    return subprocess.run(
        [*prefix, python, "-c", PROGRAM, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=before,
    )


def test_a_disk_that_takes_no_more_bytes(mvcs, python):
    """A limit on file size makes every larger write fail as a full disk does."""
    mvcs.commit("one")
    mvcs.model(seed=5)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = in_shell(python, mvcs.folder, "commit", "-m", "two", before=limit)
    assert done.returncode == 7, done.stderr
    assert done.stderr.startswith("mvcs: error: ")
    assert "Traceback" not in done.stderr
    assert [commit["message"] for commit in mvcs.json("log")] == ["one"]
    assert mvcs.json("fsck")["ok"] is True
    mvcs("commit", "-m", "two")


def test_a_small_disk_that_is_full(mvcs, python, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        mvcs.folder = shutil.copytree(mvcs.folder, disk / "run")
        mvcs.commit("fits")
        (disk / "filler").write_bytes(b"\0" * (shutil.disk_usage(disk).free - 8192))
        large = Console(tmp_path).model("large.safetensors", seed=6)
        done = in_shell(
            python, mvcs.folder, "commit", large, "--as", "large.safetensors", "-m", "does not fit"
        )
        assert done.returncode == 7, done.stderr
        assert [commit["message"] for commit in mvcs.json("log")] == ["fits"]
        done = in_shell(python, mvcs.folder, "checkout", "HEAD", "-o", "again.safetensors")
        assert (done.returncode, "free some space" in done.stderr) == (1, True), done.stderr
        assert mvcs.json("fsck")["ok"] is True
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_folder_that_may_only_be_read(mvcs, python):
    mvcs.commit("one")
    mvcs.model(seed=5)
    # root ignores modes unless the capability is taken away
    prefix = (
        []
        if os.geteuid()
        else [shutil.which("setpriv") or "setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    )
    folders = [path for path in [mvcs.folder / ".mvcs", *(mvcs.folder / ".mvcs").rglob("*")] if path.is_dir()]
    for path in folders:
        path.chmod(0o555)
    try:
        if prefix and in_shell(python, mvcs.folder, "--version", prefix=prefix).returncode:
            pytest.skip("capabilities cannot be dropped here")
        looked = in_shell(python, mvcs.folder, "log", "--oneline", prefix=prefix)
        assert looked.returncode == 0, looked.stderr
        done = in_shell(python, mvcs.folder, "commit", "-m", "two", prefix=prefix)
        assert done.returncode == 7, done.stderr
        assert "ermission denied" in done.stderr
    finally:
        for path in folders:
            path.chmod(0o755)
    assert [commit["message"] for commit in mvcs.json("log")] == ["one"]


def test_two_commits_at_once_both_survive(mvcs, python):
    mvcs.commit("base")
    for name in ("a", "b"):
        mvcs.model(f"{name}.safetensors", seed=ord(name))
    running = [
        subprocess.Popen(
            [python, "-c", PROGRAM, "commit", f"{name}.safetensors", "-m", name, "--json"],
            cwd=mvcs.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    codes = []
    for process in running:
        out, err = process.communicate()
        codes.append(process.returncode)
        assert process.returncode in (0, 4), err
        if process.returncode == 4:
            error = json.loads(err.splitlines()[-1])["error"]
            assert error["branch"].startswith("main.conflict-")
            assert out == ""
    assert 0 in codes
    assert {"base", "a", "b"} == {commit["message"] for commit in mvcs.json("log", "--all")}
    assert mvcs.json("fsck")["ok"] is True


def test_a_link_out_of_the_folder_is_not_followed(mvcs, tmp_path):
    """A commit's path cannot leave the repository through a folder that became a link."""
    mvcs.model("sub/model.safetensors")
    mvcs("commit", "sub/model.safetensors", "-m", "x")
    shutil.rmtree(mvcs.folder / "sub")
    (tmp_path / "outside").mkdir()
    (mvcs.folder / "sub").symlink_to(tmp_path / "outside")
    assert "symbolic link" in mvcs("checkout", "HEAD", "--force", code=2).err
    assert list((tmp_path / "outside").iterdir()) == []


def test_an_object_that_no_state_holds_is_named_by_its_path(mvcs):
    torch.save(
        {"model": {"w": torch.ones(2)}, "extra": {"seen": torch.eye(3).to_sparse()}}, mvcs.folder / "run.pt"
    )
    (note,) = mvcs.json("commit", "run.pt", "-m", "x")["notes"]
    assert note.endswith(": run.pt.extra.seen: a sparse_coo tensor cannot be stored")


def test_a_ref_that_points_nowhere(history):
    """What main needs is gone, side goes on."""
    tip = history.json("log", "main", "-n", 1)[0]["id"]
    before = set(history.packs())
    history("switch", "main", "--force")
    doomed = history.commit("doomed", shift=0.9)["id"]
    for path in {*history.packs(), *(history.folder / ".mvcs/manifests").rglob(f"{doomed}.*")} - before:
        path.unlink()
    error = history("log", "main", code=3).err
    assert "fsck" in error
    assert "reflog" in error
    assert history.json("fsck", code=5)["ok"] is False
    assert history.json("reflog", "main")[1]["commit"] == tip
    history("branch", "rescued", "main@{1}")
    assert history.json("log", "rescued", "-n", 1)[0]["id"] == tip
    assert len(history.json("log", "side")) == 4


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("commit", "a/x.pt", "-m", "x"), 3),
        (("checkout", "HEAD", "-o", "a"), 4),
        (("restore", "a/x.pt"), 3),
        (("rm", "a/x.pt", "-m", "x"), 3),
        (("mv", "model.safetensors", "a/x", "-m", "x"), 4),
        (("log", "--", "a/x.pt"), 0),
        (("diff", "a/x.pt"), 3),
        (("ls-files", "a/x.pt"), 0),
        (("reset", "a/x.pt"), 3),
        (("init", "other", "--store", "a"), 7),
    ],
)
def test_links_in_a_circle_end_with_a_message(mvcs, words, code):
    mvcs.commit()
    (mvcs.folder / "a").symlink_to("b")
    (mvcs.folder / "b").symlink_to("a")
    assert "unexpected" not in mvcs(*words, code=code).err
