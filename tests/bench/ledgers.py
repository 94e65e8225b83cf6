"""Ledgers of many methods, with numbers that are made up: what a page of results has to take."""

import json
import random

from mvcs.bench.bounded import Judged
from mvcs.bench.ledger import RUN_FILE, Ledger, Record

HOSTILE = "</script><img src=x onerror=alert(1)>"
NAMES = ("lattice", "inshrinkerator", "qd", "uniform", "cnr", "lc", "sz3", "<script>alert(1)<!--", "qd:4-8")


def write_ledger(out, names=NAMES, *, checkpoints=4, bounds=(0.01, 0.05), lost=None):
    """Write a ledger; names with a colon are fixed settings.

    Args:
        out: the folder.
        names: of methods.
        checkpoints: how many.
        bounds: of the methods that are searched.
        lost: degradation of each record; drawn where there is none.
    """
    drawn, steps = random.Random(1), [100 * place for place in range(checkpoints)]
    folder = out / "0123456789abcdef"
    folder.mkdir(parents=True)
    about = {"form": 1, "source": f"/runs/{HOSTILE}", "steps": steps, "judge": {"eval": f"f:{HOSTILE}"}}
    (folder / RUN_FILE).write_text(json.dumps(about))
    ledger = Ledger(folder, about)
    ledger.skip("excp", f"no moments {HOSTILE}")
    for place, name in enumerate(names):
        for bound in (None,) if ":" in name else bounds:
            series = ledger.series(name, 1, bound, 0)
            series.begin()
            for step in steps:
                stored = int(4e6 / (40 / (1 + place) * drawn.uniform(0.9, 1.1)))
                degradation = drawn.uniform(0, bound or 0.2) if lost is None else lost
                series.add(_record(step, stored, degradation, place, drawn), b"")


def _record(step, stored, degradation, place, drawn):
    axes = [{HOSTILE: drawn.choice([8, 16, 32])}, {"e": drawn.choice([1e-4, 5e-4])}, {}]
    judged = Judged(degradation, 0.0001)
    return Record(
        step=step,
        setting=axes[place % 3],
        kept=True,
        raw=12_000_000,
        weights=4_000_000,
        stored=stored,
        everything=stored + 7_000_000,
        by_class={"weights": stored, HOSTILE: 3_400_000, "exp_avg_sq": 3_500_000, "rest": 100_000},
        tested=8,
        search=judged,
        verify=judged,
        report=judged,
        encode=0.1 * drawn.uniform(0.5, 2) * (1 + place),
        decode=0.01 * drawn.uniform(0.5, 2),
        memcpy=0.0004,
        searched=12.0,
        payload="",
    )
