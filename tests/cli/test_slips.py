"""Slips of the hand: what was meant is said, and a number below zero is a value."""

import pytest


@pytest.mark.parametrize(
    ("typed", "meant"), [("stpe:1", "step:1"), ("setp:1", "step:1"), ("bset:val_loss", "best:val_loss")]
)
def test_a_revision_that_begins_with_a_slip_says_what_was_meant(history, tmp_path, typed, meant):
    for words in (["log"], ["show"], ["checkout"], ["checkout", "-o", tmp_path / "x.npz"], ["diff"]):
        said = history(*words, typed, code=3).err
        assert f"no revision named '{typed}'" in said
        assert f"did you mean '{meant}'?" in said


def test_a_branch_of_a_name_like_step_is_one(history):
    history("branch", "steps", "main")
    assert "has no file" in history("show", "steps:nothing.npz", code=3).err


@pytest.mark.parametrize(
    ("key", "needs"),
    [
        ("store.max_bytes", "a size above zero such as 500GB"),
        ("retention.exact_layers", "a whole number from 0 to 1000"),
        ("compaction.max_depth", "a whole number from"),
    ],
)
def test_a_number_below_zero_is_a_value_that_will_not_do(mvcs, key, needs):
    for words in ([key, "-5"], ["--local", key, "-5"], [key, "-5", "--local"], ["--", key, "-5"]):
        said = mvcs("config", *words, code=2).err
        assert f"'{key}' needs {needs}" in said
        assert "not '-5'" in said


def test_branches_say_their_step_and_what_they_were(history):
    commit = history("rev-parse", "--short", "side").out.strip()
    assert " step " in history("branch", "-v").out
    history("switch", "main")
    assert history("branch", "-D", "side").out == f"Deleted branch side (was {commit})\n"
