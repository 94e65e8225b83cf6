"""Flags of git that change nothing dangerous: they are taken as typed, and do what git does."""

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import Console
from tests.cli.test_files import digest


@pytest.fixture
def two(mvcs):
    """A branch of two commits."""
    mvcs.commit("one", "--step", 1)
    mvcs.commit("two", "--step", 2, shift=1.0)
    return mvcs


@pytest.fixture
def shared(two, tmp_path):
    """That branch and another, pushed to a store, and a clone of it."""
    two("branch", "side", "HEAD~1")
    two("remote", "add", "origin", tmp_path / "store")
    two("push", "origin", "main", "side")
    two("clone", tmp_path / "store", tmp_path / "clone")
    return two, Console(tmp_path / "clone")


def messages(console, *words):
    return [item["message"] for item in console.json("log", *words)]


def test_commit_with_a_and_a_message(two):
    two.model(shift=2.0)
    assert "[main " in two("commit", "-am", "three").out
    two.model(shift=3.0)
    two("commit", "-a", "-n", "-m", "four")
    two.model(shift=4.0)
    two("commit", "--all", "--no-verify", "--message", "five", "-q")
    assert messages(two) == ["five", "four", "three", "two", "one"]
    assert two("status", "-s").out == ""
    assert "leave FILE out" in two("commit", "-am", "six", "model.safetensors", code=2).err


def test_amend_with_a_records_the_files_again(two):
    changed = digest(two.model(shift=2.0))
    two("commit", "--amend", "--no-edit")
    assert two("status", "-s").out == " M model.safetensors\n"
    two("commit", "-a", "--amend", "--no-edit")
    assert (messages(two), two("status", "-s").out) == (["two", "one"], "")
    two("checkout", "HEAD", "-o", "copy.safetensors")
    assert digest(two.folder / "copy.safetensors") == changed


def test_a_dry_run_of_a_commit_says_what_would_be_committed_and_commits_nothing(two):
    files = [path for path in two.folder.rglob("*") if path.is_file() and path.name != "lineage.json"]
    before = {path: path.read_bytes() for path in files}
    assert "1 file as in the last commit" in two("commit", "--dry-run", code=1).out
    assert two.json("commit", "--dry-run", "--step", 3)[0]["state"] == "unmodified"
    assert before == {path: path.read_bytes() for path in before}
    two.model(shift=2.0)
    two.model("new.safetensors")
    said = "Would be committed on branch main:\n  modified:   model.safetensors\n"
    assert two("commit", "--dry-run").out == said
    assert two.json("commit", ".", "--dry-run", "-m", "three") == [
        {"path": "model.safetensors", "state": "modified"},
        {"path": "new.safetensors", "state": "added"},
    ]
    assert two.json("commit", "new.safetensors", "--only", "--dry-run") == [
        {"path": "new.safetensors", "state": "added"},
        {"path": "model.safetensors", "state": "deleted"},
    ]
    assert "as it has them" in two("commit", "--amend", "--dry-run").out
    two("commit", "nope.safetensors", "--dry-run", code=3)
    assert messages(two) == ["two", "one"]
    assert set(two.packs()) == {path for path in before if path.suffix == ".pack"}


def test_a_dry_run_of_the_first_commit(mvcs):
    mvcs.model()
    assert mvcs.json("commit", ".", "--dry-run") == [{"path": "model.safetensors", "state": "added"}]
    assert mvcs.json("log") == []


def test_status_in_short(two):
    two.model("new.safetensors")
    (two.folder / "notes.txt").write_text("notes")
    (two.folder / "model.safetensors").unlink()
    short = " D model.safetensors\n?? new.safetensors\n?? notes.txt\n"
    for words in (("-s",), ("--short",), ("--porcelain",)):
        assert two("status", *words).out == short
    assert two("status", "-sb").out == "## main\n" + short
    assert two.json("status", "-s") == two.json("status")
    two("checkout", "-f", "--detach")
    assert two("status", "-sb").out.startswith("## HEAD (no branch)\n")


def test_status_in_short_tells_how_far_a_branch_is_from_what_it_follows(shared):
    _, clone = shared
    clone.commit("mine", seed=7)
    assert clone("status", "-s", "-b").out == "## main...origin/main [ahead 1]\n"


def test_log_in_reverse_turns_what_the_limit_left(two):
    two.commit("three", shift=2.0)
    assert messages(two, "--reverse") == ["one", "two", "three"]
    assert messages(two, "--reverse", "-2") == ["two", "three"] == messages(two, "-n", 2, "--reverse")
    assert messages(two, "--reverse", "-1") == ["three"]
    lines = two("log", "--oneline", "--reverse").out.splitlines()
    assert [line.split("] ")[0].split(" [")[0].rsplit(" ", 1)[1] for line in lines] == ["one", "two", "three"]
    two("log", "--reverse", "--graph", code=2)


def test_log_with_and_without_names(two):
    plain = two("log", "--oneline").out
    assert "HEAD -> main" in plain
    assert two("log", "--oneline", "--decorate").out == plain
    assert "main" not in two("log", "--oneline", "--no-decorate").out
    assert two("log", "--oneline", "-5").out == two("log", "-5", "--oneline").out == plain


def test_names_of_what_differs(two):
    two.model("b.safetensors", seed=5)
    two("rm", "--cached", "model.safetensors", "-m", "three")
    two("commit", "b.safetensors", "-m", "four")
    assert two("diff", "--name-only", "HEAD~2", "HEAD").out == "b.safetensors\nmodel.safetensors\n"
    assert two("diff", "--name-status", "HEAD~2", "HEAD").out == "A\tb.safetensors\nD\tmodel.safetensors\n"
    assert two("diff", "--name-status", "HEAD~3", "HEAD~2").out == "M\tmodel.safetensors\n"
    assert two.json("diff", "--name-only", "HEAD~2", "HEAD") == two.json("diff", "--stat", "HEAD~2", "HEAD")
    lines = two("log", "--oneline", "--name-status", "-2").out.splitlines()
    assert ("A\tb.safetensors" in lines, "D\tmodel.safetensors" in lines) == (True, True)
    assert "model.safetensors" in two("log", "--name-only").out.splitlines()


def test_show_with_what_differs_from_the_parent(two):
    for flag in ("--name-only", "--name-status", "--stat", "-p"):
        logged = two("log", "-1", flag).out.partition("\n\n1 commit:")[0]
        assert two("show", flag).out.rstrip("\n") == logged.rstrip("\n")
    assert two("show", "HEAD~1", "--name-status").out.endswith("\nA\tmodel.safetensors\n")
    found = two.json("show", "--name-only")
    assert (found["message"], found["stat"][0]["path"]) == ("two", "model.safetensors")
    assert two("show", "HEAD:model.safetensors", "--name-only").out.endswith("\nmodel.safetensors\n")
    two("show", "nope", "--stat", code=3)


def test_fetch_with_prune_forgets_what_is_gone(shared):
    mine, clone = shared
    assert {item["name"] for item in clone.json("branch", "-r")} == {"origin/main", "origin/side"}
    mine("-C", mine.folder.parent / "store", "branch", "-D", "side")
    assert clone.json("fetch", "--prune", "--tags")["remote"] == "origin"
    assert {item["name"] for item in clone.json("branch", "-r")} == {"origin/main"}
    clone("fetch", "-p", "-q")
    clone("pull", "--ff-only")


def test_branch_with_force_moves_it(two):
    first, second = (item["id"] for item in reversed(two.json("log")))
    two("branch", "-f", "side", "HEAD~1")
    assert f"(was {first[:12]})" in two("branch", "-f", "side").out
    assert two.json("rev-parse", "side")[0]["id"] == second
    assert [entry["commit"] for entry in two.json("reflog", "side")] == [second, first]
    two("branch", "--force", "side", first)
    assert {item["name"]: item["commit"] for item in two.json("branch")} == {"main": second, "side": first}
    assert "mvcs reset HEAD~1" in two("branch", "-f", "main", "HEAD~1", code=4).err
    assert "exists" in two("branch", "side", code=4).err
    two("branch", "-f", code=2)
    two("branch", "-f", "side", "nope", code=3)
    assert two.json("branch", "-f", "-d", "side")[0]["name"] == "main"


def test_tags_with_lines_of_their_messages(two):
    two("tag", "-a", "v1", "-m", "first line\n\nthird line")
    two("tag", "v2", "HEAD~1")
    for words in (("-n",), ("-n1",), ("-l", "-n"), ("-n", "v*")):
        v1, v2 = two("tag", *words).out.splitlines()
        assert v1.endswith("  first line")
        assert v2.endswith("  one")
    assert two("tag", "-n9", "v1").out.splitlines()[1:] == ["    ", "    third line"]
    assert "line" not in two("tag", "-n0", "v1").out
    assert [item["message"] for item in two.json("tag", "-n")] == ["first line\n\nthird line", "one"]
    assert [item["message"] for item in two.json("tag")] == ["first line\n\nthird line", ""]


def test_cat_file_tells_kind_size_and_whether_it_is_there(two):
    commit = two.json("cat-file", "HEAD")
    assert two("cat-file", "-t", "HEAD").out == "commit\n"
    assert two("cat-file", "-s", "HEAD").out == f"{commit['size']}\n"
    assert two("cat-file", "-e", "HEAD").out == ""
    assert two("cat-file", "-e", "abcdef012345", code=3).out == ""
    assert two.json("cat-file", "-t", "HEAD") == {name: commit[name] for name in ("kind", "id", "size")}
    two("cat-file", "-t", "--raw", "HEAD", code=2)


def test_mvcs_as_a_module(two):
    line = [sys.executable, "-m", "mvcs", "log", "--oneline"]
    found = subprocess.run(line, cwd=two.folder, env=os.environ, capture_output=True, text=True, check=True)
    assert found.stdout == two("log", "--oneline").out
    failed = subprocess.run([*line[:3], "lgo"], cwd=two.folder, capture_output=True, text=True, check=False)
    assert (failed.returncode, "mvcs: error: there is no command 'lgo'" in failed.stderr) == (2, True)


def test_quiet_commands_answer_nothing(two):
    two.model(shift=2.0)
    for words in (
        ("commit", "-q", "-am", "three"),
        ("checkout", "-q", "HEAD~1"),
        ("switch", "-q", "main"),
        ("reset", "--quiet", "HEAD~1"),
        ("restore", "-q", "-f", "model.safetensors"),
    ):
        result = two(*words)
        assert (result.out, result.err) == ("", ""), words
    assert two.json("checkout", "-q", "HEAD")["branch"] == "main"
    assert "no branch" in two("switch", "-q", "nope", code=3).err


def test_checkout_with_detach_leaves_the_branch(two):
    assert two.json("checkout", "--detach")["branch"] is None
    two("switch", "main")
    report = two.json("checkout", "--detach", "main~1")
    assert (report["branch"], report["commit"]["message"]) == (None, "one")
    two("checkout", "--detach", "-b", "x", code=2)


def test_a_clone_stands_on_the_branch_that_is_named(shared):
    mine, _ = shared
    store = mine.folder.parent / "store"
    for number, word in enumerate(("-b", "--branch")):
        assert mine.json("clone", word, "side", store, f"../c{number}")["head"]["message"] == "one"
    assert Console(mine.folder.parent / "c0").json("status")["branch"] == "side"
    assert "no branch or tag named 'nope'" in mine("clone", "-b", "nope", store, "../c9", code=3).err
    assert not (mine.folder.parent / "c9").exists()


def test_a_clone_stands_detached_on_the_tag_that_is_named(shared):
    mine, _ = shared
    mine("tag", "v1", "HEAD~1")
    mine("push", "origin", "v1")
    found = mine.json("clone", "-b", "v1", mine.folder.parent / "store", "../tagged")
    assert (found["head"]["message"], found["branch"]) == ("one", None)
    assert Console(mine.folder.parent / "tagged").json("status")["branch"] is None


def test_push_with_a_lease_replaces_only_what_was_seen(shared):
    mine, clone = shared
    mine("commit", "--amend", "-m", "two, mine")
    mine("push", code=4)
    clone.commit("theirs", seed=3)
    clone("push")
    assert "last seen" in mine("push", "--force-with-lease", code=4).err
    mine("fetch")
    assert mine.json("push", "--force-with-lease")["updated"][0]["forced"]
    clone("fetch")
    assert clone.json("log", "origin/main", "-1")[0]["message"] == "two, mine"


def test_all_files_of_which_one_is_gone_say_how_it_leaves(two):
    (two.folder / "model.safetensors").unlink()
    assert "mvcs rm" in two("commit", "-am", "three", code=3).err
    two("rm", "model.safetensors", "-m", "three")
    assert two("status", "-s").out == ""


def test_the_first_commit_of_restored_files_does_not_speak_of_ancestors(two, tmp_path):
    two.model(shift=2.0)
    two("commit", "-am", "rounded", "--step-size", 0.5)
    two("checkout", "HEAD", "-o", tmp_path / "other" / "model.safetensors")
    other = Console(tmp_path / "other")
    other("init")
    assert "ancestor" not in other("commit", "model.safetensors", "-m", "first").out
