"""`mvcs bench` as a user types it."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from mvcs.bench.results import ComparisonReport
from mvcs.bench.runs.run_maker import make_run
from mvcs.cli.commands.bench import bounded
from mvcs.commits.request import Mechanisms
from mvcs.progress import SILENT
from mvcs.ui.bench import compared
from mvcs.ui.text import Screen
from tests.bench.ledgers import NAMES, write_arms, write_ledger
from tests.bench.runs import contents, tiny_cnn, write_encoder, write_pictures
from tests.cli.conftest import Console


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with pictures and a run of three checkpoints."""
    console = Console(tmp_path_factory.mktemp("bench"))
    write_pictures(console.folder / "pictures")
    console("bench", "make", "cnn", "run", "--steps", 2, "--every", 1, "--data", "pictures")
    return console


@pytest.fixture
def run(console, trained):
    shutil.copytree(trained.folder, console.folder, dirs_exist_ok=True)
    return console


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder with a run of three checkpoints of a small model. To be looked at."""
    console = Console(tmp_path_factory.mktemp("small"))
    make_run(tiny_cnn(console.folder), console.folder / "run", steps=2, every=1, seed=0, progress=SILENT)
    return console


def test_make_says_what_it_made_and_goes_on(run):
    answer = run.json("bench", "make", "cnn", "run", "--steps", 2, "--every", 1, "--data", "pictures")
    assert (answer["resumed"], answer["checkpoints"], answer["parameters"]) == (2, [], 1_616_362)
    assert max(path.name for path in (run.folder / "run").iterdir()) == "step_000002.pt"


SLOW = ("encoder", "gru", "gru-adagrad", "gru-rmsprop", "bf16", "bf16-pure", "muon")


@pytest.mark.parametrize("name", ["mixer", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_every_run_goes_on_as_if_it_had_not_ended(console, name):
    write_pictures(console.folder / "pictures")
    write_encoder(console.folder / "encoder")
    data = {"mixer": ("--data", "pictures"), "encoder": ("--data", "encoder")}.get(name, ())
    command = ("bench", "make", name, "run", "--steps", 2, "--every", 1, *data)
    console(*command)
    whole = contents(console.folder / "run")
    (console.folder / "run" / "step_000002.pt").unlink()
    assert console.json(*command)["resumed"] == 1
    assert contents(console.folder / "run") == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", ["finetune", "lora"])
def test_a_run_goes_on_from_gpt_and_is_replayed(console, name):
    console("bench", "make", "gpt", "base", "--steps", 1, "--every", 1)
    command = ("bench", "make", name, "run", "--from", "base", "--steps", 2, "--every", 1)
    console(*command)
    whole = contents(console.folder / "run")
    (console.folder / "run" / "step_000002.pt").unlink()
    assert console.json(*command)["resumed"] == 1
    assert contents(console.folder / "run") == whole
    assert len(console.json("bench", "bounded", "run", "--task", name)["commits"]) == 3


def test_make_asks_for_data_that_is_not_there(console):
    error = console("bench", "make", "cnn", "run", "--data", ".", "--json", code=3).error
    assert "dataset-fashion-mnist" in error["hint"]


def test_make_refuses_data_for_gpt(console):
    assert "--data is for cnn" in console("bench", "make", "gpt", "run", "--data", ".", code=2).err


def test_a_run_that_goes_on_needs_another(console):
    error = console("bench", "make", "finetune", "run", code=2).err
    assert "name its folder with --from" in error
    assert "cnn starts from scratch" in console("bench", "make", "cnn", "run", "--from", ".", code=2).err
    error = console("bench", "make", "lora", "run", "--from", ".", "--json", code=3).error
    assert "mvcs bench make gpt" in error["hint"]


def test_codec_shows_tables(small):
    text = small("bench", "codec", "run", "--quick").out
    assert "weights as bfloat16:" in text
    assert "momentum_buffer:" in text
    assert "codes: k-means, 16 values:" in text
    assert "limit near (computed)" in text


def test_codec_answers_in_json(small):
    answer = small.json("bench", "codec", "run", "--quick")
    assert answer["transitions"][0]["sections"][0]["rows"][0]["bits"] == 32


def test_codec_commits(small):
    answer = small.json("bench", "codec", "run", "--commits", "--bins", 16)
    assert [one["step"] for one in answer["commits"]] == [0, 1, 2]
    assert answer["weights"] > 5
    text = small("bench", "codec", "run", "--commits", "--every", 2).out
    assert "2 commits, method exact" in text
    assert "CR-all" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bins", 16), "need --commits"),
        (("--quick", "--commits"), "choose one"),
        (("--commits", "--prune", 0.1), "needs --bins"),
    ],
)
def test_codec_refuses_options_that_mean_nothing(console, words, message):
    assert message in console("bench", "codec", ".", *words, code=2).err


def test_codec_of_an_empty_folder(console):
    error = console("bench", "codec", ".", "--json", code=3).error
    assert "mvcs bench make" in error["hint"]


def test_bench_alone_shows_help(console):
    assert "Commands:" in console("bench").out


def test_a_mechanism_is_left_out_by_its_name(small):
    answer = small.json(
        "bench", "codec", "run", "--commits", "--without", "keep-pace", "--without", "drift-gate"
    )
    assert len(answer["commits"]) == 3
    error = small("bench", "codec", "run", "--without", "keep-pace", code=2).err
    assert "--without needs --commits" in error
    choice = next(each for each in bounded.params if each.name == "without").type
    assert Mechanisms.without(choice.choices) == Mechanisms(*[False] * len(choice.choices))


def test_paper_prints_published_beside_measured(small, monkeypatch):
    monkeypatch.setattr("mvcs.cli.commands.bench._held_out", lambda *_: tiny_cnn(small.folder))
    words = ("bench", "paper", "qd4", "run", "--task", "cnn", "--out", "papers")
    assert "3.49 to 4.05" in small(*words).out
    rows = small.json(*words)["rows"]
    assert rows[0]["published"] == "16.79 to 29.04"
    assert rows[0]["measured"] > 1


def test_paper_refuses_an_unknown_experiment(small):
    words = ("bench", "paper", "fig12", "run", "--task", "gpt", "--out", "papers")
    assert "fig11" in small(*words, "--json", code=2).error["hint"]


def test_a_table_of_methods_has_short_times_and_a_legend(tmp_path):
    write_ledger(tmp_path, NAMES[:2], bounds=(0.01,))
    next(tmp_path.rglob("lattice-v1-0.01-0/step_*.json")).unlink()
    report = ComparisonReport.of(tmp_path)
    (run,) = report.runs
    quick = replace(
        report, runs=[replace(run, results=[replace(one, searched=0.0123) for one in run.results])]
    )
    text = "\n".join(compared(quick, Screen()))
    assert "lattice (3 of 4)" in text
    assert " 0.012\n" in text
    assert "two standard errors" in text


def test_a_table_of_nothing_says_so(tmp_path):
    write_ledger(tmp_path, ())
    lines = compared(ComparisonReport.of(tmp_path), Screen())
    assert lines[3] == "Nothing was measured."


def test_report_makes_a_page_of_what_was_measured(console):
    write_ledger(console.folder / "out", NAMES[:2])
    text = console("bench", "report", "out", "-o", "site/page").out
    assert "report.html" in text
    page = (console.folder / "site/page/report.html").read_text()
    assert page.startswith("<!doctype html>")
    (run,) = json.loads((console.folder / "site/page/report.json").read_text())["runs"]
    assert {one["method"] for one in run["results"]} == set(NAMES[:2])


def test_report_says_where_there_is_nothing_to_report(console):
    assert "mvcs bench run" in console("bench", "report", ".", "--json", code=3).error["hint"]


@pytest.mark.parametrize("package", ["altair", "vl_convert"])
def test_report_without_its_packages_writes_the_numbers(console, package):
    write_ledger(console.folder / "out", NAMES[:1], checkpoints=1)
    program = f"import sys; sys.modules[{package!r}] = None; from mvcs.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "bench", "report", str(console.folder / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'mvcs[report]'" in done.stderr
    assert (console.folder / "out/report.json").exists()


def test_channels_takes_a_base_where_it_goes_on(console):
    words = ("bench", "channels", "finetune", "--arms", "float32", "--out", "out")
    assert "name its folder with --from" in console(*words, code=2).err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--arms", "aq:2:4,qd:2:4"), "there is no arm 'qd:2:4'"),
        (("--arms", "float32", "--link", "fast"), "'fast' is no rate of a link"),
        (("--arms", "float32", "--stages", 8), "4 layers cannot have 8 stages"),
        (("--arms", "float32", "--pieces", 100), "100 pieces cannot be cut into batches of 16"),
    ],
)
def test_channels_refuses_what_it_cannot_train(console, words, message):
    assert message in console("bench", "channels", "gpt", *words, "--out", "out", code=2).err
    assert not (console.folder / "out").exists()


def test_channels_are_shown_and_reported(console):
    write_arms(console.folder / "out")
    words = ("bench", "channels", "gpt", "--arms", "float32,aq:2:4", "--link", "10mbit", "--out", "out")
    text = console(*words).out
    assert re.search(r"aq:2:4 +2\.0200 +\+1\.00%", text)
    assert re.search(r"aq:2:4 +9\.00 real", text)
    console("bench", "report", "out")
    page = (console.folder / "out/report.html").read_text()
    assert all(title in page for title in ("Loss by epoch", "Bytes by epoch", "Steps a second by link"))
    assert len(json.loads((console.folder / "out/report.json").read_text())["channels"]["arms"]) == 2
