"""Run one kind of trial, print what came out: `python -m tests.soak.run KIND ROUNDS SEED FOLDER [FIRST]`.

The kind `some` is a few rounds of each kind that does not wait on the clock.
"""

import json
import os
import sys
from pathlib import Path

# A process that forks has one thread, its children too.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from tests.soak import corrupted, kills, mutants, rewritten, rot, strangers, together
from tests.soak.faults import trials as faults
from tests.soak.tally import Tally

KINDS = {
    "corrupted": corrupted.trials,
    "faults": faults.trials,
    "kills": kills.trials,
    "mutants": mutants.trials,
    "rot": rot.trials,
    "rewritten": rewritten.trials,
    "strangers": strangers.trials,
    "together": together.trials,
}
SOME = {"kills": 1, "rot": 2, "corrupted": 4, "faults": 40, "rewritten": 2, "strangers": 2, "mutants": 12}


def some(rounds: int, seed: int, folder: Path) -> Tally:
    """Run a few rounds of each kind, `rounds` times as many."""
    whole = Tally()
    for kind, count in SOME.items():
        (folder / kind).mkdir()
        found = KINDS[kind](rounds * count, seed, folder / kind)
        whole.check(bool(found.seen), f"{kind}: nothing happened")
        whole.seen += found.seen
        whole.slowest = max(whole.slowest, found.slowest)
        whole.broken += [f"{kind}: {what}" for what in found.broken]
    return whole


def main(kind: str, rounds: str, seed: str, folder: str, *first: str) -> None:
    """Print the tally as JSON; mutants can begin with another round than the first."""
    trials = some if kind == "some" else KINDS[kind]
    tally = trials(int(rounds), int(seed), Path(folder), *map(int, first))
    told = {"kind": kind, "rounds": int(rounds), **vars(tally)}
    sys.stdout.write(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
