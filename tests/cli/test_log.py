"""`mvcs log`: which commits it lists, and what it says of each."""

import re

import pytest
import torch

from mvcs import Repository
from mvcs.ui.text import ratio, size
from tests.cli.conftest import Console


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A repository that is only looked at: two files and a folder that change in turn, by two authors."""
    console = Console(tmp_path_factory.mktemp("log"))
    console("init")
    console.model("model.safetensors")
    console.model("ckpt/a.safetensors")
    (console.folder / "notes.txt").write_text("first")
    console("commit", ".", "-m", "all", "--author", "Ada")
    console.model("model.safetensors", shift=0.5)
    console("commit", "model.safetensors", "-m", "model\n\nlr 0.1", "--author", "Grace <g@x>")
    (console.folder / "notes.txt").write_text("second")
    console("commit", "notes.txt", "-m", "notes", "--author", "Ada")
    console("tag", "v1")
    console.model("ckpt/b.safetensors", shift=1)
    console("commit", "ckpt", "-m", "folder (b)", "--author", "Grace <g@x>", "--bins", 8)
    console("rm", "notes.txt", "-m", "gone", "--author", "Ada")
    return console


def messages(console, *words):
    return [commit["message"].splitlines()[0] for commit in console("log", "--json", *words).json]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("-2",), ["gone", "folder (b)"]),
        (("-n", "2"), ["gone", "folder (b)"]),
        (("model.safetensors",), ["model", "all"]),
        (("--", "model.safetensors"), ["model", "all"]),
        (("HEAD", "--", "./notes.txt"), ["gone", "notes", "all"]),
        (("v1", "ckpt"), ["all"]),
        (("-1", "ckpt"), ["folder (b)"]),
        (("ckpt/b.safetensors", "model.safetensors"), ["folder (b)", "model", "all"]),
        (("--", "never.txt"), []),
        (("v1", "HEAD~3"), ["notes", "model", "all"]),
        (("--author", "Grace"), ["folder (b)", "model"]),
        (("--grep", "^lr [0-9.]+$"), ["model"]),
        (("--grep", "MODEL|Gone", "-i", "--author", "ada"), ["gone"]),
        (("--since", "1 hour ago", "--until", "now", "-1"), ["gone"]),
        (("--since", "1 week", "--before", "2.hours.ago"), []),
        (("--after=2100-01-01",), []),
        (("--all", "--until", "today", "-1", "--", "notes.txt"), ["gone"]),
    ],
)
def test_which_commits_are_listed(runs, words, found):
    assert messages(runs, *words) == found


def test_a_file_is_named_from_where_one_stands(runs):
    assert messages(Console(runs.folder / "ckpt"), "b.safetensors") == ["folder (b)"]
    assert messages(Console(runs.folder / "ckpt"), "../model.safetensors") == ["model", "all"]


def test_a_word_that_is_nothing_is_answered(runs):
    error = runs("log", "notes.txt", "--json", code=3).error
    assert "-- notes.txt" in error["hint"]
    assert runs("log", "main", "notes.txt", "--", "model.safetensors", code=3)
    for words in (("--since", "soon"), ("--grep", "("), ("--", "../elsewhere")):
        runs("log", *words, code=2)


def test_all_tells_of_head_on_no_branch_as_well(history):
    before = messages(history, "--all")
    history("checkout", "main~0")
    assert messages(history, "--all") == before
    history.model(shift=2)
    history("commit", "model.safetensors", "-m", "on no branch")
    assert messages(history, "--all") == ["on no branch", *before]
    assert "HEAD" in history("log", "--all", "--oneline").out.splitlines()[0]
    with Repository.open(history.folder) as repo:
        assert next(repo.log(all_branches=True)).message == "on no branch"
    head = history.folder / ".mvcs" / "HEAD"
    head.write_text("f" * 64)
    result = history("log", "--all", "--json")
    assert [commit["message"] for commit in result.json] == before
    assert "HEAD is left out: " in result.err


def test_each_commit_beside_what_it_changed(runs):
    out = runs("log", "-p", "model.safetensors").out
    assert out.count("commit ") == 2
    assert "model.safetensors.blocks.0.weight" in out
    assert "added:     model.safetensors" in out
    assert "ckpt" not in out
    found = runs.json("log", "-2", "-p")
    assert found[0]["diff"]["files"] == [["notes.txt", "removed"]]
    assert found[1]["diff"]["left"]["id"] == found[1]["parents"][0]


def test_each_commit_beside_its_files(runs):
    lines = runs("log", "--stat", "--oneline").out.splitlines()
    assert any(line.startswith(" notes.txt  |  removed  6 B") for line in lines)
    assert any(line.startswith(" model.safetensors  |  1 of 4 tensors  12 kB of 25 kB") for line in lines)
    assert lines.count(" 1 file differs") == 4
    assert " 3 files differ" in lines
    first = runs.json("log", "--stat")[-1]["stat"]
    assert {item["path"]: (item["state"], item["tensors"]) for item in first} == {
        "ckpt/a.safetensors": ("added", 4),
        "model.safetensors": ("added", 4),
        "notes.txt": ("added", 0),
    }
    *drawn, empty, together = runs("log", "--stat", "--graph", "-2").out.splitlines()
    assert all(line.startswith(("* ", "│")) for line in drawn)
    assert (empty, together.partition(":")[0]) == ("", "2 commits")


def test_sizes_of_all_commits_together(runs):
    listed = runs.json("log", "--stat")
    raw, stored, exact = (
        sum(commit[name] for commit in listed) for name in ("raw_bytes", "stored_bytes", "exact_bytes")
    )
    assert exact
    told = (
        f"stored {size(stored)} of {size(raw)} ({ratio(raw, stored)}), beside exact layers of {size(exact)}"
    )
    assert runs("log", "--stat").out.splitlines()[-2:] == ["", f"5 commits: {told}"]
    assert runs("log", "--stat", "--oneline", "-1", "v1").out.splitlines()[-1].startswith("1 commit: stored ")
    assert "5 commits" not in runs("log").out + runs("log", "-p").out
    assert runs("log", "--stat", "-n", "0").out == ""


def test_exact_layers_that_were_dropped_are_not_counted(history):
    kept = [commit["exact_layer"] == "kept" for commit in history.json("log", "--all")]
    assert 0 < sum(kept) < len(kept)
    exact = sum(c["exact_bytes"] for c in history.json("log", "--all") if c["exact_layer"] == "kept")
    assert history("log", "--all", "--stat").out.endswith(f", beside exact layers of {size(exact)}\n")


def test_diff_of_some_files(runs):
    assert runs.json("diff", "HEAD~4", "HEAD", "ckpt")["files"] == [["ckpt/b.safetensors", "added"]]
    assert runs("diff", "--json", "v1~1", "v1", "--", "model.safetensors").json["unchanged"] == 4
    (changed,) = runs.json("diff", "--stat", "v1~2", "v1", "model.safetensors")
    assert (changed["changed"], changed["tensors"]) == (1, 4)
    assert "no difference" in runs("diff", "model.safetensors").out
    assert runs("diff", "--stat").out == " 0 files differ\n"
    runs("diff", "main", "v1", "v1", code=2)
    runs("diff", "main", "nothing", code=3)


def test_show_of_a_file(runs):
    out = runs("show", "HEAD:ckpt/b.safetensors").out
    assert re.match(r"[0-9a-f]{12}:ckpt/b.safetensors  safetensors, 25 kB\n", out)
    assert "ckpt/b.safetensors.blocks.0.weight" in out
    assert "ckpt/a" not in out
    assert "and 3 smaller tensors" in runs("show", "HEAD:ckpt/b.safetensors", "-n", 1).out
    assert runs("show", "HEAD:ckpt/").out == "ckpt/a.safetensors\nckpt/b.safetensors\n"
    assert runs("show", "v1:notes.txt").raw == b"second"
    assert runs.json("show", "v1~1:notes.txt")["content"] == b"first".hex()
    runs("show", "HEAD:notes.txt", code=3)


def test_many_items_of_a_list_are_one_line(mvcs):
    groups = [{"params": list(range(8)), "betas": [0.9, 0.95]}]
    torch.save({"weight": torch.ones(3), "param_groups": groups}, mvcs.folder / "all.pt")
    mvcs("commit", "all.pt", "-m", "one")
    shown = mvcs("show", "HEAD:all.pt").out
    assert "all.pt.param_groups.0.params.0: 0, and 7 more up to item 7; --all lists them" in shown
    assert "params.1:" not in shown
    assert "params.7: 7" in mvcs("show", "HEAD:all.pt", "--all").out
    torch.save({"weight": torch.ones(3), "param_groups": []}, mvcs.folder / "all.pt")
    mvcs("commit", "all.pt", "-m", "none")
    folded = "all.pt.param_groups.0.params.0: 0 -> None, and 7 more up to item 7; "
    out = mvcs("diff", "HEAD~1", "HEAD").out
    assert f"{folded}--all lists them" in out
    assert "betas.1: 0.95 -> None" in out
    assert "params.1:" not in out
    assert folded + "'mvcs diff " in mvcs("log", "-1", "-p").out
    assert "params.7: 7 -> None" in mvcs("diff", "HEAD~1", "HEAD", "--all").out
    assert len(mvcs.json("diff", "HEAD~1", "HEAD")["values"]) == 10


def test_all_lists_branches_of_remotes_as_git_does(mvcs, tmp_path):
    mvcs.commit("mine")
    mvcs("remote", "add", "origin", tmp_path / "there")
    mvcs("push", "origin", "main")
    other = Console(tmp_path / "other")
    other.folder.mkdir()
    other("clone", tmp_path / "there", ".")
    other.commit("of a colleague", seed=1)
    other("push", "origin", "main")
    mvcs("fetch", "origin")
    assert messages(mvcs, "--all") == ["of a colleague", "mine"]
    assert "origin/main" in mvcs("log", "--all", "--graph", "--oneline").out.splitlines()[0]
