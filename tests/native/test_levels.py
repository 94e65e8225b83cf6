"""Instruction levels: known by name, chosen by name, and refused when this machine lacks them."""

import pytest

import mvcs_native


def test_the_best_level_is_used_unless_another_is_chosen(level):
    assert mvcs_native.level() == level


def test_a_level_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="portable, avx2 or avx512"):
        mvcs_native.use_level("mmx")


def test_portable_is_always_there():
    assert mvcs_native.levels()[0] == "portable"
