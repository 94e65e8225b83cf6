"""What chunks take near those of commits at some distance, and what chains cost by how bases are laid.

    python -m tests.bench.skip_deltas REPOSITORY [--commits N] [--json OUT]

Some commits of a branch are encoded near the commit 1, 2, 4, … before, and alone. From the mean bytes by
distance follows what a whole history takes, and how many entries a restore decodes, when

- each commit is near the one before, with a snapshot every n (snapshots);
- commit i is near the commit whose number lacks the lowest bit of i (skip): chains have at most log2 steps.

`mvcs compact` with short chains lays them otherwise (jumps): see `mvcs/compaction/rewriting.py`.

At an equal budget, which is the mean entries of a chain, *snapshots* take what lies between two of their
distances. So bytes of both are compared at the entries that *skip* has.
"""

import argparse
import itertools
import math
import pathlib
import statistics
from collections import defaultdict

from mvcs import Repository
from mvcs.compaction.repack import LONGEST, depth_at
from mvcs.compaction.values import CommitValues
from mvcs.delta import CodeChunks, choose_codes
from mvcs.history import Revision
from mvcs.objects import Kind, ObjectId
from mvcs.store import ObjectStore
from tests.bench import results

DISTANCES = 1, 2, 4, 8, 16, 32
SAMPLES = 6
ALONE = 0
LEAST = 1 << 12  # bytes of chunks that are looked at: smaller ones share entries


class Commit:
    """The chunks of codes of one commit, and where they stand."""

    def __init__(self, store: ObjectStore, revision: Revision) -> None:
        view = store.apart()
        view.catalog.attach_commit(revision.id)
        self.values = CommitValues.of(view, revision)
        self.chunks: dict[ObjectId, bytes] = {name: view.read(Kind.CHUNK, name) for name in self.values.steps}

    def near(self, base: "Commit | None") -> int:
        """Return the bytes that all large chunks take near those of another commit, or alone."""
        total = 0
        for name, content in self.chunks.items():
            if len(content) < LEAST:
                continue
            old = None if base is None else base.values.chunk_at.get(self.values.positions[name])
            near = None if old is None or base is None else base.chunks[old]
            steps = (base.values.steps[old] if base and old else None), self.values.steps[name]
            known = None if None in steps else [(steps[0] or 0, steps[1] or 0)]
            total += len(choose_codes(CodeChunks(content, 2, [len(content)], 256, near, known))[1])
        return total


def sizes(folder: pathlib.Path) -> tuple[dict[int, float], int]:
    """Return the mean bytes of a commit by the distance of its bases, and how many commits there are."""
    found: dict[int, list[int]] = defaultdict(list)
    with Repository.open(folder) as repo:
        session = repo._session
        line = list(session.graph.first_parents(session.resolver.resolve("HEAD")))[::-1]
        first = min(max(DISTANCES), len(line) // 2)
        for number in range(first, len(line), max(1, (len(line) - first) // SAMPLES)):
            commit = Commit(session.store, line[number])
            found[ALONE].append(commit.near(None))
            for distance in DISTANCES:
                if number >= distance:
                    found[distance].append(commit.near(Commit(session.store, line[number - distance])))
    return {distance: statistics.fmean(each) for distance, each in found.items()}, len(line)


def snapshots(size: dict[int, float], commits: int, every: int) -> tuple[float, float]:
    """Return the bytes of a history with snapshots every so many commits, and the mean entries of a chain."""
    alone = sum(1 for number in range(commits) if number % every == 0)
    return alone * size[ALONE] + (commits - alone) * size[1], statistics.fmean(
        number % every + 1 for number in range(commits)
    )


def skips(size: dict[int, float], commits: int) -> tuple[float, float]:
    """Return the same with bases at growing distances."""
    bases = [number & -number for number in range(1, commits)]
    steps = [1 + number.bit_count() for number in range(commits)]
    return size[ALONE] + sum(size[distance] for distance in bases), statistics.fmean(steps)


def jumps(size: dict[int, float], commits: int, most: int) -> tuple[float, float]:
    """Return the same as `mvcs compact --max-depth` lays bases; distances not measured are guessed."""
    total, way, depths = 0.0, list[int](), list[int]()
    for number in range(commits):
        depth = depth_at(number, most) or 0
        way = way[:depth]
        total += min(size[ALONE], at_distance(size, number - way[-1])) if way else size[ALONE]
        way.append(number)
        depths.append(depth + 1)
    return total, statistics.fmean(depths)


def at_distance(size: dict[int, float], distance: int) -> float:
    """Return the bytes at a distance, on a line between those of the powers of two beside it."""
    known = sorted(size.keys() - {ALONE})
    low = max(one for one in known if one <= distance)
    high = min((one for one in known if one > distance), default=low)
    part = 0.0 if high == low else math.log(distance / low) / math.log(high / low)
    return size[low] + part * (size[high] - size[low])


def at_equal_entries(size: dict[int, float], commits: int, entries: float) -> float:
    """Return the bytes of a history with snapshots whose chains have so many entries on average."""
    ways = [snapshots(size, commits, every) for every in range(1, commits + 1)]
    for (more, few), (less, many) in itertools.pairwise(ways):
        if few <= entries <= many:
            return more + (less - more) * (entries - few) / (many - few)
    return ways[-1][0]


def main() -> None:
    """Measure one history."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--commits", type=int, help="by default as many as there are")
    results.add_option(parser)
    given = parser.parse_args()
    size, there = sizes(given.folder)
    commits = given.commits or there
    ways = (2, 3, 4, 5, 9, 17, commits)
    table = {f"snapshots every {every}": snapshots(size, commits, every) for every in ways}
    table["skip"] = skips(size, commits)
    table |= {f"jumps, depth {most}": jumps(size, commits, most) for most in range(2, LONGEST + 1, 2)}
    table["snapshots at equal entries"] = (
        at_equal_entries(size, commits, table["skip"][1]),
        table["skip"][1],
    )
    for distance, mean in sorted(size.items()):
        print(f"{'alone' if distance == ALONE else distance}: {mean:.0f} bytes")
    for name, (stored, entries) in table.items():
        print(f"{name}: {stored:.0f} bytes, {entries:.2f} entries a restore")
    results.write(given.json, {"bytes": {str(one): mean for one, mean in size.items()}, "ways": table})


if __name__ == "__main__":
    main()
