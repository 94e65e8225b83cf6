"""Work in a process of its own, forked from this one: killed at any moment, or held to limits."""

import contextlib
import json
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Say = Callable[[object], None]


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        said: what it said, in order; each is something it had finished.
        signal: the signal that ended it, 0 for none.
        trace: what it raised and nobody caught.
    """

    said: list[object]
    signal: int
    trace: str = ""


def run(work: Callable[[Say], None], *, kill_after: float | None = None, seconds: float = 500.0) -> Ended:
    """Fork, do `work`, and return how it ended.

    Args:
        work: is given a function that tells this process something at once.
        kill_after: seconds after which SIGKILL comes.
        seconds: when to give up on it; it counts as SIGALRM.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _work(work, writer)
    os.close(writer)
    limit = seconds if kill_after is None else kill_after
    said = _listen(reader, child, time.monotonic() + limit, hung=kill_after is None)
    _, status = os.waitpid(child, 0)
    lines = [json.loads(line) for line in said.splitlines() if line.endswith(b"\n") or _is_whole(line)]
    trace = "".join(line["trace"] for line in lines if isinstance(line, dict) and "trace" in line)
    plain = [line for line in lines if not (isinstance(line, dict) and "trace" in line)]
    return Ended(plain, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, trace)


def _work(work: Callable[[Say], None], writer: int) -> None:
    def say(value: object) -> None:
        os.write(writer, json.dumps(value).encode() + b"\n")

    try:
        work(say)
    except BaseException:  # noqa: BLE001 - a child has nobody to raise to
        with contextlib.suppress(OSError):
            say({"trace": traceback.format_exc()})
    os._exit(0)


def _listen(reader: int, child: int, end: float, *, hung: bool) -> bytes:
    said = b""
    while True:
        ready, _, _ = select.select([reader], [], [], min(3600.0, max(0.0, end - time.monotonic())))
        if not ready:
            os.kill(child, signal.SIGALRM if hung else signal.SIGKILL)
            end = float("inf")
            continue
        part = os.read(reader, 1 << 16)
        if not part:
            os.close(reader)
            return said
        said += part


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def limited(memory: int) -> Iterator[None]:
    """Hold the rest of this process to bytes of address space."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    yield
