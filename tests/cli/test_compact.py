"""`mvcs compact` as a user types it: a plan, then the deed, and a range."""

import pytest

from mvcs import Repository
from tests.repository.states import content, state

COMMITS = 6


@pytest.fixture
def restored(console):
    """A history of bounded commits, and what each restores."""
    with Repository.init(console.folder) as repo:
        ids = [repo.commit(state(number), step=number, step_size=0.5).id for number in range(COMMITS)]
        return {identifier: content(repo, identifier) for identifier in ids}


def packs(console):
    return sorted(path.name for path in (console.folder / ".mvcs/packs").rglob("*.pack"))


def test_it_plans_then_stores_again_and_gc_frees_what_is_left(console, restored):
    before = packs(console)
    plan = console("compact", "--max-depth", "1", "--dry-run").out
    assert "would rewrite" in plan
    assert "exact layers were left alone" in plan
    assert packs(console) == before
    answer = console("compact", "--max-depth", "1", "--dry-run", "--json").json
    done = console("compact", "--max-depth", "1", "--json").json
    assert (answer["executed"], done["executed"]) == (False, True)
    assert (done["commits"], done["rewritten"]) == (COMMITS, COMMITS - 2)
    # Salts differ from run to run, and with them how footers compress.
    assert done["after"] == pytest.approx(answer["after"], rel=0.01)
    assert console("gc", "--grace", "0d", "--wait", "0h", "--execute", "--json").json["bytes"] > 0
    assert console("fsck", "--json").json["ok"]
    with Repository.open(console.folder) as repo:
        assert all(content(repo, identifier) == was for identifier, was in restored.items())
    assert "nothing to do: 6 commits looked at" in console("compact", "--max-depth", "1").out


def test_dry_runs_of_one_store_give_one_answer(console, restored):
    assert restored
    words = ("compact", "--max-depth", "0", "--dry-run", "--json")
    assert len({console(*words).out for _ in range(6)}) == 1
    assert console("stats", "--plan", "--json").json == console("stats", "--plan", "--json").json


def test_a_range_is_stored_for_an_archive(console, restored):
    ids = list(restored)
    done = console("compact", f"{ids[0]}..HEAD~2", "--for-archive").out
    assert "rewritten" in done
    with Repository.open(console.folder) as repo:
        assert all(content(repo, identifier) == was for identifier, was in restored.items())


def test_a_budget_is_given_in_one_word(console, restored):
    assert console("compact", "--max-depth", 1, "--budget", "24x", "--json").json["rewritten"] == COMMITS - 2
    assert "nothing to do" in console("compact", "--max-depth", 1, "--budget", "1000s").out
    with Repository.open(console.folder) as repo:
        assert all(content(repo, identifier) == was for identifier, was in restored.items())


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere"], 3, "nowhere"),
        (["--max-depth", "-1"], 2, "-1"),
        (["--max-cost", "0.5"], 2, "0.5"),
        (["--budget", "soon"], 2, "'soon' is no budget"),
        (["--budget", "2"], 2, "2s for seconds a GB, 2x for the cost of snapshots, --max-depth 2 for deltas"),
        (["--budget", "4x", "--max-cost", "4"], 2, "the same"),
        (["--budget", "4x", "--for-archive"], 2, "archive"),
        (["--for-archive", "--max-cost", "2"], 2, "archive goes without"),
    ],
)
def test_what_means_nothing_is_refused(console, restored, words, code, said):
    assert restored
    assert said in console("compact", *words, code=code).err
