"""Ledgers of many methods, with numbers that are made up: what a page of results has to take."""

import json
import random

from mvcs.bench.bounded import Judged
from mvcs.bench.channels import ArmResult, ChannelsPlan, LinkSpeed, about, channels_task
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


def write_arms(out):
    """Write what `mvcs bench channels gpt` keeps of two arms with its usual options and a link of 10mbit."""
    plan, task = ChannelsPlan(), channels_task(None)
    ledger = Ledger(out / "channels", {})
    ledger.folder.mkdir(parents=True)
    ledger.keep("plan", about(task, plan))
    for name, bits, loss in (("float32", 32.0, 2.0), ("aq:2:4", 2.1, 2.02)):
        link = LinkSpeed("10mbit", 1e7, 9.0, 0.001, "real")
        sent = [int(1e5 * bits)] * plan.epochs
        losses = [loss + epoch for epoch in reversed(range(plan.epochs))]
        error = [None if name == "float32" else 0.02]
        one = ArmResult(
            name, losses, sent, sent, bits, bits, 0, error, 9.5, 3e5, 0.01, 0.001, 0, 0, 1 << 28, [], [link]
        )
        ledger.keep(f"arm-{name.replace(':', '-')}", one.to_json())
