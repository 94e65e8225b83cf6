"""Results of a benchmark as JSON, as `docs/benchmarks/ledger.py take` wants them."""

import argparse
import json
import os
import pathlib
from collections.abc import Mapping


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark be asked for its results as JSON."""
    parser.add_argument("--json", type=pathlib.Path, metavar="OUT", help="write the results here as well")


def load() -> float:
    """Return how many processes wanted a core, over the last minute."""
    return round(os.getloadavg()[0], 2)


def write(out: pathlib.Path | None, results: Mapping[str, object]) -> None:
    """Write results where that was asked for."""
    if out is not None:
        out.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
