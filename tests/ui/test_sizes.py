"""Numbers as people read them."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.reports import report
from mvcs.ui import text as shown
from mvcs.ui.text import number, ratio, share, size


def test_examples_in_the_docstrings_hold():
    for module in (report, shown):
        found = doctest.testmod(module)
        assert found.failed == 0
        assert found.attempted


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_960, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (1_230_000, "1.2 MB"),
        (5_600_000_000, "5.6 GB"),
        (10**21, "1000 EB"),
    ],
)
def test_bytes(count, text):
    assert size(count) == text


@given(st.integers(0, 10**20))
def test_bytes_stay_short(count):
    assert len(size(count)) <= 8


@pytest.mark.parametrize(
    ("raw", "stored", "text"),
    [
        (100, 10, "10x"),
        (100, 11, "9.1x"),
        (100, 100, "1.0x"),
        (0, 5, "-"),
        (5, 0, "-"),
        (10**9, 1, "1,000,000,000x"),
    ],
)
def test_ratios(raw, stored, text):
    assert ratio(raw, stored) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.0, "0 %"), (1e-7, "1e-05 %"), (0.0123, "1.2 %"), (0.06, "6.0 %"), (0.5, "50 %"), (12.0, "1200 %")],
)
def test_shares(fraction, text):
    assert share(fraction) == text


@pytest.mark.parametrize(
    ("value", "text"), [(float("inf"), "inf"), (float("-inf"), "-inf"), (float("nan"), "nan")]
)
def test_numbers_that_are_none(value, text):
    assert number(value) == text
