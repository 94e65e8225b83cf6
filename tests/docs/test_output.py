"""What counts as the same output, and what does not."""

import pytest

from tests.docs.output import agrees, refreshed

SHOWN = "59392e7cd8d8 (HEAD) step 99 [1.5  29 kB]\n...\nwrote main: 3 tensors, 2.8 kB (10x), 2 minutes ago\n"


def test_ids_sizes_times_and_measurements_may_vary():
    came = "aaaaaaaaaaaa (HEAD) step 99 [0.25    7.1 MB]\nwrote main: 3 tensors, 12 B (9.5x), 1 hour ago\n"
    assert agrees(SHOWN, came)
    assert agrees(SHOWN, came.replace("wrote", "something\nelse\nwrote"))


@pytest.mark.parametrize(
    ("word", "other"), [("main", "low-lr"), ("99", "100"), ("3 tensors", "4 tensors"), ("wrote", "read")]
)
def test_words_and_counts_may_not(word, other):
    assert not agrees(SHOWN, SHOWN.replace(word, other))


def test_what_is_left_out_or_added_is_noticed():
    assert not agrees("Made a branch\n", "")
    assert not agrees("", "warning: odd\n")
    assert not agrees("one\n", "one\ntwo\n")


def test_a_block_that_leaves_lines_out_gets_the_ids_that_came():
    line = "aaaaaaaaaaaa (HEAD) step 99 [0.25  7.1 MB]\n"
    came = f"{line}one\n  two\nwrote main: 3 tensors, 12 B (9.5x), 1 hour ago\n"
    assert refreshed(SHOWN, came) == f"{line}...\nwrote main: 3 tensors, 12 B (9.5x), 1 hour ago\n"
