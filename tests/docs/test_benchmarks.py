"""The page of benchmarks holds what the ledger has of this build, and says what is missing."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.bench.overhead import Pair, figures
from tests.bench.restores import excess

ROOT = Path(__file__).parents[2]
FACTS = {"architecture", "instructions", "cores", "memory_gib", "python", "torch", "load"}
LEDGER = sorted((ROOT / "docs/benchmarks/results").rglob("*.json"))


def benchmarks(*arguments: str, docs: Path = ROOT / "docs", fails: bool = False) -> str:
    command = [sys.executable, str(docs / "benchmarks/ledger.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert bool(done.returncode) is fails, done.stderr
    return done.stderr if fails else done.stdout


def git(top: Path, *words: str) -> None:
    who = ["-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(top), *who, *words], check=True)


@pytest.fixture
def docs(tmp_path):
    """The script, the template and the commands in a git repository, without results."""
    shutil.copytree(ROOT / "docs/benchmarks", tmp_path / "docs/benchmarks", ignore=lambda *_: ["results"])
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    git(tmp_path, "init", "-q")
    change(tmp_path, "mvcs/quantize")
    change(tmp_path, "mvcs/store")
    return tmp_path / "docs"


def change(top: Path, folder: str) -> None:
    """Commit a change of a folder, as if it were made before anything was measured."""
    (top / folder).mkdir(parents=True, exist_ok=True)
    with (top / folder / "source.py").open("a") as file:
        file.write("changed = True\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", f"change {folder}")


def take(docs: Path, name: str, result: object, *options: str) -> Path:
    """Take in a result that was measured just now."""
    out = docs.parent / "out.json"
    out.write_text(json.dumps(result))
    return Path(benchmarks("take", name, str(out), *options, docs=docs).strip())


def test_the_page_is_what_the_ledger_says(tmp_path):
    benchmarks("page", "--out", str(tmp_path / "page.md"))
    pages = [(tmp_path / "page.md").read_text(), (ROOT / "docs/benchmarks.md").read_text()]
    # Which results are older changes with the code.
    written, found = (re.sub(r"\n\*\*Older than the code:\*\* .*\n", "", page) for page in pages)
    assert written == found, "python docs/benchmarks/ledger.py page"


def test_results_whose_code_changed_are_refused_with_their_command(docs):
    take(docs, "speed/commits", COMMITS)
    take(docs, "speed/clones", {"load": 1.0, "clones": []})
    change(docs.parent, "mvcs/quantize")
    said = benchmarks("check", docs=docs, fails=True)
    assert "speed/commits: python -m tests.bench.commit_speed --json out.json" in said
    assert "speed/clones" not in said


def test_results_of_long_runs_may_be_older_and_are_marked(docs):
    taken = take(docs, "moments/gpt", {"arms": [PROBE | {"valid": {}}]})
    benchmarks("check", docs=docs)
    change(docs.parent, "mvcs/quantize")
    benchmarks("check", docs=docs, fails=True)
    benchmarks("check", "--allow-older", docs=docs)
    benchmarks("page", docs=docs)
    page = (docs / "benchmarks.md").read_text()
    revision = json.loads(taken.read_text())["revision"]
    assert f" at {revision[:12]}: " in page
    assert page.count("**Older than the code:** all of it.") == 1


def test_a_result_without_a_revision_is_older(docs):
    taken = take(docs, "speed/commits", COMMITS)
    taken.write_text(json.dumps(json.loads(taken.read_text()) | {"revision": None}))
    assert "speed/commits" in benchmarks("check", "--allow-older", docs=docs, fails=True)


def test_what_was_measured_before_the_code_changed_is_not_taken(docs, tmp_path):
    (tmp_path / "out.json").write_text(json.dumps(COMMITS))
    os.utime(tmp_path / "out.json", (0, 0))
    change(docs.parent, "mvcs/quantize")
    said = benchmarks("take", "speed/commits", str(tmp_path / "out.json"), docs=docs, fails=True)
    assert "measure speed/commits again" in said


def test_folders_that_results_measure_are_there():
    listed = tomllib.loads((ROOT / "docs/benchmarks/commands.toml").read_text())
    folders = {folder for each in listed["measures"].values() for folder in each}
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []
    names = [*listed["quick"], *listed["long"]]
    assert [name for name in names if not name.startswith(tuple(listed["measures"]))] == []


@pytest.mark.parametrize("path", LEDGER, ids=[path.stem for path in LEDGER])
def test_a_result_says_what_made_it_and_not_where(path):
    entry = json.loads(path.read_text())
    assert entry.keys() - {"revision"} == {"command", "build", "date", "machine", "results"}
    assert entry["machine"].keys() == FACTS
    texts = re.findall(r'"((?:[^"\\]|\\.)*)"', path.read_text())
    assert [text for text in texts if text.startswith(("/", "~"))] == []
    assert os.uname().nodename not in texts


def test_results_are_those_of_commands_that_are_listed():
    names = [str(path.relative_to(ROOT / "docs/benchmarks/results").with_suffix("")) for path in LEDGER]
    listed = (ROOT / "docs/benchmarks/commands.toml").read_text()
    assert [name for name in names if f'\n"{name}" = ' not in listed] == []


def test_a_result_is_taken_in_and_shown(docs):
    commit = {"verify": {"degradation": 0.012, "standard_error": 0.002}}
    commit |= {"report": {"degradation": -0.01, "standard_error": None}}
    ratios = dict.fromkeys(("weights", "weights_later", "everything", "everything_later"), 61.25)
    result = {
        "setting": {"max_degradation": 0.01, "task": "gpt"},
        "repository": "/data/somewhere/repository",
        "history": ratios | {"folder": "/data/runs/gpt"},
        "constant": {"first": 50, "last": 2000, "largest": 2.5},
        "exact": 0,
        "evaluations": 2.5,
        "commits": [commit],
    }
    command = "mvcs bench bounded /data/runs/gpt --task gpt"
    taken = take(docs, "bounded/gpt-0.01", result, "--load", "1.5", "--command", command)
    entry = json.loads(taken.read_text())
    assert entry["command"] == "mvcs bench bounded gpt --task gpt"
    assert entry["results"] == result | {"repository": "repository", "history": ratios | {"folder": "gpt"}}
    assert entry["machine"]["load"] == 1.5
    benchmarks("page", docs=docs)
    page = (docs / "benchmarks.md").read_text()
    assert (
        "| `gpt` | 1 % | 61.2 | 61.2 | 61.2 | 61.2 | 2.50 | 1 of 1 | 1, +1.20 %, +1.20 % ± 0.20 % |" in page
    )
    assert f"Measured on {entry['date']} at " in page
    assert "- bounded/gpt-0.01:" not in page
    assert "- bounded/gpt-0.05: `mvcs bench bounded runs/gpt" in page


ROW = {"name": "RANS_RESIDUAL (8)", "bits": 23.4881, "ratio": 1.3624, "of_limit": 0.9971}
SECTIONS = [{"title": "weights", "rows": [ROW | {"name": "RAW (0)"}, ROW]}]
PAIRS = [Pair(plain=8.0, committing=8.0 + extra, blocked=0.1, copied=0.1, codec=0.7) for extra in (0.7, 0.9)]
COMMITS = {"load": 1.0, "megabytes": 250.0, "commits": [], "restores": []}
PAIRED = {"first_s": 0.3, "second_s": 0.1, "ratio": 3.0, "low": 2.9, "high": 3.2}
PROBE = {"task": "gpt", "at": 700, "seed": 0, "arm": "w", "train": 0.09, "late": 0.05}
ARM = {
    "arm": "1-bounded",
    "at": [1000],
    "final": {"loss": 1.3},
    "controls": 2,
    "weights": 45.91,
    "everything": 115.2,
}


@pytest.mark.parametrize(
    ("name", "result", "shown"),
    [
        (
            "speed/overhead-gpt",
            {"task": "gpt", "megabytes": 59.1} | figures(PAIRS, steps=8, every=50),
            "| extra a commit, processor, all threads | 0.800 ± 0.100 s |",
        ),
        (
            "rates/gpt",
            {"folder": "runs/gpt", "transitions": [{"step": 1000, "before": 950, "sections": SECTIONS}]},
            "| weights | `RANS_RESIDUAL (8)` | 23.49 (1.362) | 0.997 |",
        ),
        (
            "histories/gpt",
            {"folder": "runs/gpt", "commits": [{}, {}], "metadata": 60_321.0}
            | {"weights": 43.3, "weights_later": 47.0, "everything": 36.9, "everything_later": 37.7},
            "| `gpt` | `--step-size 0.5` | 2 | 43.30 | 47.00 | 36.90 | 37.70 | 60.3 kB |",
        ),
        (
            "restores/gpt",
            {"task": "gpt", "arms": [ARM | {"excess": {"loss": excess(1.3, [1.29, 1.31])}}]},
            "| `gpt` | 1000 | 45.9 | 115.2 | loss +0.00 % ± 2.66 % |",
        ),
        (
            "speed/blocked-cnn",
            {
                "state": "cnn",
                "megabytes": 12.9,
                "tensors": 9,
                "rows": [PAIRED | {"what": "state_dict() alone"}],
            },
            "| `cnn`: 12.9 MB in 9 tensors | `state_dict()` alone | 300 ms | 100 ms | 3.00 (2.90 to 3.20) |",
        ),
        (
            "speed/kernels",
            {"shares": {"sketch": {"portable": PAIRED}}},
            "| sketch | 3.000 (2.900 to 3.200) |",
        ),
        (
            "speed/log",
            {"commands": [PAIRED | {"what": "mvcs log -n 20, 10,000 commits"}]},
            "| `mvcs log -n 20`, 10,000 commits | 300.0 ms | 100.0 ms | 3.00 (2.90 to 3.20) |",
        ),
        (
            "speed/commits",
            COMMITS | {"restores": [PAIRED | {"what": "restore, exact", "neighbour": "torch.load"}]},
            "| restore, exact | 0.300 s | `torch.load` 0.100 s | 3.00 (2.90 to 3.20) |",
        ),
        (
            "speed/clones",
            {"clones": [PAIRED | {"what": "clone, exact, 81 MB"}]},
            "| clone, exact, 81 MB | 0.30 s | 0.10 s | 3.00 (2.90 to 3.20) |",
        ),
        (
            "speed/depth",
            {"bounded": False, "histories": [], "restores": [PAIRED | {"commit": 20, "depth": 20}]},
            "| exact, commit 20 | 20 | 0.300 s | 0.100 s | 3.0 (2.9 to 3.2) |",
        ),
        (
            "moments/gpt",
            {"arms": [PROBE | {"valid": {"25": 0.06, "50": -0.08}}]},
            "| `gpt`, 700 | 0 | `w` | +0.09 | +0.05 | 25: +0.06, 50: -0.08 |",
        ),
    ],
)
def test_every_kind_of_result_has_its_table(name, result, shown, docs):
    take(docs, name, result)
    benchmarks("page", docs=docs)
    assert f"\n{shown}\n" in (docs / "benchmarks.md").read_text()


def test_results_of_another_build_are_not_shown(docs):
    taken = take(docs, "speed/commits", COMMITS)
    entry = json.loads(taken.read_text())
    benchmarks("page", docs=docs)
    missing = "- speed/commits: `python -m tests.bench.commit_speed`"
    assert missing not in (docs / "benchmarks.md").read_text()
    taken.write_text(json.dumps(entry | {"build": "0.0.1"}))
    benchmarks("page", docs=docs)
    assert missing in (docs / "benchmarks.md").read_text()


def test_a_name_that_nothing_measures_is_refused(docs, tmp_path):
    (tmp_path / "out.json").write_text("{}")
    assert "no 'speed/light'" in benchmarks(
        "take", "speed/light", str(tmp_path / "out.json"), docs=docs, fails=True
    )
