"""Processes that commit: for tests that kill them, race them, or take their disk away.

Run with what to do and where; it says on stdout what it did, a JSON value a line.
"""

import json
import os
import resource
import sys
from pathlib import Path

import numpy as np

from mvcs import Repository
from mvcs.errors import ConflictError, MvcsError, StorageError

ROWS = 200


def state(number: int, rows: int = ROWS) -> dict[str, object]:
    noise = np.random.default_rng(number).standard_normal((rows, 128)).astype(np.float32)
    return {"weight": noise, "step": number}


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def forever(folder: str) -> None:
    """Commit until killed: every second commit bounded."""
    repo = Repository.open(folder)
    head = repo.head()
    number = 0 if head is None else (head.step or 0) + 1
    while True:
        commit = repo.commit(state(number), step=number, bins=16 if number % 2 else None)
        say([number, commit.id])
        number += 1


def nursery(folder: str) -> None:
    """For every line read, fork a process that commits until it is killed: starting one takes long."""
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            forever(folder)
        say(child)
        os.waitpid(child, 0)
        say("gone")


def race(folder: str, first: str, count: str, settings: str) -> None:
    """Commit `count` states to one branch, beside others who do the same."""
    repo = Repository.open(folder)
    say("ready")
    sys.stdin.readline()
    for number in range(int(first), int(first) + int(count)):
        try:
            commit, branch, lost = (
                repo.commit(state(number, 20), step=number, **json.loads(settings)),
                "main",
                False,
            )
        except ConflictError as error:
            commit, branch, lost = error.commit, error.branch, True
        say([number, commit.id, branch, lost])


def fill(folder: str, limit: str) -> None:
    """Commit until the disk, or the limit on the size of a file, refuses; then free space and go on."""
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    ballast = Path(folder) / "ballast"
    if not int(limit):
        ballast.write_bytes(bytes(1 << 20))
    repo = Repository.init(folder)
    last = repo.commit(state(0, 10), step=0)
    number = 1
    try:
        while True:
            last = repo.commit(state(number, 100 * number), step=number, bins=16 if number % 2 else None)
            number += 1
    except StorageError as error:
        refused = [error.message, error.hint, error.exit_code]
    again = Repository.open(folder)
    head, problems = again.head(), [problem.message for problem in again.fsck().problems]
    same = again.checkout(numpy=True)["step"] == head.step
    ballast.unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    after = again.commit(state(number, 100), step=number)
    say([refused, head.id == last.id, problems, same, after.parents == [head.id], again.fsck().ok])


def look(folder: str) -> None:
    """Read a repository that cannot be written, then try to write it."""
    repo = Repository.open(folder)
    values = [repo.head().id, [commit.id for commit in repo.log()], repo.fsck().ok]
    values.append(repo.checkout(numpy=True)["step"])
    values.append([entry.state for entry in repo.status().entries])
    try:
        repo.commit(state(99))
    except MvcsError as error:
        values.append([type(error).__name__, error.message, error.hint])
    say(values)


if __name__ == "__main__":
    {"nursery": nursery, "race": race, "fill": fill, "look": look}[sys.argv[1]](*sys.argv[2:])
