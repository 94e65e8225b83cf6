"""Results of a benchmark as JSON, as `docs/benchmarks/ledger.py take` wants them."""

import argparse
import json
import os
import pathlib
import resource
from collections.abc import Mapping

from mvcs.bench.codecs.clock import Pairs


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark be asked for its results as JSON."""
    parser.add_argument("--json", type=pathlib.Path, metavar="OUT", help="write the results here as well")


def load() -> float:
    """Return how many processes wanted a core, over the last minute."""
    return round(os.getloadavg()[0], 2)


def row(what: str, found: Pairs, neighbour: str) -> dict[str, object]:
    """Print one thing beside its neighbour, and return its figures."""
    spread = f" ({found.low:.3f} to {found.high:.3f})" if found.low < found.high else ""
    seconds = f"{found.first_s:10.4f} s{found.second_s:10.4f} s{found.ratio:9.3f}"
    print(f"{what:60}{seconds}{spread} x {neighbour}", flush=True)
    return {"what": what, "neighbour": neighbour} | found.to_json()


def children_seconds() -> float:
    """Return what processes that this one started and waited for took the processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write(out: pathlib.Path | None, results: Mapping[str, object]) -> None:
    """Write results where that was asked for."""
    if out is not None:
        out.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
