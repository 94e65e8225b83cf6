"""Links in the folder: none is followed, nothing is committed that could not come back, nothing drops out."""

import contextlib
from pathlib import Path

import pytest

from mvcs.cli import main


@pytest.fixture
def linked(mvcs, tmp_path):
    """A folder `real`, with links to it and to another outside, and one to nothing."""
    mvcs.model("real/model.safetensors", seed=1)
    mvcs.model(tmp_path / "outside/model.safetensors", seed=2)
    (mvcs.folder / "link").symlink_to("real")
    (mvcs.folder / "big").symlink_to(tmp_path / "outside")
    (mvcs.folder / "dangling").symlink_to("gone")
    return mvcs


def files_of(console):
    return [file["path"] for file in console.json("ls-files")]


def error(console, *words, code):
    return console(words[0], "--json", *words[1:], code=code).error


@pytest.mark.parametrize("inside", [True, False])
def test_what_lies_behind_a_link_is_not_committed_there(linked, inside):
    link = "link" if inside else "big"
    for path in (link, f"{link}/", f"{link}/model.safetensors"):
        found = error(linked, "commit", path, "-m", "x", code=2)
        assert "could not be restored there" in found["message"]
        assert ("name where it lies: 'real" if inside else "--as NAME") in found["hint"]
    for name in (f"{link}/x.safetensors", f"{link}/deep/x.safetensors"):
        found = error(linked, "commit", "real/model.safetensors", "--as", name, "-m", "x", code=2)
        assert (f"'{name}' lies behind" in found["message"], found["hint"]) == (True, "choose another name")
    found = error(linked, "tune", link, "--eval", "task:loss", code=2)
    assert linked.json("log") == []
    linked("commit", f"{link}/model.safetensors", "--as", "base.safetensors", "-m", "x")
    linked("restore", "base.safetensors")
    assert (linked.folder / "base.safetensors").read_bytes() == (
        linked.folder / link / "model.safetensors"
    ).read_bytes()


def test_a_folder_with_links_is_committed_without_them(linked):
    notes = linked.json("commit", ".", "-m", "all")["notes"]
    assert notes == [
        "'big' was left out: it is a link to a folder",
        "'dangling' was left out: it is a link that leads nowhere",
        "'link' was left out: it is a link to a folder",
    ]
    assert files_of(linked) == ["real/model.safetensors"]
    (entry,) = linked.json("status")["entries"]
    assert entry == {"path": "real/model.safetensors", "state": "unmodified"}


def run(console, *words):
    with contextlib.chdir(console.folder):
        return main(list(words))


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", ["real", "real/model.safetensors"])
def test_a_link_in_the_place_of_files_drops_none(linked, tmp_path, name, there):
    """Such as a folder that went to a larger disk, which may not be mounted."""
    linked("commit", ".", "-m", "all")
    place, moved = linked.folder / name, tmp_path / "moved"
    if there:
        place.rename(moved)
    else:
        place.rename(tmp_path / "elsewhere")
    place.symlink_to(moved)
    is_copied = there and name.endswith("safetensors")
    for words, codes in (((".",), {4}), (("real",), {2, 3, 4}), ((), {3, 4})) if not is_copied else ():
        assert run(linked, "commit", *words, "-m", "x", "--allow-empty") in codes
    assert files_of(linked) == ["real/model.safetensors"]
    if not is_copied:
        status = linked.json("status")
        assert status["entries"] == [{"path": "real/model.safetensors", "state": "deleted"}]
        assert f"HEAD has files at '{name}', which is a link" in status["problems"][0]
        assert linked("diff").out.count("removed") > 0
        linked("rm", "--cached", name, "-m", "left out on purpose")
        assert linked.json("status")["problems"] == []
    assert place.is_symlink()


def test_a_link_that_leads_nowhere_is_told_with_what_helps(linked):
    found = error(linked, "commit", "dangling", "-m", "x", code=3)
    assert found["message"] == "'dangling' is a link that leads nowhere"
    assert found["hint"] == "put back what it led to, or remove the link"
    linked.commit("on main")
    linked("switch", "-c", "side")
    linked("mv", "model.safetensors", "side.safetensors", "-m", "x")
    linked("switch", "main")
    (linked.folder / "side.safetensors").symlink_to("gone")
    for words in (("switch", "side"), ("checkout", "side"), ("checkout", "side", "--", "side.safetensors")):
        found = error(linked, *words, code=4)
        assert found["message"] == "'side.safetensors' is a link that leads nowhere, and would be lost"
        assert "remove the link; with --force" in found["hint"]
    (linked.folder / "side.safetensors").unlink()
    linked("switch", "side")


def test_what_is_not_kept_of_a_file_is_said_once(mvcs):
    mvcs.model()
    (mvcs.folder / "copy.safetensors").symlink_to("model.safetensors")
    names = [f"run{number}.sh" for number in range(5)]
    for name in names:
        (mvcs.folder / name).write_text("#!/bin/sh")
        (mvcs.folder / name).chmod(0o755)
    assert mvcs.json("commit", ".", "-m", "all")["notes"] == [
        "a commit has no links, but a copy of what each leads to: 'copy.safetensors'",
        "a commit does not keep that a file is executable: 'run0.sh', 'run1.sh', 'run2.sh' and 2 more",
    ]
    (mvcs.folder / "run0.sh").write_text("#!/bin/bash")
    assert mvcs.json("commit", ".", "-m", "all")["notes"] == []


def test_a_link_out_of_the_folder_is_listed_as_refused(mvcs, tmp_path):
    mvcs.commit()
    mvcs.model(tmp_path / "outside.safetensors")
    Path(mvcs.folder / "out.safetensors").symlink_to(tmp_path / "outside.safetensors")
    status = mvcs.json("status")
    assert [entry["path"] for entry in status["entries"]] == ["model.safetensors"]
    assert list(status["refused"]) == ["out.safetensors"]
    assert "out.safetensors: it is a link that leaves" in mvcs("status").out
    assert "leaves the folder" in error(mvcs, "commit", ".", "-m", "x", code=2)["message"]


def test_a_link_is_removed_with_the_file_that_it_leads_to(mvcs):
    mvcs.model("cache/blobs/model.safetensors", seed=1)
    (mvcs.folder / "cache/snapshot").mkdir()
    (mvcs.folder / "cache/snapshot/model.safetensors").symlink_to("../blobs/model.safetensors")
    mvcs("commit", "cache", "-m", "both")
    assert "changed meanwhile" not in mvcs("rm", "cache", "-m", "gone").err
    assert not (mvcs.folder / "cache").exists()
    mvcs("restore", "--source", "HEAD~1", "cache")
    assert (mvcs.folder / "cache/snapshot/model.safetensors").is_file()
