"""Instruction levels: known by name, chosen by name, and refused when this machine lacks them."""

import platform
import re
from pathlib import Path

import pytest

import mvcs_native

AVX2 = {"avx2", "bmi1", "bmi2", "abm", "popcnt"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vbmi2"}


def test_the_best_level_is_used_unless_another_is_chosen(level):
    assert mvcs_native.level() == level


def test_a_level_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="portable, avx2 or avx512"):
        mvcs_native.use_level("mmx")


def test_portable_is_always_there():
    assert mvcs_native.levels()[0] == "portable"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only kernels of x86-64 have levels")
def test_the_levels_are_those_of_the_processor_whatever_built_the_kernels():
    found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    flags = set(found[1].split())
    expected = ["portable"] + ["avx2"] * (flags >= AVX2) + ["avx512"] * (flags >= AVX512)
    assert mvcs_native.levels() == expected
