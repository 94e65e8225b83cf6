"""Every point of every verb, or some that are drawn."""

import random
from pathlib import Path

from tests.soak.faults.points import Grounds, Point
from tests.soak.faults.work import VERBS
from tests.soak.tally import Tally


def trials(rounds: int, seed: int, folder: Path) -> Tally:
    """Try so many points, as many of each verb as of any other; all there are where these are fewer."""
    tally, drawn, grounds = Tally(), random.Random(seed), Grounds(folder)
    for number, verb in enumerate(VERBS):
        points = list(grounds.points(verb))
        share = (rounds + number) // len(VERBS)
        for point in points if share >= len(points) else drawn.sample(points, share):
            _try(tally, grounds, point)
    return tally


def _try(tally: Tally, grounds: Grounds, point: Point) -> None:
    try:
        if grounds.try_point(point):
            tally.note("points")
            tally.note(f"{point.verb}: {point.kind}")
        else:
            tally.note("points that another order of threads left out")
    except AssertionError as error:
        tally.fail(str(error))
