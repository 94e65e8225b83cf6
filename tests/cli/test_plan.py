"""`mvcs checkout --plan`, and the cost of restores in `show` and `log --stat`."""


def test_a_plan_says_what_is_read_and_restores_nothing(history):
    before = (history.folder / "model.safetensors").read_bytes()
    out = history("checkout", "--plan", "main~2").out
    assert "  reads " in out
    assert " deep\n" in out
    assert "  about " in out
    assert "  would write model.safetensors" in out
    assert (history.folder / "model.safetensors").read_bytes() == before
    assert history.json("status")["branch"] == "side"


def test_a_plan_of_an_export(history, elsewhere):
    found = history.json(
        "checkout", "--plan", "main", "-o", elsewhere.folder / "x.safetensors", "--tensor", "*bias"
    )
    whole = history.json("checkout", "--plan", "main", "-o", elsewhere.folder / "x.safetensors")
    assert 0 < found["requests"] < whole["requests"]
    assert 0 < found["read_bytes"] < whole["read_bytes"]
    assert not list(elsewhere.folder.glob("x*"))


def test_a_plan_measures_when_asked(history):
    first = history.json("checkout", "--plan", "main")["measured"]
    assert history.json("checkout", "--plan", "main")["measured"] == first
    assert history.json("checkout", "--plan", "--measure", "main")["measured"] != first


def test_plans_and_what_they_do_not_go_with(history):
    assert "-b" in history("checkout", "--plan", "-b", "new", code=2).err
    assert "--plan" in history("checkout", "--measure", "main", code=2).err
    assert "one REV" in history("checkout", "--plan", "main", "side", code=2).err


def test_show_and_log_say_what_a_restore_takes(history):
    shown = history("show", "main").out
    assert "\nRestore:   reads " in shown
    assert "about" not in shown.partition("Restore:")[2].partition("\n")[0]
    history("checkout", "--plan", "main")
    assert "about" in history("show", "main").out.partition("Restore:")[2].partition("\n")[0]
    restore = history.json("show", "main")["restore"]
    (listed,) = history.json("log", "--stat", "-1", "main")
    assert listed["restore"] == restore
    assert restore["depth"] == history.json("checkout", "--plan", "main")["depth"] > 0


def test_after_a_compaction_everything_says_the_same_depth(history):
    history("compact", "--max-depth", 1)
    (listed,) = history.json("log", "--stat", "-1", "main")
    shown, plan = history.json("show", "main"), history.json("checkout", "--plan", "main")
    assert [listed["restore"]["depth"], shown["restore"]["depth"], plan["depth"]] == [1, 1, 1]
    assert max(part["depth"] for part in shown["classes"]) == 1
    assert "depth" not in listed
    assert "depth" not in history("log", "main").out
    assert " a restore reads " in history("log", "--stat", "-1", "main").out
