"""A damaged lineage index is put aside, and whoever looks or commits hears of it, once."""

import numpy as np
import pytest

from mvcs import Repository


@pytest.fixture
def damaged(mvcs):
    """A repository with a commit, whose index is cut short."""
    mvcs.id = mvcs.commit("first")["id"]
    with (mvcs.folder / ".mvcs/lineage.sqlite").open("r+b") as file:
        file.truncate(5000)
    return mvcs


def told(said):
    """Return the lines that tell of the index."""
    return [line for line in said.err.splitlines() if "lineage index" in line]


def test_a_commit_says_once_that_the_index_was_put_aside(damaged):
    damaged.model(shift=1.0)
    [line] = told(damaged("commit", "model.safetensors", "-m", "second"))
    assert "is damaged" in line
    assert "put aside as 'lineage.sqlite.broken'" in line
    assert "`mvcs lineage rebuild`" in line
    damaged.model(shift=2.0)
    assert told(damaged("commit", "model.safetensors", "-m", "third")) == []


@pytest.mark.parametrize("words", [["lineage", "status"], ["note", "HEAD", "--metric", "a=1"]])
def test_other_commands_that_meet_it_say_so_once(damaged, words):
    [line] = told(damaged(*words))
    assert "put aside as 'lineage.sqlite.broken'" in line
    assert told(damaged(*words)) == []


def test_a_program_hears_of_it_in_the_commit_and_in_the_warnings(damaged):
    with Repository.open(damaged.folder) as repo:
        first, second = (repo.commit({"weight": np.full(8, number)}) for number in range(2))
        [note] = first.notes
        assert "put aside as 'lineage.sqlite.broken'" in note
        assert repo.warnings == [note]
        assert not second.notes
