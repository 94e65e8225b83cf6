"""What the history of `make demo` takes, class by class: `python -m tests.bench.demo_bytes demo-run/run`."""

import argparse
import pathlib
from collections import defaultdict

from mvcs import Repository
from mvcs.reports.details import CommitDetails
from tests.bench import results

CLASSES = {"weight": "weights", "small": "weights", "moment": "moments", "blobs": "other"}
SIZES = ("raw_bytes", "stored_bytes", "exact_bytes")


def main() -> None:
    """Print a line for each class."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="of the repository")
    results.add_option(parser)
    options = parser.parse_args()
    with Repository.open(options.folder) as repository:
        shown = [repository.show(commit.id) for commit in repository.log(all_branches=True)]
    rows = classes(shown)
    for name, row in rows.items():
        print(f"{name:12}{row['raw_bytes']:>12,}{row['stored_bytes']:>12,}{row['exact_bytes']:>12,}")
    results.write(options.json, {"load": results.load(), "classes": rows} | whole(shown))


def classes(shown: list[CommitDetails]) -> dict[str, dict[str, int]]:
    """Return the bytes of each class over all commits: handed over, in the history, in exact layers."""
    rows: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(SIZES, 0))
    for one in (one for details in shown for one in details.classes):
        row = rows[CLASSES.get(one.name, one.name)]
        for size in SIZES:
            row[size] += getattr(one, size)
    return dict(rows)


def whole(shown: list[CommitDetails]) -> dict[str, object]:
    """Return what all commits take, and how much worse they are by what they were bounded by."""
    commits = [details.commit for details in shown]
    steps = sorted(commits, key=lambda commit: commit.step or 0)
    return {
        "commits": [{"step": one.step, "stored_bytes": one.stored_bytes} for one in steps],
        "raw_bytes": sum(one.raw_bytes for one in commits),
        "stored_bytes": sum(one.stored_bytes for one in commits),
        "worst": max(
            (one.degradation for one in commits if isinstance(one.degradation, float)), default=None
        ),
        "exact": sum(one.exactness == "exact" for one in commits),
    }


if __name__ == "__main__":
    main()
