"""A compaction beside other work: it rests in between, tells how far it is, and leaves the quota alone."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile

from mvcs.config import DAY_SECONDS, GRACE_DAYS, WAIT_DAYS
from mvcs.errors import ConflictError, MvcsError, UsageError
from mvcs.history import Revision
from mvcs.local import BackgroundCompaction, LocalRecords
from mvcs.processes import Process
from mvcs.refs import HEADS
from mvcs.reports import CompactReport, as_size
from mvcs.repository.quota import RAISE, NoRoomError, Quota
from mvcs.repository.session import Session
from mvcs.store import VALUE_FOLDER

_LONGEST_WAIT = 1.0  # between two looks whether the other process is still there
_SHORTEST_WAIT = 0.02
_KEPT_EVERY = 2.0
Clock = Callable[[], float]
_LOOKED_EVERY = 2.0  # seconds between two looks, and
_LOOKS = 20  # so many times what the last one took
_MICROSECONDS = 1_000_000


@dataclass
class Pace:
    """Keeps this process within a share of one processor: what it took is rested off before it goes on.

    Attributes:
        share: of a processor, above 0 and up to 1.
        beside: the process beside which this one works; None for none.
        clock: what time it is, in seconds.
        processor: the seconds that this process computed.
        wait: waits so many seconds.
    """

    share: float
    beside: Process | None = None
    clock: Clock = time.monotonic
    processor: Clock = time.process_time
    wait: Callable[[float], object] = lambda seconds: threading.Event().wait(seconds)

    def __post_init__(self) -> None:
        """Begin to count.

        Raises:
            UsageError: there is no such share.
        """
        if not 0.0 < self.share <= 1.0:
            raise UsageError(
                f"a compaction cannot take {self.share:g} of a processor", hint="give a share such as 0.01"
            )
        self._free_from = self._looked = self.clock()
        self._computed = self.processor()

    def rest(self) -> None:
        """Wait until what was computed is the share of the time that passed; idle time is not saved up.

        Raises:
            ConflictError: the other process has ended.
        """
        computed = self.processor()
        self._free_from = max(self._free_from, self._looked) + (computed - self._computed) / self.share
        self._computed = computed
        while (left := self._free_from - self.clock()) > _SHORTEST_WAIT:
            if self.beside is not None and self.beside.is_gone():
                raise ConflictError(
                    f"process {self.beside.number} ended, beside which commits were rewritten",
                    hint="run it again: it continues behind what was verified",
                )
            self.wait(min(left, _LONGEST_WAIT))
        self._looked = self.clock()


class BesideOthers:
    """One compaction beside other work, which also is its progress."""

    def __init__(self, session: Session, pace: Pace) -> None:
        """Rest by `pace`, and pass on to the progress of `session` what is told."""
        self._progress, self._pace = session.progress, pace
        self._records = LocalRecords(session.place.local)
        self.finish, self.note = session.progress.finish, session.progress.note
        self._told = BackgroundCompaction(Process.current())
        self._kept = float("-inf")
        self._counts = False
        self._room = RoomBeside(session, pace.clock)

    def run(self, compact: Callable[[], CompactReport]) -> CompactReport:
        """Compact; what goes wrong is on record for `status`."""
        try:
            return compact()
        except ConflictError:
            raise  # another one is at work, or the process beside which this one was has ended
        except MvcsError as error:
            replace(self._told, failure=error.message).keep(self._records)
            raise

    def rest(self) -> None:
        """Rest, as the pace says.

        Raises:
            NoRoomError: meanwhile so much was committed that what is stored again has no room any more.
        """
        self._pace.rest()
        self._room.check_now_and_then()

    def check_room(self) -> None:
        """See before a pack is written that commits will still fit.

        Raises:
            NoRoomError: they may not.
        """
        self._room.check()

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage, of which the commits are put on record."""
        self._progress.start(stage, total, unit)
        self._counts = unit == "commits" and total is not None
        if self._counts:
            self._told = replace(self._told, done=0, total=total or 0)
            self._keep()

    def advance(self, amount: int) -> None:
        """Count on."""
        self._progress.advance(amount)
        if self._counts:
            self._told = replace(self._told, done=self._told.done + amount)
            if self._pace.clock() - self._kept >= _KEPT_EVERY:
                self._keep()

    def _keep(self) -> None:
        self._told.keep(self._records)
        self._kept = self._pace.clock()


@dataclass
class RoomBeside:
    """Sees again and again that commits will fit beside what is stored again.

    Old packs wait for `gc`. So as much has to stay free as commits brought within such a time before.

    Attributes:
        session: the repository.
        clock: what time it is, in seconds.
    """

    session: Session
    clock: Callable[[], float]
    _free: int = 0
    _begun: bool = False
    _next: float = 0.0

    def __post_init__(self) -> None:
        """Count nothing yet."""
        place = self.session.place
        self._quota = Quota.of(place.backend, place.config)

    def check(self) -> None:
        """See before a pack is written that there is room; before the first one, for as much as all take.

        Raises:
            NoRoomError: there is none.
        """
        if self._quota.limit is None:
            return
        if not self._begun:
            self._begin()
        self._look(0)

    def check_now_and_then(self) -> None:
        """See that there is room where something was written, unless that was just done.

        Raises:
            NoRoomError: there is none.
        """
        if self._begun and self.clock() >= self._next:
            self._look(0)

    def _begin(self) -> None:
        self._free = _needed_for_commits(self.session)
        self._look(sum(self.session.place.backend.sizes(VALUE_FOLDER).values()))
        self._begun = True

    def _look(self, more: int) -> None:
        before = self.clock()
        self._quota.look()
        after = self.clock()
        self._next = after + max(_LOOKED_EVERY, _LOOKS * (after - before))
        if self._quota.is_near(more + self._free):
            raise self._refusal(more)

    def _refusal(self, more: int) -> NoRoomError:
        what = f"rewriting commits may take {as_size(more)}" if more else "commits are not rewritten"
        found = NoRoomError(
            f"{what}, and store.max_bytes leaves no room for that "
            f"beside {as_size(self._free)} for commits to come",
            hint=RAISE,
        )
        found.more = more
        return found


def _needed_for_commits(session: Session) -> int:
    """Return how many bytes commits brought in as many days as old packs wait, and an exact layer more."""
    since = (time.time() - (GRACE_DAYS + WAIT_DAYS) * DAY_SECONDS) * _MICROSECONDS
    graph = session.graph
    tips = graph.tips(session.refs.survey(HEADS).readable().values())

    def is_recent(revision: Revision) -> bool:
        return revision.commit.time >= since

    found = [revision.written for revision in takewhile(is_recent, graph.walk(tips))]
    layer = max((written.exact_bytes for written in found), default=0)
    return sum(written.stored_bytes for written in found) + layer
