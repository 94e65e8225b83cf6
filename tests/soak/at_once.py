"""All at once on an S3 server: `python -m tests.soak.at_once ROUNDS SEED FOLDER`.

In every round three writers, two compactions, a collection and a push begin at the same moment, each in a
process of its own. Afterwards every commit that was acknowledged restores its values, and fsck finds nothing.
"""

import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from mvcs import Repository
from mvcs.errors import MvcsError
from mvcs.refs import GoingError
from tests.soak.together import DAY, digest, state
from tests.store.servers import KEY, SECRET, seaweed

WRITERS = 3
GRACE, WAIT = 20.0, 10.0  # seconds
Say = Callable[..., None]


def write(repo: Repository, name: str, turn: int, say: Say) -> None:
    """Commit to a branch that two of the three share."""
    values = state(1000 * int(name[-1]) + turn)
    made = repo.commit(values, branch=("main", "side")[int(name[-1]) % 2], step=turn, step_size=0.5)
    say(commit=made.id, digest=digest(repo.checkout(made.id, numpy=True)["model"]))


def compact(repo: Repository, name: str, turn: int, say: Say) -> None:
    """Store anew with chains of another length."""
    done = repo.compact(max_depth=random.Random(f"{name}{turn}").choice((1, 3, 8)))
    say(rewritten=done.rewritten)


def collect(repo: Repository, _: str, turn: int, say: Say) -> None:
    """Condemn, and delete what was condemned before."""
    say(deleted=len(repo.gc(grace_days=GRACE / DAY, wait_days=WAIT / DAY, execute=True).garbage), turn=turn)


def push(repo: Repository, _: str, turn: int, say: Say) -> None:
    """Push a commit of a clone with a store of its own."""
    values = state(9000 + turn)
    made = repo.commit(values, branch="pushed", step=turn, step_size=0.5)
    repo.push("hub", ["pushed"])
    say(commit=made.id, digest=digest(repo.checkout(made.id, numpy=True)["model"]))


ROLES: dict[str, Callable[[Repository, str, int, Say], None]] = {
    **{f"writer-{index}": write for index in range(WRITERS)},
    "compaction-0": compact,
    "compaction-1": compact,
    "collector": collect,
    "pusher": push,
}


def work(name: str, folder: str, rounds: int, barrier: Barrier) -> None:
    """Do the same in every round, and write down what came of it."""
    with Repository.open(Path(folder) / name) as repo, (Path(folder) / f"{name}.jsonl").open("a") as file:

        def say(**line: Any) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        for turn in range(rounds):
            barrier.wait(600)
            try:
                ROLES[name](repo, name, turn, say)
            except (GoingError, MvcsError) as error:
                say(refused=type(error).__name__, message=error.message)


def main(rounds: str, seed: str, folder: str) -> None:
    """Run, and print what came of it."""
    where, started = Path(folder), time.monotonic()
    known = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= known
    environment = known | {"GOMEMLIMIT": "400MiB"}
    spawn = multiprocessing.get_context("spawn")
    (where / "server").mkdir(parents=True)
    with seaweed(where / "server", environment) as server:
        url, options = f"s3://{server.bucket}/at-once-{seed}", server.options
        for name in ROLES:
            if name == "pusher":
                continue
            Repository.init(where / name, store=url, options=options).close()
        with Repository.open(where / "writer-0") as repo:
            repo.commit(state(0), branch="main", step=0)
            repo.create_branch("side", "main")
        Repository.clone(url, where / "pusher", options=options).close()
        with Repository.open(where / "pusher") as repo:
            repo.add_remote("hub", url, options=options)
        barrier = spawn.Barrier(len(ROLES))
        workers = [spawn.Process(target=work, args=(name, folder, int(rounds), barrier)) for name in ROLES]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        told = [json.loads(line) for name in ROLES for line in (where / f"{name}.jsonl").open()]
        made = [line for line in told if "commit" in line]
        with Repository.open(where / "writer-0") as repo:
            known = {info.id for info in repo.log(all_branches=True)}
            lost = [line["commit"] for line in made if line["commit"] not in known]
            wrong = [
                line["commit"]
                for line in made
                if line["commit"] in known
                and digest(repo.checkout(line["commit"], numpy=True)["model"]) != line["digest"]
            ]
            problems = repo.fsck().problems
    refused = [line for line in told if "refused" in line]
    print(  # noqa: T201 - run by hand
        json.dumps(
            {
                "rounds": int(rounds),
                "seconds": round(time.monotonic() - started),
                "acknowledged": len(made),
                "lost": lost,
                "wrong": wrong,
                "problems": [str(problem) for problem in problems],
                "deleted": sum(line.get("deleted", 0) for line in told),
                "rewritten": sum(line.get("rewritten", 0) for line in told),
                "refused": sorted({(line["refused"], line["message"][:60]) for line in refused}),
                "refusals": len(refused),
                "exits": [worker.exitcode for worker in workers],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
