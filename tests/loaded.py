"""Programs that find torch and mvcs loaded: forked from a process that has done nothing but load them.

A fresh interpreter takes two seconds of the processor to load torch, and four until it has made an optimizer.
"""

import contextlib
import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

# With what the first optimizer of a process loads, and without what is not installed.
LIBRARIES = ["torch", "torch._dynamo", "torchdata.stateful_dataloader", "mvcs.train", "mvcs.cli"]


@pytest.fixture(scope="session")
def forked() -> Iterator[ForkServerContext]:
    """What starts such processes, in the words of `multiprocessing`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    yield context
    for left in multiprocessing.active_children():
        left.kill()
    forkserver._forkserver._stop()  # waited for, it counts in the time that the tests took


def run_script(
    ends: Sequence[Connection], words: Sequence[str], folder: Path, known: Mapping[str, str]
) -> None:
    """Be a program: a script and its arguments, with standard streams, current folder and environment."""
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(known)
    os.chdir(folder)
    sys.argv = list(words)
    sys.path.insert(0, str(Path(words[0]).parent))
    runpy.run_path(words[0], run_name="__main__")


class Program:
    """A script in such a process; what is like `subprocess.Popen` has its names."""

    def __init__(self, forked: ForkServerContext, script: Path, *arguments: str) -> None:
        stdin, told = os.pipe()
        heard, stdout = os.pipe()
        self.stdin, self.stdout = open(told, "w"), open(heard)  # noqa: PTH123, SIM115
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        ends = (Connection(stdin), Connection(stdout), Connection(os.dup(self._errors.fileno())))
        words = [str(script), *arguments]
        self._process = forked.Process(target=run_script, args=(ends, words, Path.cwd(), dict(os.environ)))
        self._process.start()
        for end in ends:
            end.close()

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()

    def communicate(self) -> tuple[str, str]:
        """Close what the program reads, and return the rest that it prints, and all its errors."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        with self.stdout, self._errors:
            rest = self.stdout.read()
            self._process.join()
            self._errors.seek(0)
            return rest, self._errors.read()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode
