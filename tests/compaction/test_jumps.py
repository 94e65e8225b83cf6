"""Where commits lie whose chains are short, and what is stored near what then."""

import pytest

from mvcs.compaction.repack import LONGEST, depth_at, period


@pytest.mark.parametrize(
    ("most", "depths"),
    [
        (0, [0, 0, 0]),
        (1, [0, 1, 1, 0, 1, 1, 0]),
        (2, [0, 1, 2, 1, 2, 2, 0, 1, 2]),
        (3, [0, 1, 2, 3, 1, 2, 3, 2, 3, 3, 0, 1]),
    ],
)
def test_depths_as_they_are_told(most: int, depths: list[int]) -> None:
    assert [depth_at(number, most) for number in range(len(depths))] == depths


@pytest.mark.parametrize("most", range(LONGEST + 1))
def test_each_commit_follows_one_that_is_a_delta_less_deep(most: int) -> None:
    length = period(most)
    found = [depth_at(number, most) for number in range(2 * length)]
    assert found[:length] == found[length:]
    assert found[:length].count(0) == 1
    depths = [depth for depth in found if depth is not None]
    assert max(depths) == most
    for number in range(1, length):
        assert depths[number] - 1 in depths[max(0, number - most - 1) : number]


def test_long_chains_are_cut_by_snapshots_alone() -> None:
    assert {depth_at(number, LONGEST + 1) for number in range(100)} == {None}
