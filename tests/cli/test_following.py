"""Branches that follow those of remotes: push -u, status, pull, switch; and what branch and remote list."""

import re

import pytest

from tests.cli.conftest import Console


@pytest.fixture
def lab(mvcs, tmp_path):
    """A repository with two commits on main and one on side, and an empty place for a remote."""
    mvcs.commit("first")
    mvcs("branch", "side")
    mvcs.commit("second", shift=0.1)
    mvcs("remote", "add", "lab", tmp_path / "lab")
    return mvcs


@pytest.fixture
def both(lab, tmp_path):
    """The same, pushed, and a clone of it."""
    lab("push", "-u", "lab", "main", "side")
    Console(tmp_path)("clone", "lab", "clone")
    return lab, Console(tmp_path / "clone")


def test_what_is_pushed_once_with_u_is_known_later(lab):
    assert "main follows lab/main from now on" in lab("push", "-u", "lab", "main").out
    assert "Up to date with lab/main" in lab("status").out
    lab.commit("third", shift=0.2)
    assert "1 commit ahead of lab/main" in lab("status").out
    assert lab.json("status")["upstream"] == "lab/main"
    assert lab.json("push")["remote"] == "lab"
    lab("branch", "-m", "trunk")
    assert lab.json("status")["upstream"] == "lab/main"
    assert lab.json("pull")["fast_forward"] is False
    lab("branch", "-M", "trunk")
    lab("branch", "--unset-upstream")
    assert lab.json("status")["upstream"] is None
    lab("push", "lab", "side")
    assert lab("branch", "-u", "lab/side").out == "Branch trunk follows lab/side\n"
    lab("branch", "-u", "nobody/side", code=3)
    assert "mvcs fetch lab" in lab("branch", "-u", "lab/never", "--json", code=3).error["hint"]
    lab("branch", "-u", "side", code=2)


def test_branches_of_remotes_are_listed(both):
    ours, clone = both
    assert [item["name"] for item in ours.json("branch", "-r")] == ["lab/main", "lab/side"]
    assert ours.json("branch", "-r")[0]["remote"] is True
    lines = ours("branch", "-a").out.splitlines()
    assert [line.split()[-2] for line in lines] == ["main", "side", "remotes/lab/main", "remotes/lab/side"]
    clone.commit("mine", shift=0.3)
    assert clone("branch", "-v").out.splitlines()[0].endswith(" [ahead 1] mine")
    (main, _) = clone("branch", "-vv").out.splitlines()
    assert main.endswith(" [origin/main: ahead 1] mine")
    assert [item["name"] for item in ours.json("branch", "--list", "s*")] == ["side"]
    assert ours("branch", "--show-current").out == "main\n"
    assert ours.json("log", "remotes/lab/side", "-1")[0]["message"] == "first"
    ours("branch", "-D", "side")
    ours("branch", "-d", "main", code=4)
    for words in (("-d",), ("-m",), ("-d", "a", "-m"), ("-a", "x"), ("-d", "x", "-v"), ("a", "b", "c")):
        ours("branch", *words, code=2)


def test_a_branch_that_only_a_remote_has_is_made_here(both):
    ours, clone = both
    ours("switch", "-c", "run/7")
    ours.commit("of the run", shift=0.5)
    ours("push", "lab", "run/7")
    missing = clone("switch", "run/8", "--json", code=3).error
    assert "mvcs branch -a" in missing["hint"]
    clone("fetch")
    assert "did you mean 'run/7'" in clone("switch", "run/8", "--json", code=3).error["hint"]
    assert "mvcs switch run/7" in clone("log", "run/7", "--json", code=3).error["hint"]
    assert "On branch run/7, a new one that follows origin/run/7" in clone("switch", "run/7").out
    assert clone.json("status")["upstream"] == "origin/run/7"
    clone("switch", "main")
    clone("branch", "-D", "run/7")
    assert clone.json("checkout", "run/7")["upstream"] == "origin/run/7"
    assert clone("branch", "again", "origin/run/7").out.endswith("Branch again follows origin/run/7\n")
    clone("tag", "v1")
    assert "mvcs checkout v1" in clone("switch", "v1", "--json", code=3).error["hint"]
    clone("remote", "add", "other", "../lab")
    clone("fetch", "other")
    clone("branch", "-D", "run/7", code=4)
    clone("switch", "main")
    clone("branch", "-D", "run/7")
    assert "switch -c run/7 " in clone("switch", "run/7", "--json", code=2).error["hint"]


def test_a_switch_that_is_refused_leaves_no_new_branch(both):
    ours, clone = both
    ours("branch", "late", "side")
    ours("push", "lab", "late")
    clone("fetch")
    clone.model(seed=9)
    clone("switch", "late", code=4)
    clone("switch", "-c", "mine", "origin/late", code=4)
    assert [item["name"] for item in clone.json("branch")] == ["main", "side"]


def test_a_pull_of_branches_that_diverged_says_what_to_do(both):
    ours, clone = both
    ours.commit("theirs", shift=0.3)
    ours("push")
    clone.commit("mine", shift=0.4)
    error = clone("pull", "--json", code=4).error
    assert "1 and 1 commits" in error["message"]
    assert "1 commit ahead of and 1 commit behind origin/main" in clone("status").out
    clone("branch", "my-main")
    clone("reset", "--hard", "origin/main")
    assert clone.json("log", "-1")[0]["message"] == "theirs"
    assert clone.json("log", "my-main", "-1")[0]["message"] == "mine"


def test_pull_moves_the_branch_one_stands_on(both):
    ours, clone = both
    ours.commit("third", shift=0.3)
    ours("push", "lab", "main")
    clone("switch", "side")
    assert clone.json("pull", "origin", "main")["fast_forward"] is True
    assert clone.json("status")["head"]["message"] == "third"
    assert clone.json("log", "main", "-1")[0]["message"] == "second"


def test_remotes_are_shown_moved_and_renamed(both):
    ours, clone = both
    ours("remote", "add", "far", "s3://bucket/gpt", "--option", "endpoint_url=http://127.0.0.1:9")
    assert "endpoint_url=http://127.0.0.1:9" in ours("remote", "-v").out
    assert ours.json("remote", "show", "-n", "far")["options"] == {"endpoint_url": "http://127.0.0.1:9"}
    ours("remote", "set-url", "far", "s3://bucket/bert")
    assert ours.json("remote")["far"] == "s3://bucket/bert"
    assert ours("remote", "get-url", "far").out == "s3://bucket/bert\n"
    ours("remote", "set-url", "nobody", "x", code=3)
    ours("remote", "rm", "far")
    ours("branch", "new")
    ours.commit("third", shift=0.3)
    ours("push", "lab", "--all")
    shown = clone("remote", "show", "origin").out
    assert "a clone stands on: main" in shown
    for line in (
        "main +[0-9a-f]{12}  moved on",
        "new +[0-9a-f]{12}  new",
        "side +[0-9a-f]{12}  as last seen",
    ):
        assert re.search(line, shown)
    clone("remote", "rename", "origin", "up")
    assert clone.json("status")["upstream"] is None
    clone("branch", "-u", "up/main")
    clone("remote", "rename", "up", "lab2")
    assert clone.json("status")["upstream"] == "lab2/main"
    assert [item["name"] for item in clone.json("branch", "-r")] == ["lab2/main", "lab2/side"]
    clone("remote", "rename", "nobody", "x", code=3)
    clone("remote", "rm", "lab2")
    assert clone.json("status")["upstream"] is None
    assert "mvcs remote add" in clone("pull", "--json", code=3).error["hint"]
    assert "mvcs remote set-url lab" in ours("remote", "add", "lab", "x", "--json", code=4).error["hint"]


def test_one_damaged_branch_of_a_remote_hides_nothing_else(both):
    _, clone = both
    (record,) = (clone.folder / ".mvcs/refs/remotes/origin%2Fside").iterdir()
    record.chmod(0o644)
    record.write_bytes(b"rot" + record.read_bytes()[3:])
    for words in (("log", "nope"), ("switch", "nope"), ("checkout", "nope")):
        assert "nope" in clone(*words, code=3).err
    shown = clone("branch", "-avv")
    assert "remotes/origin/main" in shown.out
    assert "'origin/side' is left out" in shown.err
    clone("switch", "side")
    assert clone.json("status")["upstream"] == "origin/side"
