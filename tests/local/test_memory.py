"""One budget of memory: its shares never come to more, whoever holds them and whatever the limit is."""

import gc
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs import Repository, UsageError, memory
from mvcs.machine import machine_memory
from mvcs.memory import Budget, Use, held, no_collections, parse_size, rare_full_collections
from mvcs.objects import ObjectId
from mvcs.store.reading.last_tree import LastTree
from mvcs.store.reading.recent_contents import RecentContents

GIB = 1 << 30
totals = st.integers(0, 1 << 50)


@pytest.fixture(autouse=True, scope="module")
def _nothing_held() -> Iterator[None]:
    """What other tests of this process still hold is not counted here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_HOLDERS", {use: memory.Holders() for use in Use})
        yield


@given(totals)
def test_all_shares_come_to_no_more_than_the_budget(total):
    budget = Budget(total)
    assert sum(budget.limit(use) for use in Use) <= total
    assert all(budget.limit(use) >= 0 for use in Use)


@given(totals, totals)
def test_of_a_larger_budget_no_share_is_smaller(one, other):
    small, large = Budget(min(one, other)), Budget(max(one, other))
    assert all(small.limit(use) <= large.limit(use) for use in Use)


@pytest.mark.parametrize("use", [Use.WEIGHTS, Use.MOMENTUM])
def test_weights_and_moves_get_an_eighth_and_a_sixteenth_of_the_machine(use):
    part = {Use.WEIGHTS: 8, Use.MOMENTUM: 16}[use]
    assert Budget(3 * GIB).limit(use) == 8 * GIB // part


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 150)), max_size=30))
def test_holders_together_never_have_more_than_their_share(steps):
    budget = Budget(96 * 100 // 16)
    limit = budget.limit(Use.WORK)
    holds = [budget.hold(Use.WORK) for _ in range(4)]
    wanted = [0] * 4
    for which, count in steps:
        others = sum(wanted) - wanted[which]
        if holds[which].resize(count):
            wanted[which] = count
        else:
            assert others + count > limit
        assert [hold.bytes for hold in holds] == wanted
        assert held(Use.WORK) == sum(wanted) <= limit


def test_less_can_always_be_held():
    budget = Budget(9600)
    first, second = budget.hold(Use.WEIGHTS), Budget(0).hold(Use.WEIGHTS)
    assert first.resize(3200)
    assert not second.resize(1)
    assert second.resize(0)
    assert first.resize(3199)
    assert second.take_rest() == 0
    assert budget.hold(Use.WEIGHTS).take_rest() == 1


def test_what_a_holder_had_is_free_when_it_is_gone():
    budget = Budget(9600)
    hold = budget.hold(Use.CODES)
    assert hold.take_rest() == budget.limit(Use.CODES) == held(Use.CODES)
    del hold
    gc.collect()
    assert held(Use.CODES) == 0


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("5000000", 5_000_000), ("500MB", 500_000_000), ("1.5GiB", 3 * GIB // 2), ("2 k", 2000)],
)
def test_sizes_are_read_as_people_write_them(text, count):
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "auto", "-1", "1e9", "GB", "1.GB", "5 XB", "1" * 19])
def test_what_is_no_size_is_none(text):
    assert parse_size(text) is None


def test_by_itself_the_budget_is_a_part_of_the_machine_and_never_more_than_it():
    most = machine_memory()
    assert Budget.of().total == most * 3 // 8
    assert Budget.of("64MiB").total == 64 << 20
    assert Budget.of("999999TB").total == most


def test_a_limit_of_the_shell_counts():
    program = "from mvcs.memory import Budget; print(Budget.of().total)"

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (2 * GIB, 2 * GIB))

    result = subprocess.run(
        [sys.executable, "-c", program], preexec_fn=limited, capture_output=True, text=True, check=True
    )
    assert int(result.stdout) == min(2 * GIB, machine_memory()) * 3 // 8


def test_a_repository_keeps_to_what_its_settings_say(tmp_path):
    with Repository.init(tmp_path) as repo:
        assert repo.config_get("memory.budget") == "auto"
        assert repo._session.store.memory == Budget.of()
        repo.config_set("memory.budget", "1.5MiB")
        with pytest.raises(UsageError, match=r"needs a size such as 500MB or 1\.5GiB, or 'auto', not 'half'"):
            repo.config_set("memory.budget", "half")
    with Repository.open(tmp_path) as repo:
        assert repo.config_get("memory.budget") == "1.5MiB"
        assert repo._session.store.memory.total == repo._session.reader().memory.total == 3 << 19


@pytest.fixture
def usual_collections():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 7)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("usual_collections")
def test_full_collections_are_rare_while_anybody_asks_for_that():
    with rare_full_collections():
        with rare_full_collections():
            assert gc.get_threshold() == (700, 10, 700)
        assert gc.get_threshold() == (700, 10, 700)
    assert gc.get_threshold() == (700, 10, 7)


@pytest.mark.usefixtures("usual_collections")
def test_a_threshold_that_the_program_sets_meanwhile_stays():
    with rare_full_collections():
        gc.set_threshold(500, 20, 30)
        with rare_full_collections():
            assert gc.get_threshold() == (500, 20, 30)
    assert gc.get_threshold() == (500, 20, 30)


@pytest.mark.usefixtures("usual_collections")
def test_a_commit_and_a_restore_leave_collections_as_they_were(tmp_path):
    seen = set()

    class Told(dict):
        def items(self):
            seen.add(gc.get_threshold())
            return super().items()

    with Repository.init(tmp_path) as repo:
        repo.commit({"step": 1}, metrics=Told(loss=0.5))
        with pytest.raises(UsageError):
            repo.commit({"step": 1}, branch=1)
        repo.restore()
    assert (700, 10, 700) in seen
    assert gc.get_threshold() == (700, 10, 7)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("total", [0, 10**9])
def test_jobs_side_by_side_hand_out_what_they_return_in_order(threads: int, total: int) -> None:
    budget = replace(Budget(96 * 100), threads=threads)
    jobs = [(partial(int, number), needed) for number, needed in enumerate([700, 0, 900, 3000, 0, 0, 800, 0])]
    assert list(budget.side_by_side(jobs, total)) == list(range(8))
    assert held(Use.WORK) == 0


@pytest.mark.usefixtures("usual_collections")
def test_collections_wait_and_who_stops_them_meanwhile_finds_them_stopped():
    try:
        with no_collections():
            assert gc.get_threshold() == ((1 << 31) - 1, 10, 7)
            gc.disable()
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert gc.get_threshold() == (700, 10, 7)


def test_the_last_tree_counts_for_nothing_where_there_is_no_room_for_it():
    hold = Budget(96 << 20).hold(Use.CACHES)
    trees = LastTree(hold)
    trees.note(ObjectId(bytes(32)), None, 1000)
    assert hold.bytes > 0
    trees.note(ObjectId(bytes(32)), None, 1 << 30)
    assert hold.bytes == 0


def test_a_chunk_that_an_older_commit_holds_stays_for_the_newer_one_that_stores_it_too():
    recent = RecentContents(Budget(1 << 20).hold(Use.WEIGHTS))
    older, newer, name = object(), object(), ObjectId(bytes(32))
    recent.hold_copy(name, b"content", older, None)
    recent.hold_copy(name, b"content", newer, None)
    recent.keep(newer)
    assert recent.look(name) == b"content"
