"""Benchmarks write what they print as JSON too."""

import json
import subprocess
import sys

import pytest
import torch

from mvcs import Repository
from mvcs.bench.codecs.clock import Pairs
from tests.bench import blocked, demo_bytes, kernels, moments
from tests.bench import results as rows


def results(program, monkeypatch, folder, *arguments):
    out = folder / "out.json"
    monkeypatch.setattr(sys, "argv", ["bench", *map(str, arguments), "--json", str(out)])
    program.main()
    return json.loads(out.read_text())


def test_kernels_tell_the_share_of_each_level(monkeypatch, tmp_path, capsys):
    found = results(
        kernels, monkeypatch, tmp_path, "--values", 10_000, "--pairs", 1, "--only", "lattice: restore"
    )
    assert len(found["shares"]) == 3
    share = found["shares"]["lattice: restore"]["portable"]["ratio"]
    assert f"{share:.3f} ({share:.3f} to {share:.3f})" in capsys.readouterr().out
    assert found["megabytes"] == 0.04


def test_a_row_has_the_spread_of_its_ratio(capsys):
    row = rows.row("exact", Pairs(0.3, 0.1, 3.0, 2.9, 3.2), "torch.save")
    assert (row["what"], row["ratio"], row["high"]) == ("exact", 3.0, 3.2)
    assert "3.000 (2.900 to 3.200) x torch.save" in capsys.readouterr().out


def test_processes_that_ended_count_as_spent():
    before = rows.children_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(10**5))"], check=True)
    assert rows.children_seconds() > before


def test_blocked_tells_its_state_and_its_times(monkeypatch, tmp_path):
    found = results(blocked, monkeypatch, tmp_path, "--state", "small", "--layers", 2, "--commits", 1)
    assert (found["state"], found["tensors"], found["commits"]) == ("small", 16, 1)
    assert blocked.BLOCKED in {row["what"] for row in found["rows"]}
    assert all(row["neighbour"] == "one copy" for row in found["rows"])


def test_moments_tell_what_an_arm_exceeds_the_exact_one_by(tmp_path):
    exact = {"train": [2.0] * 100, "valid": {"25": 2.0, "50": 2.0}}
    light = {"train": [2.1] * 100, "valid": {"25": 2.02, "50": 1.98}}
    path = tmp_path / "moments.json"
    path.write_text(json.dumps({"gpt - 700 0 exact": exact, "gpt - 700 0 light": light}))
    [row] = moments.summary(path)
    assert (row["task"], row["at"], row["arm"]) == ("gpt", 700, "light")
    assert (row["train"], row["late"]) == pytest.approx((5.0, 5.0))
    assert row["valid"] == pytest.approx({"25": 1.0, "50": -1.0})


def test_bytes_of_the_demo_are_those_of_all_its_branches(monkeypatch, tmp_path):
    with Repository.init(tmp_path / "run") as repository:
        sizes = []
        for step in range(3):
            state = {"model": {"weight": torch.full((40, 40), 1.0 + step)}, "step": step}
            sizes.append(repository.commit(state, step=step, step_size=0.5))
            repository.switch(f"branch-{step}", create_from="HEAD")
    found = results(demo_bytes, monkeypatch, tmp_path, tmp_path / "run")
    assert found["classes"]["weights"]["raw_bytes"] == 3 * 40 * 40 * 4
    assert [one["step"] for one in found["commits"]] == [0, 1, 2]
    assert found["stored_bytes"] == sum(one.stored_bytes for one in sizes)
    assert (found["exact"], found["worst"]) == (0, None)
