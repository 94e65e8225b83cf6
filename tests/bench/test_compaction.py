"""Histories that are stored anew are measured, and bases at growing distances are compared with snapshots."""

import shutil

import pytest
import torch

from tests.bench import compaction, skip_deltas

COMMITS = 7
SIZE = {skip_deltas.ALONE: 100.0, 1: 10.0, 2: 20.0, 4: 40.0}


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Checkpoints of a made-up run, committed."""
    folder = tmp_path_factory.mktemp("run")
    noise = torch.Generator().manual_seed(0)
    weight = torch.randn(96, 64, generator=noise)
    for number in range(COMMITS):
        torch.save({"weight": weight}, folder / f"step_{number:06}.pt")
        weight = weight + 0.01 * torch.randn(96, 64, generator=noise)
    made = compaction.committed(folder, folder / "history", {"step_size": 0.5})
    assert made["commits"] == COMMITS
    return folder / "history", made


def test_a_copy_is_compacted_and_restored(history, tmp_path):
    folder, made = history
    found = {"run": "made-up", "options": ["--step-size", "0.5"], "committed": made}
    found["restored"] = compaction.restored(folder)
    for name, depth, hangs in (("2-shorter", 2, False), (compaction.ARCHIVE, None, True)):
        shutil.copytree(folder, tmp_path / name)
        found[name] = compaction.compacted(tmp_path / name, depth, hangs)
        assert found[name]["commits"] == COMMITS
        assert found[name]["rewritten"]
        found[name]["restored"] = compaction.restored(tmp_path / name)
    every = dict.fromkeys(
        [f"{depth}-{kind}" for depth in compaction.DEPTHS for kind in ("shorter", "hanging")],
        found["2-shorter"],
    )
    table = compaction.rows(found | every)
    assert len(table) == 2 + 2 * len(compaction.DEPTHS)
    assert {row.count("|") for row in table} == {9}
    assert table[0].startswith("| made-up, --step-size 0.5 | as committed |")


def test_what_chunks_take_by_distance(history):
    size, commits = skip_deltas.sizes(history[0])
    assert commits == COMMITS
    assert size.keys() >= {skip_deltas.ALONE, 1, 2}
    assert size[1] < size[2] < size[skip_deltas.ALONE]


def test_what_histories_take():
    assert skip_deltas.snapshots(SIZE, 4, 2) == (220, 1.5)
    assert skip_deltas.snapshots(SIZE, 4, 4) == (130, 2.5)
    assert skip_deltas.skips(SIZE, 4) == (100 + 10 + 20 + 10, 2.0)
    assert skip_deltas.jumps(SIZE, 4, 1) == (100 + 10 + 20 + 100, 1.5)
    assert skip_deltas.jumps(SIZE, 6, 2)[0] == pytest.approx(
        100 + 10 + 10 + skip_deltas.at_distance(SIZE, 3) + 10 + 20
    )
    assert 20 < skip_deltas.at_distance(SIZE, 3) < 40
    assert skip_deltas.at_equal_entries(SIZE, 4, 1.5) == 220
    assert skip_deltas.at_equal_entries(SIZE, 4, 2.0) == 190
    assert skip_deltas.at_equal_entries(SIZE, 4, 9.0) == 130
