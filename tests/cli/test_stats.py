"""`mvcs stats` as a user types it."""


def test_it_shows_tables_and_histograms(history):
    out = history("stats").out
    assert out.startswith("5 commits: ")
    for title in ("class", "encoding", "branch", "deltas behind a commit", "bytes that a restore reads"):
        assert f"\n{title}" in out
    assert "'mvcs gc' would free 0 B" in out
    assert "█" in out
    assert "a month costs" not in out


def test_a_price_adds_what_a_month_costs(history):
    out = history("stats", "--price", "23").out
    assert "a month costs" in out
    assert "at 23 a GB" in out
    assert "price" in history("stats", "--price", "nan", code=2).err


def test_json_has_the_same(history):
    found = history.json("stats", "--price", "0.5")
    assert found["commits"] == 5
    assert {item["name"] for item in found["branches"]} == {"main", "side"}
    assert found["freeable"] == {"gc": 0, "waiting": 0, "retention": None, "compact": None}
    assert found["stored_bytes"] == found["value_bytes"] + found["exact_bytes"]
    assert found["monthly"] == found["stored_bytes"] / 1e9 * 0.5


def test_a_plan_tries_retention_and_compaction_and_keeps_nothing(history):
    before = sorted(path for path in history.folder.rglob("*.pack"))
    found = history.json("stats", "--plan")["freeable"]
    assert found["retention"] == 0
    history("retention", "set", "--last", "2")
    assert isinstance(history.json("stats", "--plan")["freeable"]["compact"], int)
    assert "'mvcs retention apply' " in history("stats", "--plan").out
    assert sorted(path for path in history.folder.rglob("*.pack")) == before


def test_an_empty_repository(mvcs):
    assert mvcs("stats").out.startswith("0 commits")


def test_small_prices_are_told_without_exponents(history):
    out = history("stats", "--price", "0.00005").out
    assert "at 0.00005 a GB" in out
    assert "e-" not in out.partition("a month costs ")[2].partition(" at ")[0]


def test_what_restores_read_is_said_to_be_data_alone(history):
    assert "of tensor data alone; 'mvcs show' and 'mvcs checkout --plan' count" in history("stats").out
