"""A process that forks others, which do something to a repository and are killed before their n-th change.

It reads orders on stdin, a JSON list a line: what to do, arguments, how many changes are allowed. It says
whether the child was killed, once it is gone.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

import numpy as np

from mvcs import Repository
from tests.store.faults import Disk


def state(number: int) -> dict[str, object]:
    noise = np.random.default_rng(number).standard_normal((40, 64)).astype(np.float32)
    return {"weight": noise, "step": number}


def commit(folder: str, number: int, bins: int | None) -> None:
    with Repository.open(folder) as repo:
        repo.commit(state(number), step=number, bins=bins)


def checkout(folder: str, rev: str) -> None:
    with Repository.open(folder) as repo:
        repo.checkout_files(rev, force=True)


def export(folder: str, rev: str, target: str) -> None:
    with Repository.open(folder) as repo:
        repo.export(rev, target, force=True)


def push(folder: str, branch: str) -> None:
    with Repository.open(folder) as repo:
        repo.push(refs=[branch])


def fetch(folder: str) -> None:
    with Repository.open(folder) as repo:
        repo.fetch()


WORK = {work.__name__: work for work in (commit, checkout, export, push, fetch)}


def die() -> BaseException:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def warm_up() -> None:
    """Load what the work needs, once for all children."""
    with tempfile.TemporaryDirectory() as folder:
        with Repository.init(folder) as repo:
            repo.add_remote("origin", f"{folder}/far")
        commit(folder, 0, 16)
        push(folder, "main")
        fetch(folder)
        export(folder, "main", f"{folder}/out.safetensors")


def serve() -> None:
    warm_up()
    for line in sys.stdin:
        name, arguments, root, allowed = json.loads(line)
        child = os.fork()
        if not child:
            with Disk(Path(root), allowed, die):
                WORK[name](*arguments)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps(os.WIFSIGNALED(status)) + "\n")
        sys.stdout.flush()


class Nursery:
    """The process, seen from a test."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.dying"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.stdin.close()

    def kill(self, work: str, *arguments: object, root: Path, before: int) -> bool:
        """Kill a process before change number `before` below `root`; tell whether it got so far."""
        order = [work, [str(a) if isinstance(a, Path) else a for a in arguments], str(root), before]
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return bool(json.loads(self._process.stdout.readline()))


if __name__ == "__main__":
    serve()
