"""Status lists what a commit of the folder takes: `.mvcsignore`, odd names, and files from elsewhere."""

import pytest

from mvcs.checkpoint.ignore_rules import IGNORE_FILE


def write(console, **files):
    for name, text in files.items():
        path = console.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def files_of(console):
    return [file["path"] for file in console.json("ls-files")]


def listed(console):
    """Return what status lists as something to commit."""
    status = console.json("status")
    return sorted(
        [entry["path"] for entry in status["entries"] if entry["state"] == "untracked"] + status["others"]
    )


def test_status_and_commits_leave_out_the_same(mvcs):
    mvcs.model("ckpt/model.safetensors")
    mvcs.model("ckpt/old.safetensors", seed=1)
    write(mvcs, **{"logs/a.txt": "a", "ckpt/x.log": "x", "keep.log": "k", "ckpt/logs/b.txt": "b"})
    write(mvcs, **{IGNORE_FILE: "# not ours\n*.log\n!keep.log\nlogs/\n/ckpt/old*\n"})
    expected = [IGNORE_FILE, "ckpt/model.safetensors", "keep.log"]
    assert listed(mvcs) == expected
    assert mvcs.json("commit", "ckpt", "-m", "a folder")["added"] == ["ckpt/model.safetensors"]
    assert mvcs.json("commit", ".", "-m", "all")["added"] == [IGNORE_FILE, "keep.log"]
    assert files_of(mvcs) == expected
    assert listed(mvcs) == []
    assert "no difference" in mvcs("diff").out
    # What is named is committed all the same, a folder too.
    assert mvcs.json("commit", "ckpt/x.log", "--plain", "-m", "x")["added"] == ["ckpt/x.log"]
    assert mvcs.json("commit", "logs", "-m", "logs")["added"] == ["logs/a.txt"]


def test_what_is_committed_stays_when_it_is_ignored_later(mvcs):
    mvcs.model("logs/model.safetensors")
    write(mvcs, **{"logs/a.txt": "a", "logs/deep/b.txt": "b"})
    mvcs("commit", ".", "-m", "all")
    write(mvcs, **{IGNORE_FILE: "logs\n", "logs/new.txt": "n", "logs/deep/b.txt": "changed"})
    assert listed(mvcs) == [IGNORE_FILE]
    states = {entry["path"]: entry["state"] for entry in mvcs.json("status")["entries"]}
    assert states["logs/deep/b.txt"] == "modified"
    info = mvcs.json("commit", ".", "-m", "changed")
    assert (info["added"], info["left"]) == ([IGNORE_FILE], [])
    assert "logs/new.txt" not in files_of(mvcs)
    (mvcs.folder / "logs/a.txt").unlink()
    assert mvcs.json("commit", ".", "-m", "gone")["left"] == ["logs/a.txt"]


def test_a_folder_of_which_nothing_is_left_says_why(mvcs):
    write(mvcs, **{IGNORE_FILE: "*\n", "data/x.txt": "x"})
    assert IGNORE_FILE in mvcs("commit", ".", "-m", "x", "--json", code=2).error["hint"]


def test_an_ignore_file_that_cannot_be_read_is_said(mvcs):
    mvcs.commit()
    write(mvcs, **{IGNORE_FILE: "x" * 70_000})
    assert "cannot be listed" in mvcs.json("status")["problems"][0]
    assert "more than" in mvcs("commit", ".", "-m", "x", code=7).err
    mvcs("commit", "--allow-empty", "-m", "files by name, and those of HEAD, need none")


def test_an_ignored_link_is_not_spoken_of(mvcs, tmp_path):
    mvcs.commit()
    (mvcs.folder / "data").symlink_to(tmp_path)
    write(mvcs, **{IGNORE_FILE: "/data\n"})
    assert mvcs.json("commit", ".", "-m", "x")["notes"] == []


def test_names_that_a_commit_refuses_are_listed_so(mvcs):
    mvcs.commit()
    write(mvcs, **{"12:30.txt": "x", "end /x.txt": "x", "fine.txt": "x"})
    mvcs.model("Model.safetensors", seed=1)
    status = mvcs.json("status")
    assert set(status["refused"]) == {"12:30.txt", "end ", "Model.safetensors", "model.safetensors"}
    assert "one name" in status["refused"]["Model.safetensors"]
    assert listed(mvcs) == ["fine.txt"]
    shown = mvcs("status").out
    assert "Refused by 'mvcs commit .'" in shown
    assert "12:30.txt: Windows takes what follows a colon" in shown
    error = mvcs("commit", ".", "-m", "x", "--json", code=2).error
    assert all(f"'{name}'" in error["message"] for name in ("12:30.txt", "end ", "Model.safetensors"))
    assert IGNORE_FILE in error["hint"]
    write(mvcs, **{IGNORE_FILE: "*:*\nend\\ /\nModel.*\n"})
    assert mvcs.json("status")["refused"] == {}
    assert mvcs.json("commit", ".", "-m", "x")["added"] == [IGNORE_FILE, "fine.txt"]


@pytest.fixture
def renamed(mvcs, tmp_path):
    """A file of the folder and one from outside, each committed under another name."""
    mvcs.model("raw/a.safetensors", seed=1)
    mvcs.model(tmp_path / "outside/b.safetensors", seed=2)
    mvcs("commit", "raw/a.safetensors", "--as", "a.safetensors", "-m", "a")
    mvcs("commit", tmp_path / "outside/b.safetensors", "--as", "b.safetensors", "-m", "b")
    return mvcs


def test_a_file_under_another_name_is_the_same_for_status_and_a_folder(renamed, tmp_path):
    assert listed(renamed) == []
    renamed.model("raw/a.safetensors", seed=3)
    renamed.model(tmp_path / "outside/b.safetensors", seed=4)
    states = {entry["path"]: entry["state"] for entry in renamed.json("status")["entries"]}
    assert states == {"a.safetensors": "modified", "b.safetensors": "modified"}
    info = renamed.json("commit", ".", "-m", "both")
    assert (info["added"], info["kept"], info["left"]) == ([], [], [])
    assert info["notes"] == [
        f"'b.safetensors' was read outside the folder, from '{tmp_path / 'outside/b.safetensors'}'"
    ]
    assert {entry["state"] for entry in renamed.json("status")["entries"]} == {"unmodified"}
    assert "nothing to commit" in renamed("commit", ".", "-m", "x", code=1).err


def test_what_is_gone_from_elsewhere_stays_and_is_told(renamed, tmp_path):
    (tmp_path / "outside/b.safetensors").unlink()
    (renamed.folder / "raw/a.safetensors").unlink()
    renamed.model("c.safetensors", seed=5)
    info = renamed.json("commit", ".", "-m", "x")
    assert (info["kept"], info["left"]) == (["b.safetensors"], ["a.safetensors"])
    assert "'b.safetensors' stays as HEAD has it: " in info["notes"][0]


def test_a_file_in_the_folder_comes_before_where_it_was_committed_from(renamed):
    renamed.model("b.safetensors", seed=6)
    states = {entry["path"]: entry["state"] for entry in renamed.json("status")["entries"]}
    assert states["b.safetensors"] == "modified"
    renamed("commit", ".", "-m", "the one in the folder")
    assert {entry["state"] for entry in renamed.json("status")["entries"]} == {"unmodified"}
    renamed("switch", "-c", "side")


def test_a_folder_under_another_name(mvcs, tmp_path):
    mvcs.model(tmp_path / "outside/a.safetensors", seed=1)
    (tmp_path / "outside/config.json").write_text("{}")
    mvcs("commit", tmp_path / "outside", "--as", "base", "-m", "x")
    assert files_of(mvcs) == ["base/a.safetensors", "base/config.json"]
    assert {entry["state"] for entry in mvcs.json("status")["entries"]} == {"unmodified"}
    (tmp_path / "outside/config.json").write_text("{ }")
    for words in ((".",), (tmp_path / "outside",), ()):
        info = mvcs.json("commit", *words, "-m", "again", "--allow-empty")
        assert (info["added"], info["left"]) == ([], [])
        assert {entry["state"] for entry in mvcs.json("status")["entries"]} == {"unmodified"}
