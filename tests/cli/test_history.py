"""Looking back: log, show, diff, notes, reflog, single objects, revisions."""

import hashlib
import json
import re
import shutil

import pytest
import torch

from mvcs import Repository
from mvcs.config import DEFAULTS


def messages(console, *words):
    return [commit["message"] for commit in console.json("log", *words)]


def test_log_is_newest_first(history):
    assert messages(history) == ["side 6", "side 5", "step 1", "step 0"]
    assert messages(history, "main") == ["step 2", "step 1", "step 0"]
    assert messages(history, "-n", 2) == ["side 6", "side 5"]
    assert messages(history, "-n", 0) == []


def test_log_from_every_branch(history):
    assert sorted(messages(history, "--all")) == ["side 5", "side 6", "step 0", "step 1", "step 2"]
    assert "--all" in history("log", "main", "--all", code=2).err


def test_log_says_what_a_commit_is(history):
    out = history("log", "main", "-n", 1).out
    for line in (
        r"^commit [0-9a-f]{12} \(main\)$",
        "^Author: +Ada Lovelace$",
        "^Step: +2$",
        "^Metrics: +loss=1$",
    ):
        assert re.search(line, out, re.MULTILINE)
    assert re.search(r"^Sizes: +stored .* of .*, bounded; exact layer kept$", out, re.MULTILINE)
    assert "\n    step 2\n" in out


def test_log_on_one_line_each(history):
    lines = history("log", "--oneline").out.splitlines()
    assert len(lines) == 4
    assert re.fullmatch(r"[0-9a-f]{12} \(HEAD -> side\) step 6 side 6 \[loss=nan  .*B\]", lines[0])


def test_log_draws_branches(history):
    lines = history("log", "--graph", "--oneline", "--all").out.splitlines()
    assert [re.sub(r"[0-9a-f]{12} .*", "", line) for line in lines] == ["* ", "* ", "│ * ", "├─╯", "* ", "* "]


def test_log_draws_beside_full_commits(history):
    lines = history("log", "--graph", "--all").out.splitlines()
    assert all(line.startswith(("*", "│", "├", " ")) or not line for line in lines)


def test_log_of_an_empty_repository(mvcs):
    assert "no commit yet" in mvcs("log").err
    assert mvcs.json("log") == mvcs.json("log", "--all") == []
    assert "HEAD has no commit yet" in mvcs("log", "HEAD", code=3).err


def test_log_of_a_branch_without_commits_names_the_others(mvcs):
    with Repository.open(mvcs.folder) as repo:
        repo.commit({"model": torch.zeros(4)}, branch="stage-0")
    assert "'mvcs log --all' lists those of other branches" in mvcs("log").err


def test_show_breaks_bytes_down_by_class(history):
    out = history("show", "main").out
    assert re.search(r"^class +raw +stored +ratio +exact layer +depth$", out, re.MULTILINE)
    assert re.search(r"^total ", out, re.MULTILINE)
    assert re.search(r"^tensor +dtype +shape", out, re.MULTILINE)
    assert "blocks.0.weight" in out
    assert "Quantizer:" in out


def test_show_lists_the_largest_or_all(history):
    assert "and 3 smaller tensors; --all lists them" in history("show", "-n", 1).out
    assert "smaller" not in history("show", "--all").out


def test_show_in_json(history):
    found = history.json("show", "main")
    assert found["commit"]["message"] == "step 2"
    assert len(found["tensors"]) == 4


def test_show_tells_where_bytes_lie_that_this_commit_did_not_write(mvcs):
    weights = torch.randn(64, 48, generator=torch.Generator().manual_seed(0))
    state = {
        "wte": weights,
        "head": weights,
        "copy": weights.clone(),
        "ones": torch.ones(9, 8),
        "b": torch.arange(99.0),
    }
    torch.save(state, mvcs.folder / "run.pt")
    mvcs("commit", "run.pt", "-m", "one", "--step-size", 0.5)
    found = {tensor["path"]: tensor for tensor in mvcs.json("show")["tensors"]}
    assert (found["run.pt.wte"]["where"], found["run.pt.wte"]["aliases"]) == ("new", ["run.pt.head"])
    assert (found["run.pt.copy"]["where"], found["run.pt.copy"]["twin"]) == ("shared", "run.pt.wte")
    assert (found["run.pt.copy"]["new_bytes"], found["run.pt.ones"]["where"]) == (0, "constant")
    said = mvcs("show").out
    assert re.search(r"^shared: +run.pt.copy +as +run.pt.wte$", said, re.MULTILINE)
    assert re.search(r"^tied: +run.pt.wte +is +run.pt.head$", said, re.MULTILINE)
    state["b"] += 1
    torch.save(state, mvcs.folder / "run.pt")
    mvcs("commit", "-m", "two", "--step-size", 0.5)
    assert re.search(r"run.pt.wte .* - +0  unchanged, tied$", mvcs("show").out, re.MULTILINE)
    assert "unchanged: an earlier commit stored these bytes" in mvcs("show").out


def test_show_tells_which_class_makes_a_commit_deep(mvcs):
    for step in range(4):
        mvcs.commit(f"step {step}", "--step-size", 0.5, shift=step / 10)
    shown = mvcs.json("show")
    depth = shown["restore"]["depth"]
    assert max(part["depth"] for part in shown["classes"]) == depth
    assert re.search(rf"^total .* {depth}$", mvcs("show").out, re.MULTILINE)
    assert shown["classes"][0]["depth"] == max(
        tensor["depth"] for tensor in shown["tensors"] if tensor["role"] == shown["classes"][0]["name"]
    )


def test_diff_of_two_commits(history):
    out = history("diff", "main~1", "main").out
    assert re.search(r"^\S*blocks\.0\.weight .* %  █+$", out, re.MULTILINE)
    assert "3 tensors unchanged" in out


def test_diff_with_the_working_files(history):
    assert "no difference" in history("diff").out
    history.model(shift=0.9)
    found = history.json("diff")
    assert found["right"] is None
    assert [tensor["state"] for tensor in found["tensors"]] == ["changed"]


def test_notes_add_what_is_learned_later(history):
    history("note", "main", "--metric", "test=0.25")
    history("note", "main", "--metric", "test=0.5", "--metric", "other=inf")
    assert history.json("log", "main", "-n", 1)[0]["metrics"] == {"loss": 1.0, "test": 0.5, "other": "inf"}
    assert [note["metrics"] for note in history.json("note", "main")] == [
        {"test": 0.25},
        {"test": 0.5, "other": "inf"},
    ]
    assert len(history("note", "main").out.splitlines()) == 2


def test_a_note_counts_for_the_best(history):
    history("switch", "main")
    history("note", "main~1", "--metric", "test=0.1")
    history("note", "main", "--metric", "test=0.2")
    assert messages(history, "best:min:test", "-n", 1) == ["step 1"]
    history("config", "metric.test.goal", "max")
    assert messages(history, "best:test", "-n", 1) == ["step 2"]


def test_a_metric_that_is_not_there_is_answered_with_those_that_are(history):
    history("note", "main~1", "--metric", "later=1")
    for words in (("log",), ("checkout",)):
        refused = history(*words, "best:val", "--json", code=3).error
        assert refused["message"] == "no commit behind HEAD has the metric 'val'"
        assert refused["hint"].startswith("there are later, ")
        assert "dashes" not in refused["hint"]
    history("init", "bare")
    model = history.folder / "bare" / "model.safetensors"
    shutil.copy(history.folder / "model.safetensors", model)
    history("-C", "bare", "commit", "model.safetensors", "-m", "x")
    assert "mvcs note REV --metric" in history("-C", "bare", "log", "best:val", code=3).err


def test_the_best_says_which_way_it_looked(history):
    history("switch", "main")
    for revision, accuracy in (("main~2", 0.5), ("main~1", 0.75), ("main", 0.25)):
        history("note", revision, "--metric", f"val_accuracy={accuracy}", "--metric", f"distance={accuracy}")
    best = history.json("log", "main~1", "-n", 1)[0]["id"][:12]
    told = f"best:val_accuracy is the highest val_accuracy among HEAD's ancestors, 0.75, of commit {best}"
    assert told in history("log", "best:val_accuracy", "-n", 1).err
    notes = history("checkout", "best:val_accuracy", "--force", "--json").err.splitlines()
    assert {"note": told} in [json.loads(line) for line in notes]
    history("switch", "main", "--force")
    refused = history("checkout", "best:distance", "--json", code=2).error
    assert "mvcs config metric.distance.goal max" in refused["hint"]


def test_the_reflog_lists_where_a_branch_has_been(history):
    lines = history("reflog", "main").out.splitlines()
    assert len(lines) == 3
    assert "main@{0}" in lines[0]
    assert messages(history, "main@{2}", "-n", 1) == ["step 0"]
    assert [entry["commit"] for entry in history.json("reflog", "main")] == [
        commit["id"] for commit in history.json("log", "main")
    ]
    for entry in history.json("reflog", "main"):
        assert history.json("show", f"main@{{{entry['number']}}}")["commit"]["id"] == entry["commit"]


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("HEAD", "side 6"),
        ("HEAD^", "side 5"),
        ("@~1", "side 5"),
        ("main~2", "step 0"),
        ("step:5", "side 5"),
        ("step:1", "step 1"),
        ("best:loss", "step 1"),
    ],
)
def test_revisions(history, revision, message):
    assert messages(history, revision, "-n", 1) == [message]


def test_an_id_prefix_is_a_revision(history):
    identifier = history.json("log", "main")[0]["id"]
    assert messages(history, identifier[:12], "-n", 1) == ["step 2"]
    assert messages(history, identifier, "-n", 1) == ["step 2"]


@pytest.mark.parametrize(
    ("revision", "code"),
    [
        ("nope", 3),
        ("main~99", 3),
        ("step:77", 3),
        ("best:nope", 3),
        ("deadbeef", 3),
        ("main@{99}", 3),
        ("", 2),
    ],
)
@pytest.mark.parametrize("command", ["log", "show", "checkout"])
def test_revisions_that_are_none(history, command, revision, code):
    assert history(command, revision, code=code).err.startswith("mvcs: error: ")


def test_cat_file_shows_an_object(history):
    found = history.json("cat-file", "HEAD")
    assert found["kind"] == "commit"
    assert history("cat-file", "HEAD").out.startswith(f"commit {found['id']}")
    raw = history("cat-file", found["id"], "--raw").raw
    assert len(raw) == found["size"]
    assert hashlib.sha256(raw).digest()


def test_cat_file_of_a_tensor(history):
    """It is no object: the tree says what it is."""
    tensor = history.json("show")["tensors"][0]
    assert "a tensor is no object" in history("cat-file", tensor["value_id"], code=3).err
    tree = dict(history.json("cat-file", "HEAD")["value"])["tree"]
    assert tensor["dtype"] in history("cat-file", tree).out


def test_lineage_answers_in_sql(history):
    assert "Rebuilt: 5 commits" in history("lineage", "rebuild").out
    found = history.json("lineage", "query", "select step from commits order by step")
    assert found == {"columns": ["step"], "rows": [[0], [1], [2], [5], [6]]}
    assert history("lineage", "query", "select 1 as one").out == "one\n1\n"
    assert history.json("lineage") == history.json("lineage", "status")


@pytest.mark.parametrize("sql", ["delete from commits", "selec 1", "select 1; select 2", "attach 'x' as y"])
def test_lineage_only_reads(history, sql):
    assert history("lineage", "query", sql, code=2).err.startswith("mvcs: error: ")


def test_deleting_the_lineage_loses_nothing(history):
    for path in (history.folder / ".mvcs").glob("lineage*"):
        path.unlink()
    assert len(messages(history, "--all")) == 5
    history("commit", "-m", "next")
    assert len(messages(history, "--all")) == 6


def test_config(mvcs):
    assert mvcs("config", "user.name").out == "Ada Lovelace\n"
    mvcs("config", "compaction.max_depth", 8)
    assert mvcs.json("config", "compaction.max_depth") == {"compaction.max_depth": 8}
    assert "compaction.max_depth = 8" in mvcs("config", "--list").out
    assert mvcs("config", "-l").out == mvcs("config").out
    assert mvcs("config", "--get", "compaction.max_depth").out == "8\n"
    mvcs("config", "--unset", "compaction.max_depth")
    assert mvcs("config", "compaction.max_depth").out == "64\n"
    assert mvcs("config", "metric.loss.goal", code=1).out == ""


@pytest.mark.parametrize(
    "words",
    [
        ("no.such.key",),
        ("compaction.max_depth", "deep"),
        ("metric.loss.goal", "best"),
        ("--unset",),
        ("--get",),
        ("--get", "user.name", "Ada"),
        ("--global", "--local"),
        ("--list", "user.name"),
        ("user.email", "ada@example.org"),
        ("--global", "user.email", "ada@example.org"),
    ],
)
def test_config_refuses_nonsense(mvcs, words):
    mvcs("config", *words, code=2)


def test_a_wrong_setting_names_its_key_file_value_and_what_mends_it(mvcs):
    file = mvcs.folder / ".mvcs" / "config.toml"
    file.write_text('# mine\n[commit]\nthreads = "many"\n[reto]\nx.y = 1\n')
    error = mvcs("log", "--json", code=5).error
    assert all(text in error["message"] for text in (str(file), "commit.threads", "'many'", "0 to 64"))
    assert "mvcs config commit.threads VALUE" in error["hint"]
    assert mvcs("config", "commit.threads").out == "many\n"
    assert "commit.threads = many" in mvcs("config").out
    assert "commit.threads" in mvcs("config", "user.name", "Ada", code=5).err
    mvcs("config", "commit.threads", "few", code=2)
    left = mvcs("config", "commit.threads", "2").err
    assert "reto.x.y" in left
    assert "mvcs config --unset reto.x.y" in mvcs("log", "--json", code=5).error["hint"]
    mvcs("config", "--unset", "reto.x.y")
    assert file.read_text().startswith("# mine\n[commit]\nthreads = 2\n")
    mvcs("log")


def test_config_names_the_settings_there_are(mvcs):
    error = mvcs("config", "no.such", "1", "--json", code=2).error
    assert error["message"] == "no setting is called 'no.such'"
    assert all(name in error["hint"] for name in ("user.name", *DEFAULTS))
    assert (
        "did you mean 'delta.coder'?" in mvcs("config", "delta.codr", "auto", "--json", code=2).error["hint"]
    )
