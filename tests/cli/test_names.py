"""Branches, tags and switching between them."""

import pytest

from tests.cli.conftest import Console
from tests.cli.test_files import digest


def names(console, command="branch"):
    return [item["name"] for item in console.json(command)]


def test_branches_are_listed_with_a_star_at_the_current(history):
    lines = history("branch").out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["main", line.split()[1]] if "main" in line else ["*", "side"] for line in lines
    ]
    assert sorted(names(history)) == ["main", "side"]


def test_make_rename_delete(history):
    assert history("branch", "old", "step:1").out == "Made branch old\n"
    history("branch", "-m", "old", "new")
    assert sorted(names(history)) == ["main", "new", "side"]
    history("branch", "-d", "new")
    assert sorted(names(history)) == ["main", "side"]


def test_a_branch_with_commits_of_its_own_is_not_deleted_by_accident(history):
    history("switch", "main")
    assert "mvcs branch -D side" in history("branch", "-d", "side", code=4).err
    history("branch", "-d", "side", "--force")
    assert names(history) == ["main"]


def test_the_current_branch_is_not_deleted(history):
    history("branch", "-d", "side", "--force", code=4)


def test_switch_brings_the_files_of_the_other_branch(history):
    before = digest(history.folder / "model.safetensors")
    report = history.json("switch", "main")
    assert report["branch"] == "main"
    assert digest(history.folder / "model.safetensors") != before


def test_switch_keeps_uncommitted_changes(history):
    changed = digest(history.model(seed=99))
    assert "--force" in history("switch", "main", code=4).err
    assert digest(history.folder / "model.safetensors") == changed
    assert history.json("status")["branch"] == "side"


def test_switch_makes_a_branch(history):
    history("switch", "-c", "low-lr", "main~1")
    assert history.json("status")["branch"] == "low-lr"
    assert history.json("log", "-n", 1)[0]["message"] == "step 1"
    assert "-c" in history("switch", "main", "main~1", code=2).err


def test_switch_to_nothing(history):
    history("switch", "nope", code=3)


def test_tags(history):
    history("tag", "release", "main", "-m", "what the paper reports")
    assert names(history, "tag") == ["release"]
    assert "what the paper reports" in history("tag").out
    assert "tag: release" in history("log", "main", "-n", 1).out
    history("tag", "release", "main~1", code=4)
    history("tag", "-a", "v1.0", "-m", "a version")
    history("tag", "v1.1")
    assert names(history, "tag") == ["release", "v1.0", "v1.1"]
    assert [tag["name"] for tag in history.json("tag", "-l", "v1.*")] == ["v1.0", "v1.1"]
    assert history("tag", "--list", "nothing").out == ""
    history("tag", "-d", "release", "v1.0", "v1.1")
    assert names(history, "tag") == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("branch", ("a", "-d", "-m", "main")),
        ("branch", ("--force",)),
        ("tag", ("-m", "x")),
        ("tag", ("-d",)),
        ("tag", ("x", "-d", "-l")),
        ("tag", ("-a", "x")),
        ("tag", ("x", "main", "side")),
    ],
)
def test_contradictions_are_usage_errors(history, command, words):
    history(command, *words, code=2)


@pytest.mark.parametrize(
    "pair", [("Main", "main2"), ("a", "a/b"), ("con", "aux"), ("größe", "模型"), ("x.y", "x_y")]
)
def test_names_that_disks_dislike(history, pair):
    for name in pair:
        history("branch", name)
    assert set(pair) <= set(names(history))
    for name in pair:
        assert history.json("log", name, "-n", 1)[0]["message"] == "side 6"
        history("branch", "-d", name)


def test_names_that_differ_by_case_stay_apart(history):
    history("branch", "Main", "main~2")
    assert history.json("log", "Main", "-n", 1)[0]["message"] == "step 0"
    assert history.json("log", "main", "-n", 1)[0]["message"] == "step 2"


@pytest.mark.parametrize("name", ["", "../escape", "a b", "HEAD", "a~1", "a^", "a\nb", "-x", "@{1}"])
def test_names_that_would_confuse(history, name):
    result = history("branch", "--", name, code=2)
    assert result.err.startswith("mvcs: error: ")
    assert sorted(names(history)) == ["main", "side"]


def test_one_damaged_tag_hides_nothing_else(history):
    history("tag", "broken", "main")
    history("tag", "whole", "main")
    head = history.json("log", "-n", 1)[0]["id"]
    (record,) = (history.folder / ".mvcs/refs/tags/broken").iterdir()
    record.chmod(0o644)
    record.write_bytes(b"rot" + record.read_bytes()[3:])
    shown = history("log", "--all", "--graph")
    assert "whole" in shown.out
    assert "'broken' is left out" in shown.err
    assert [tag["name"] for tag in history.json("tag")] == ["whole"]
    history.commit("later", shift=0.5)
    assert history.json("show", head[:12])["commit"]["id"] == head
    assert history.json("show", "HEAD")["commit"]["message"] == "later"
    history("show", "broken", code=5)
    assert history.json("fsck", code=5)["ok"] is False


def test_a_store_given_without_a_root_is_found_from_anywhere(tmp_path):
    here = Console(tmp_path)
    here("init", "run", "--store", "shared/store")
    run, deep = Console(tmp_path / "run"), tmp_path / "run" / "deep" / "er"
    run.commit("first")
    deep.mkdir(parents=True)
    assert Console(deep).json("log")[0]["message"] == "first"
    assert (tmp_path / "shared/store/mvcs.json").is_file()
    (tmp_path / "run/.mvcs/config.toml").write_text('[store]\nurl = "../shared/store"\n')
    assert Console(deep).json("log")[0]["message"] == "first"
