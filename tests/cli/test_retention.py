"""`mvcs retention` as people type it."""

import re
from pathlib import Path

import pytest

from mvcs import Repository
from tests.cli.conftest import Console
from tests.repository.states import state


@pytest.fixture
def trained(tmp_path: Path, console: Console) -> Console:
    """Ten commits of a run, with steps and a metric."""
    with Repository.init(tmp_path) as repo:
        for number in range(10):
            repo.commit(state(number), step=100 * number + 100, metrics={"val_loss": float(number)})
    return console


def test_rules_are_set_and_shown(trained: Console) -> None:
    assert "no rule is about data: none are dropped" in trained("retention").out
    said = trained(
        "retention", "set", "--last", "2", "--every", "300", "--best", "1:val_loss", "--tagged"
    ).out
    assert "keeps the data: the last 2 of each branch" in said
    assert "retention apply --dry-run" in said
    trained("retention", "set", "--exact", "--last", "3", "--newer", "36h")
    found = trained("retention", "show", "--json").json["rules"]
    assert [(rule["layer"], rule["keeps"]) for rule in found] == [
        ("exact layer", "the last 3 of each branch"),
        ("exact layer", "newer than 36h"),
        ("data", "the last 2 of each branch"),
        ("data", "every 300 steps"),
        ("data", "the 1 best by val_loss"),
        ("data", "tagged"),
    ]
    assert "no rule is about data" in trained("retention", "set", "--none").out
    assert [rule["layer"] for rule in trained("retention", "--json").json["rules"]] == ["exact layer"] * 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "give rules"),
        (["--none", "--last", "2"], 2, "--none goes with no rule"),
        (["--last", "0"], 2, "at least 1"),
        (["--last", "2", "--last", "3"], 2, "'last' is given twice"),
        (["--newer", "3 fortnights"], 2, "is not an age"),
        (["--best", "val_loss"], 2, "K:METRIC"),
        (["--best", "0:val_loss"], 2, "whole number from 1"),
        (["--best", "1:min:val_loss", "--best", "1:max:val_loss"], 2, "contradict each other"),
        (["--best", "1:up:val_loss"], 3, "as min or max: 3:max:val_acc"),
        (["--pinned"], 2, "mvcs retention pin REV"),
        (["--best", "1:acc"], 3, "no commit has the metric 'acc'"),
        (["--last", "1"], 4, "would drop 9 of 10 commits"),
        (["--every", "7000"], 4, "--force"),
        (["--last", "1", "--remote", "lab"], 3, "no remote named 'lab'"),
    ],
)
def test_what_cannot_be_meant_is_refused(trained: Console, words: list[str], code: int, said: str) -> None:
    assert said in trained("retention", "set", *words, code=code).err
    assert trained("retention", "--json").json["rules"] == []


def test_what_may_be_meant_is_done_with_force(trained: Console) -> None:
    assert "no commit has the metric 'acc'" in trained("retention", "set", "--best", "1:acc", "--force").out
    trained("retention", "set", "--last", "1", "--force")
    assert len(trained("retention", "--json").json["rules"]) == 1


def test_a_rule_that_no_commit_matches_is_told(trained: Console) -> None:
    said = "no commit matches the rule for the data yet: tagged"
    assert said in trained("retention", "set", "--last", "2", "--tagged").out
    assert said in trained("retention", "apply", "--dry-run").out
    assert "no commit matches" not in trained("retention", "set", "--last", "2", "--every", "300").out


def test_pins(trained: Console) -> None:
    trained("retention", "pin", "step:300", "--reason", "figure 3")
    commit = trained("rev-parse", "step:300").out.strip()
    assert trained("retention", "show", "--json").json["pins"] == [{"commit": commit, "reason": "figure 3"}]
    assert f"pinned {commit[:12]}: figure 3" in trained("retention").out
    assert "it was pinned before: figure 3" in trained("retention", "pin", "step:300").out
    assert "it was pinned before\n" in trained("retention", "pin", "step:300").out
    assert "it was pinned" not in trained("retention", "pin", "step:500").out
    trained("retention", "unpin", "step:500")
    assert "is not pinned" in trained("retention", "unpin", "HEAD", code=3).err
    trained("retention", "unpin", "step:300")
    assert trained("retention", "show", "--json").json["pins"] == []


def test_a_remote_pins_only_what_it_has(trained: Console, tmp_path: Path) -> None:
    trained("branch", "old", "step:300")
    trained("remote", "add", "lab", tmp_path / "lab")
    trained("push", "lab", "old")
    said = trained("retention", "pin", "HEAD", "--remote", "lab", code=3).err
    assert "remote 'lab' does not have commit" in said
    assert "mvcs push lab" in said
    assert trained("retention", "show", "--remote", "lab", "--json").json["pins"] == []
    trained("retention", "pin", "step:200", "--remote", "lab")
    commit = trained("rev-parse", "step:200").out.strip()
    assert trained("retention", "show", "--remote", "lab", "--json").json["pins"] == [
        {"commit": commit, "reason": ""}
    ]
    assert trained("retention", "show", "--json").json["pins"] == []


def test_it_shows_what_would_go_and_then_drops_it(trained: Console) -> None:
    said = trained("retention", "apply", "--dry-run").out
    assert "would drop nothing" in said
    assert "nothing: no rules are set, and 'mvcs retention set' sets them" in said
    trained("retention", "set", "--last", "2", "--every", "400")
    plan = trained("retention", "apply", "--dry-run").out
    assert "would drop the data of main@500 (" in plan
    assert "no rule keeps it" in plan
    assert "would drop the data of 6 commits; keeps the data of 4 commits" in plan
    assert "'mvcs retention apply' drops it" in plan
    planned = trained("retention", "apply", "--dry-run", "--json").json
    assert (planned["executed"], len(planned["dropped"]), len(planned["kept"])) == (False, 6, 4)
    assert planned["bytes"] > 0
    said = trained("retention", "apply", "-v").out
    assert "dropped the data of main@500 (" in said
    assert "keeps the data of main@1000 (" in said
    assert "'mvcs gc --execute' deletes packs that nothing needs when they are 14 days old" in said
    assert "dropped the data of 0 commits" not in trained("retention", "apply").out
    log = trained("log", "--oneline").out.splitlines()
    assert sum("data dropped" in line for line in log) == 6
    assert all("  was " in line for line in log if "data dropped" in line)
    shown = trained("show", "main@500").out
    assert "Sizes:   was stored " in shown
    assert "data dropped, and still there until gc" in " ".join(shown.split())
    trained("gc", "--grace", "0", "--execute")
    error = trained("checkout", "main@500", "-o", "x.npz", code=3).err
    assert "the data of commit main@500" in error
    assert "nearest commit that is there is main@400" in error
    assert "the data of 6 commits were dropped on purpose" in trained("fsck").out
    trained("lineage", "rebuild")
    assert "the data of 6 commits were dropped so far" in trained("retention").out


def test_hints_name_the_store_that_is_meant(trained: Console, tmp_path: Path) -> None:
    trained("remote", "add", "lab", tmp_path / "lab")
    trained("push", "lab", "main")
    said = trained("retention", "set", "--last", "2", "--remote", "lab").out
    said += trained("retention", "apply", "--remote", "lab", "--dry-run").out
    said += trained("retention", "apply", "--remote", "lab").out
    said += trained("retention", "set", "--last", "5", "--remote", "lab").out
    said += trained("retention", "pin", "step:300", "--remote", "lab").out
    said += trained("retention", "unpin", "step:200", "--remote", "lab", code=3).err
    for options in ([], ["--execute"], ["--grace", "0"], ["--grace", "0", "--execute"]):
        said += trained("gc", "--remote", "lab", *options).out
    hinted = [words for words in said.split("'") if words.startswith("mvcs ")]
    assert {" ".join(words.split()[:3]) for words in hinted} >= {"mvcs gc --remote", "mvcs retention apply"}
    assert [words for words in hinted if "--remote lab" not in words] == []


def test_exact_layers_and_data_are_counted_apart(console: Console) -> None:
    console("init")
    console("config", "retention.exact_layers", "4")
    with Repository.open(console.folder) as repo:
        for number in range(4):
            repo.commit(state(number), step=100 * number, step_size=0.5)
    console("retention", "set", "--exact", "--last", "2")
    plan = console("retention", "apply", "--dry-run").out
    heads, values, layers, *_ = plan.splitlines()[-4:]
    assert heads.split("  ")[-2:] == ["after this", "after gc"]
    assert len(set(values.split()[1::2])) == 1
    assert layers.split()[2] != layers.split()[4] == layers.split()[6]
    assert "mvcs gc" not in plan
    console("retention", "set", "--last", "2")
    both = console("retention", "apply", "--dry-run", "--json").json
    assert 0 < both["layer_bytes"] < both["bytes"]
    before = sum(path.stat().st_size for path in console.folder.rglob("exact/*/*.pack"))
    said = console("retention", "apply").out
    assert re.search(r"^ +before +now +after gc$", said, re.MULTILINE)
    assert "'mvcs gc --execute' deletes packs" in said
    after = sum(path.stat().st_size for path in console.folder.rglob("exact/*/*.pack"))
    assert before - after == both["layer_bytes"]


def test_many_whose_data_were_dropped_before_stand_on_one_line(trained: Console) -> None:
    trained("retention", "set", "--last", "2")
    trained("retention", "apply")
    trained("retention", "pin", "step:300")
    first, last = (trained("rev-parse", f"step:{step}").out[:12] for step in (800, 100))
    ends = f"main@800 ({first}) to main@100 ({last})"
    said = trained("retention", "set", "--last", "100").out
    assert f"the data of 7 commits, {ends}, were dropped before, but are still there: gc keeps them" in said
    trained("retention", "set", "--last", "2")
    trained("retention", "unpin", "step:300")
    trained("retention", "apply")
    trained("gc", "--grace", "0", "--execute")
    said = trained("retention", "set", "--last", "100").out
    assert f"the data of 8 commits, {ends}, were dropped before, and are gone" in said


def test_a_branch_of_a_remote_is_named_as_the_reason(trained: Console, tmp_path: Path) -> None:
    trained("remote", "add", "lab", tmp_path / "lab")
    trained("push", "lab", "main")
    with Repository.open(trained.folder) as repo:
        for number in range(10, 14):
            repo.commit(state(number), step=100 * number + 100)
    trained("retention", "set", "--last", "2")
    lines = trained("retention", "apply", "--dry-run", "-v").out.splitlines()
    assert any("main@900" in line and line.endswith(": the last 2 of lab/main") for line in lines)


def test_the_configured_goal_of_a_metric_is_recorded(trained: Console) -> None:
    trained("config", "metric.val_loss.goal", "max")
    said = trained("retention", "set", "--best", "2:val_loss").out
    assert "keeps the data: the 2 best by val_loss (max)" in said
    assert "(min)" in trained("retention", "set", "--best", "2:min:val_loss").out


def test_many_that_go_for_one_reason_stand_on_one_line(trained: Console) -> None:
    trained("retention", "set", "--last", "1", "--force")
    said = trained("retention", "apply", "--dry-run", "--force").out.splitlines()
    first, last = (trained("rev-parse", f"step:{step}").out[:12] for step in (900, 100))
    ends = f"main@900 ({first}) to main@100 ({last})"
    assert said[0] == f"would drop the data of 9 commits, {ends}: no rule keeps it (-v lists them)"
    listed = trained("retention", "apply", "--dry-run", "--force", "-v").out
    assert sum("would drop the data of main@" in line for line in listed.splitlines()) == 9


def test_what_keeps_nothing_is_refused_when_it_is_applied(trained: Console) -> None:
    trained("retention", "set", "--last", "1", "--force")
    assert "say so with --force" in trained("retention", "apply", code=4).err
    assert "the data of 9 commits" in trained("retention", "apply", "--force").out


def test_a_metric_that_nobody_has_drops_nothing(trained: Console) -> None:
    trained("retention", "set", "--best", "1:acc", "--force")
    assert "no commit has the metric 'acc'" in trained("retention", "apply", code=3).err


def test_whoever_goes_to_a_commit_without_data_hears_it(trained: Console) -> None:
    trained("retention", "set", "--last", "2")
    trained("retention", "apply")
    trained("gc", "--execute", "--grace", "0")
    gone = trained("checkout", "step:300", code=3).err
    assert "the data of commit main@300 (" in gone
    assert "the nearest commit that is there is main@900" in gone
    assert "'late' names its history alone" in trained("branch", "late", "step:300").err
    assert "'t1' names its history alone" in trained("tag", "t1", "step:300").err
    assert "were dropped on" in trained("checkout", "late", code=3).err
    assert "its data were dropped" in trained("checkout", "late", "--force").out
    trained("switch", "main")
    assert "its data were dropped" in trained("switch", "late").out


def test_dropped_data_that_are_still_there_are_said_to_be_so_everywhere(trained: Console) -> None:
    trained("retention", "set", "--last", "2")
    trained("retention", "apply")
    commit = trained("rev-parse", "--short", "step:300").out.strip()
    for words in (["checkout", "--plan", "step:300"], ["checkout", "step:300", "-o", "there.npz"]):
        said = trained(*words).err
        assert f"note: the data of commit {commit} were dropped on 20" in said
        assert f"'mvcs retention pin {commit}', then 'mvcs retention apply', brings them back" in said
    shown = " ".join(trained("show", "step:300").out.split())
    assert "no rule kept it (the rules then, record 0: the last 2 of each branch); they are still" in shown
    assert trained("show", "step:300", "--json").json["commit"]["data_left"]
    said = trained("checkout", "step:300")
    assert "they are still there" in said.err
    assert "not restored" not in said.out
    trained("checkout", "main")
    assert "are still there: where 't1' keeps them" in trained("tag", "t1", "step:300").err
    found = trained("stats", "--json").json
    assert (found["commits"], found["dropped"]) == (10, 8)
    trained("retention", "pin", commit)
    trained("retention", "apply")
    assert "data dropped" not in trained("log", "-1", commit).out
    trained("gc", "--execute", "--grace", "0")
    after = trained("stats", "--json").json
    assert (after["dropped"], after["raw_bytes"]) == (7, found["raw_bytes"] * 3 // 2)
    trained("checkout", commit, "-o", "back.npz")
    gone = " ".join(trained("show", "step:400").out.split())
    assert "they are gone from this store" in gone
    assert not trained("show", "step:400", "--json").json["commit"]["data_left"]


def test_commits_are_named_by_the_branch_that_was_asked_or_head_is_on(trained: Console) -> None:
    trained("branch", "again", "step:600")
    with Repository.open(trained.folder) as repo:
        repo.commit(state(60), step=750, branch="again")
    trained("retention", "set", "--last", "1", "--force")
    assert "drop the data of main@300 (" in trained("retention", "apply", "--dry-run", "--force", "-v").out
    trained("retention", "apply", "--force")
    trained("gc", "--execute", "--grace", "0")
    assert "there is main@1000 (" in trained("checkout", "main@700", "-o", "x.npz", code=3).err
    said = trained("checkout", "again@400", "-o", "x.npz", code=3).err
    assert "the data of commit again@400 (" in said
    assert "there is again@750 (" in said
    trained("switch", "again")
    assert "commit again@400 (" in trained("checkout", "step:400", "-o", "x.npz", code=3).err


def test_what_a_lost_pack_held_is_corruption(trained: Console) -> None:
    with Repository.open(trained.folder) as repo:
        commit = repo._session.resolver.resolve("step:300").id
        [name] = repo._session.store.manifests.placement(commit).own
        (repo._session.place.local / "packs" / name[:2] / f"{name}.pack").unlink()
    for words in (["checkout"], ["checkout", "--plan"], ["show"]):
        assert "is not in the store" in trained(*words, "step:300", code=5).err


def test_a_number_that_no_record_takes_is_refused(console):
    console("init")
    assert "'last' cannot be" in console("retention", "set", "--last", "9" * 23, code=2).err


def test_of_a_remote_it_does_not_say_that_old_exact_layers_go(trained: Console, tmp_path: Path) -> None:
    trained("remote", "add", "lab", tmp_path / "lab")
    trained("push", "lab")
    trained("retention", "set", "--remote", "lab", "--last", "2")
    said = trained("retention", "show", "--remote", "lab").out
    assert "exact layers that were pushed there stay" in said
    assert "each branch keeps its newest" not in said
    assert "each branch keeps its newest" in trained("retention", "show").out


def test_the_table_says_what_the_store_takes_now_and_after_gc(trained: Console, tmp_path: Path) -> None:
    def taken() -> int:
        return sum(path.stat().st_size for path in tmp_path.rglob("packs/*/*.pack"))

    trained("retention", "set", "--last", "2")
    told = [taken()]
    planned = trained.json("retention", "apply", "--dry-run")["store_bytes"]["values"]
    done = trained.json("retention", "apply")["store_bytes"]["values"]
    told.append(taken())
    trained("gc", "--execute", "--grace", "0", "--wait", "0")
    told.append(taken())
    assert done == told
    assert planned == pytest.approx(told, rel=0.02)


def test_gc_at_once_is_offered_where_nobody_else_wrote(trained: Console, tmp_path: Path) -> None:
    at_once = "no other clone has written here: 'mvcs gc --execute --grace 0 --wait 0' frees the room at once"
    store = tmp_path / ".mvcs"
    store.chmod(0o755)
    trained("retention", "set", "--last", "2")
    assert at_once in trained("retention", "apply", "--dry-run").out
    assert at_once in trained("compact", "--max-depth", "1", "--dry-run").out
    store.chmod(0o775)
    assert at_once not in trained("retention", "apply", "--dry-run").out
    store.chmod(0o755)
    trained("clone", store, "clone")
    clone = Console(trained.folder / "clone")
    clone("branch", "theirs", "HEAD~1")
    clone("push", "origin", "theirs")
    assert at_once not in trained("retention", "apply", "--dry-run").out
    assert not trained.json("compact", "--max-depth", "1", "--dry-run")["sole_writer"]


def test_what_would_free_nothing_is_not_done(console: Console) -> None:
    console("init")
    (console.folder / ".mvcs").chmod(0o755)
    with Repository.open(console.folder) as repo:
        for number in range(4):
            repo.commit(state(0), step=number)
    before = sorted(console.packs())
    console("retention", "set", "--last", "2")
    for words in (["--dry-run"], []):
        found = console.json("retention", "apply", *words)
        assert (found["executed"], found["bytes"], len(found["dropped"])) == (False, 0, 2)
        assert "nothing is changed" in found["notes"][0]
    assert sorted(console.packs()) == before
    assert "drops it" not in console("retention", "apply").out
    assert console.json("retention", "apply", "--force")["executed"]
    assert "data dropped" in console("log", "--oneline").out
