"""Every point of every verb, or some that are drawn."""

import random
from pathlib import Path

from tests.soak.faults.points import Grounds, Point
from tests.soak.faults.work import VERBS
from tests.soak.tally import Tally


def trials(rounds: int, seed: int, folder: Path) -> Tally:
    """Try so many points, as many of each verb; half of them at writes, as far as there are."""
    tally, drawn, grounds = Tally(), random.Random(seed), Grounds(folder)
    for number, verb in enumerate(VERBS):
        for point in _drawn(list(grounds.points(verb)), (rounds + number) // len(VERBS), drawn):
            _try(tally, grounds, point)
    return tally


def _drawn(points: list[Point], count: int, drawn: random.Random) -> list[Point]:
    """Draw so many points; all there are where these are fewer."""
    drawn.shuffle(points)
    writes = [point for point in points if point.writes][: (count + 1) // 2]
    return [*writes, *[point for point in points if point not in writes][: count - len(writes)]]


def _try(tally: Tally, grounds: Grounds, point: Point) -> None:
    try:
        if grounds.try_point(point):
            tally.note("points")
            tally.note(f"{point.verb}: {point.kind}")
        else:
            tally.note("points that another order of threads left out")
    except AssertionError as error:
        tally.fail(str(error))
