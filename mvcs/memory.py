"""One budget of memory for a process: what may be kept beside the state at hand, in shares.

Whoever keeps something asks its share first. What does not fit is not kept: it is made or read again when it
is needed. So no share is ever an error, and their sum bounds what all repositories of a process keep.
"""

import gc
import os
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import ref

from mvcs.machine import machine_memory

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

AUTO = "auto"
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?(?:([kKMGTP])(i)?)?B?")
_PARTS = 96
# Bytes: each thread takes about as many, and a small state is to take no more than is promised.
_STATE_OF_A_THREAD = 50_000_000
Result = TypeVar("Result")


class Use(StrEnum):
    """What memory is kept for."""

    WEIGHTS = "earlier weights"
    MOMENTUM = "carried momentum"
    CODES = "codes of the parent"
    WORK = "leaves stored or read side by side"
    CACHES = "decoded entries"
    GATHERED = "chunks that wait for company"
    POOL = "idle memory of kernels"
    INSPECTION = "bases of packs that are checked"
    READING = "bytes that are looked at again"
    LINEAGE = "pages of the lineage while it is rebuilt"


# Of 96 parts of the budget, and bytes at most, since more would not help. Together these are all parts.
_SHARES: dict[Use, tuple[int, int | None]] = {
    # 8 bytes a weight: two earlier commits, the last, the one being added; of exact commits the last as it is
    Use.WEIGHTS: (32, None),
    Use.MOMENTUM: (16, None),  # 2 bytes a weight, of models twice as large: it stands for moments left out
    Use.CODES: (14, None),  # 2 to 4 bytes a weight; what is not held is decoded from the store
    Use.WORK: (16, None),  # threads need it while they work; a group that is larger is stored alone
    Use.CACHES: (8, 256 << 20),  # four stores at a time; without them an entry is decoded for each member
    Use.GATHERED: (3, 256 << 20),  # up to 16 MiB for each kind of chunk, bases included
    Use.POOL: (2, 96 << 20),  # a few chunks of each thread; fresh pages cost more than most kernels
    Use.INSPECTION: (2, 512 << 20),  # what is not held is decoded again
    Use.READING: (2, 128 << 20),  # a run of entries for each reader; smaller runs are more requests
    Use.LINEAGE: (1, 64 << 20),  # an index of some hundred thousand commits
}
_RAREST = (1 << 31) - 1  # the largest threshold of Python's collector
_LOCK = RLock()
os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


class Holders:
    """Who has something of a share, and what they have together.

    Those that are gone count until the share seems full: it is asked for each tensor, and to add up what all
    have would take longer than anything else that is done then.
    """

    def __init__(self) -> None:
        """Begin with nobody."""
        self._each: list[tuple[ref[Hold], list[int]]] = []
        self._most = 0

    def add(self, hold: "Hold", count: list[int]) -> None:
        """Take in a holder, with the one number that says what it has; let go of those that are gone."""
        self.total()
        self._each.append((ref(hold), count))

    def take(self, more: int, limit: int) -> bool:
        """Count so many bytes more or fewer; not if all of them were more than the limit then."""
        if more > 0 and self._most + more > limit and self.total() + more > limit:
            return False
        self._most += more
        return True

    def total(self) -> int:
        """Return what the holders have that are not gone."""
        self._each = [holder for holder in self._each if holder[0]() is not None]
        self._most = sum(count[0] for _, count in self._each)
        return self._most


_HOLDERS = {use: Holders() for use in Use}
_usual: tuple[list[int], ...] = [], [], []  # thresholds before, once for each that is at work


@contextmanager
def _rarer(generation: int, times: int) -> Iterator[None]:
    """Have Python's collector of cycles come to a generation so many times as rarely.

    Several threads may be at work; a threshold that somebody else sets meanwhile stays, and so does what
    `gc.disable` did.
    """
    usual = _usual[generation]

    def change(now: int, then: int) -> None:
        found = list(gc.get_threshold())
        if not usual and found[generation] == now:
            found[generation] = then
            gc.set_threshold(*found)

    with _LOCK:
        before = gc.get_threshold()[generation]
        rare = min(before * times, _RAREST)
        change(before, rare)
        usual.append(usual[0] if usual else before)
    process = os.getpid()
    try:
        yield
    finally:
        with _LOCK:
            if process == os.getpid():  # a fork meanwhile has them as usual already
                before = usual.pop()
                change(min(before * times, _RAREST), before)


def _begin_in_child() -> None:
    """Have the collector come as usual in a forked process, whatever threads of the other were at."""
    found = list(gc.get_threshold())
    for generation, usual in enumerate(_usual):
        if usual:
            found[generation] = usual[0]
            usual.clear()
    gc.set_threshold(*found)


os.register_at_fork(after_in_child=_begin_in_child)


# Descriptions of tensors are many small objects without cycles. Each few thousand of them make the collector
# go through all objects of the process, a model's modules among them. Young cycles are collected as ever.
rare_full_collections = partial(_rarer, 2, 100)
# Where a great many values without cycles are made at once: a third of the time of decoding a large tree.
no_collections = partial(_rarer, 0, _RAREST)


class Hold:
    """Bytes that one holder has of a share; they are free again when it is gone. Threads may share it."""

    def __init__(self, use: Use, limit: int) -> None:
        """Hold nothing yet of a share of `limit` bytes."""
        self._holders, self._limit, self._count = _HOLDERS[use], limit, [0]
        with _LOCK:
            self._holders.add(self, self._count)

    @property
    def bytes(self) -> int:
        """How many are held."""
        return self._count[0]

    def resize(self, count: int) -> bool:
        """Hold `count` bytes from now on, and tell whether the share has them; otherwise nothing changes."""
        with _LOCK:
            fits = self._holders.take(count - self._count[0], self._limit)
            if fits:
                self._count[0] = count
            return fits

    def take_rest(self) -> int:
        """Hold all that the share has left, and return how many bytes that are."""
        with _LOCK:
            left = max(self._limit - self._holders.total(), 0)
            self._holders.take(left, self._limit)
            self._count[0] += left
            return self._count[0]


class _Running(Generic[Result]):
    """Jobs on other threads; what they return is handed out in order."""

    def __init__(self, pool: "ThreadPoolExecutor", threads: int, room: Hold) -> None:
        self._pool, self._threads, self._room = pool, threads, room
        self._jobs: deque[tuple[Future[Result], int | None]] = deque()
        self._busy = 0

    def begin(self, job: Callable[[], Result], needed: int) -> Iterator[Result]:
        """Begin a job once there is room for it; hand out those that had to be waited for."""
        fits = self._room.resize(self._room.bytes + needed)
        while self._busy and not fits:
            yield self._oldest()
            fits = self._room.resize(self._room.bytes + needed)
        self._jobs.append((self._pool.submit(job), needed if fits else 0))
        self._busy += 1
        while self._busy > (self._threads if fits else 0):
            yield self._oldest()

    def do(self, done: "Future[Result]", job: Callable[[], Result]) -> Iterator[Result]:
        """Do a job on this thread; hand out what is ready."""
        done.set_result(job())
        self._jobs.append((done, None))
        while self._jobs and self._jobs[0][0].done():
            yield self._oldest()

    def end(self) -> Iterator[Result]:
        """Hand out the rest."""
        while self._jobs:
            yield self._oldest()

    def _oldest(self) -> Result:
        job, needed = self._jobs.popleft()
        done = job.result()
        if needed is not None:
            self._busy -= 1
            self._room.resize(self._room.bytes - needed)
        return done


@dataclass(frozen=True)
class Budget:
    """What a process may keep in memory, and on how many threads it works.

    Attributes:
        total: bytes, of all shares together.
        threads: the most that store or read leaves side by side.
    """

    total: int
    threads: int = 1

    @classmethod
    def of(cls, setting: str = AUTO) -> "Budget":
        """Return the budget that a setting asks for, at most what the machine and its limits allow.

        Args:
            setting: a size such as 2GiB; or "auto" for three eighths: a state and its copy need room, too.
        """
        most = machine_memory()
        asked = parse_size(setting)
        return cls(most * 3 // 8 if asked is None else min(asked, most))

    def limit(self, use: Use) -> int:
        """Return the bytes of a share."""
        parts, most = _SHARES[use]
        share = self.total * parts // _PARTS
        return share if most is None else min(share, most)

    def hold(self, use: Use) -> Hold:
        """Return what counts the bytes that one holder takes of a share."""
        return Hold(use, self.limit(use))

    def side_by_side(
        self, jobs: Iterable[tuple[Callable[[], Result], int]], total: int
    ) -> Generator[Result, None, None]:
        """Do jobs on as many threads as there is room for; yield what they return, in order.

        Close what is returned: an error must not leave threads that still work.

        Args:
            jobs: each with the bytes it takes meanwhile; 0 for one that is done on this thread.
            total: bytes of all that is done: threads are fewer where a state is small.
        """
        threads = min(self.threads, max(2, total // _STATE_OF_A_THREAD))
        if threads < 2:
            yield from (job() for job, _ in jobs)
            return
        from concurrent.futures import Future, ThreadPoolExecutor

        with ThreadPoolExecutor(threads) as pool:
            running = _Running[Result](pool, threads, self.hold(Use.WORK))
            for job, needed in jobs:
                yield from running.begin(job, needed) if needed else running.do(Future(), job)
            yield from running.end()


NOTHING = Budget(0)
"""For who meets each thing once."""


def held(use: Use) -> int:
    """Return how many bytes this process holds of a share."""
    with _LOCK:
        return _HOLDERS[use].total()


def parse_size(text: str) -> int | None:
    """Return the bytes that a text such as 5000000, 500MB or 1.5GiB names; None where it names none."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    number, prefix, binary = found.groups()
    power = " KMGTP".index(prefix.upper()) if prefix else 0
    return int(float(number) * (1024 if binary else 1000) ** power)
