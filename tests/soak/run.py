"""Run one kind of trial, print what came out: `python -m tests.soak.run KIND ROUNDS SEED FOLDER [FIRST]`."""

import json
import os
import sys
from pathlib import Path

# A process that forks has one thread, its children too.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from tests.soak import corrupted, kills, mutants, rewritten, rot, strangers, together
from tests.soak.faults import trials as faults

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


def main(kind: str, rounds: str, seed: str, folder: str, *first: str) -> None:
    """Print the tally as JSON; mutants can begin with another round than the first."""
    tally = KINDS[kind](int(rounds), int(seed), Path(folder), *map(int, first))
    told = {"kind": kind, "rounds": int(rounds), "seen": tally.seen, "broken": tally.broken}
    sys.stdout.write(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
