"""A compaction beside other work: it rests in between, tells how far it is, and leaves the quota alone."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from mvcs.errors import ConflictError, MvcsError, UsageError
from mvcs.local import BackgroundCompaction, LocalRecords
from mvcs.processes import Process
from mvcs.reports import CompactReport
from mvcs.repository.keeping.room_beside import RoomBeside
from mvcs.repository.session import Session

_LONGEST_WAIT = 1.0  # between two looks whether the other process is still there
_SHORTEST_WAIT = 0.02
_KEPT_EVERY = 2.0

Clock = Callable[[], float]


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
            NoRoomError: meanwhile so much was committed that what is stored anew has no room any more.
        """
        self._pace.rest()
        self._room.check_now_and_then()

    def check_room(self) -> None:
        """See before a pack is written that commits will still fit.

        Raises:
            NoRoomError: they may not.
        """
        self._room.check()

    def begin_moving(self) -> None:
        """See a last time that commits will still fit: once refs move nothing stops it.

        Raises:
            NoRoomError: they may not.
        """
        self._room.check_last()

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
