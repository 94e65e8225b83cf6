"""Room under a quota for what is stored anew beside commits: these come first."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from mvcs.config import DAY_SECONDS, GRACE_DAYS, WAIT_DAYS
from mvcs.history import Revision
from mvcs.refs import HEADS
from mvcs.reports import as_size
from mvcs.repository.quota import RAISE, NoRoomError, Quota
from mvcs.repository.session import Session
from mvcs.store import VALUE_FOLDER

_LOOKED_EVERY = 2.0  # seconds between two looks, and
_LOOKS = 20  # so many times what the last one took
_MICROSECONDS = 1_000_000


@dataclass
class RoomBeside:
    """Sees again and again that commits will fit beside what is stored anew.

    Old packs wait for `gc` when refs have moved. So as much has to stay free as commits brought within such a
    time before.

    Attributes:
        session: the repository.
        clock: what time it is, in seconds.
    """

    session: Session
    clock: Callable[[], float]
    _free: int = 0
    _begun: bool = False
    _moves: bool = False
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
        if self._quota.limit is None or self._moves:
            return
        if not self._begun:
            self._begin()
        self._look(0)

    def check_now_and_then(self) -> None:
        """See that there is room where something was written, unless that was just done.

        Raises:
            NoRoomError: there is none.
        """
        if self._begun and not self._moves and self.clock() >= self._next:
            self._look(0)

    def check_last(self) -> None:
        """See a last time that there is room where something was written: refs are about to move.

        Raises:
            NoRoomError: there is none.
        """
        if self._begun:
            self._look(0)
        self._moves = True

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
    graph, records = session.graph, session.refs.survey(HEADS).readable().values()
    tips = [graph.load(one.target, one.pack) for one in records if one.target is not None]

    def is_recent(revision: Revision) -> bool:
        return revision.commit.time >= since

    found = [revision.written for revision in takewhile(is_recent, graph.walk(tips))]
    layer = max((written.exact_bytes for written in found), default=0)
    return sum(written.stored_bytes for written in found) + layer
