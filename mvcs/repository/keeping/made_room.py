"""Room in a store that has a quota: what may go at once goes, then what rules let go is condemned."""

from collections.abc import Callable
from dataclasses import dataclass

from mvcs.config import DAY_SECONDS, GRACE_DAYS, WAIT_DAYS
from mvcs.errors import MvcsError
from mvcs.repository.keeping.letting_go import LettingGo
from mvcs.repository.keeping.retained import Retained
from mvcs.repository.keeping.unfinished import give_up_broken_off
from mvcs.repository.session import Session
from mvcs.retention import Layer, Ruling, try_drop_old_layers
from mvcs.upkeep import collect_garbage, remove_leftovers


@dataclass
class MadeRoom:
    """Makes room for what is to be written; what cannot be done is told, and hinders nothing.

    What killed commands and a compaction of this clone left that was broken off goes at once, and so do exact
    layers that no rule keeps. Of the rest others may know: it is condemned first, and goes a day later at the
    earliest, as with `gc`.

    Attributes:
        session: the repository.
        more: bytes that are to fit.
        waiting: bytes of packs that nothing needs any more, and that are not deleted yet.
    """

    session: Session
    more: int
    waiting: int = 0

    @property
    def suffices(self) -> bool:
        """Whether it fits now."""
        self.session.quota.look()
        return not self.session.quota.is_near(self.more)

    def make(self) -> None:
        """Let go what may go until it fits, the cheapest first."""
        for step in (self._leftovers, self._exact_layers, self._collect, self._apply_rules):
            self._attempt(step)
            if self.suffices:
                return

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except MvcsError as error:
            self.session.warn(f"room could not be made: {error.message}")

    def _leftovers(self) -> None:
        remove_leftovers(self.session.place)
        give_up_broken_off(self.session.place)

    def _exact_layers(self) -> None:
        session = self.session
        kept = session.place.config.integer("retention.exact_layers")
        problem = try_drop_old_layers(session.retention_source, kept)
        if problem is not None:
            raise problem

    def _apply_rules(self) -> None:
        """Drop what no rule keeps. What stays is stored anew for that, which takes room for a while."""
        own = Retained.of(self.session, None)
        if Ruling.of(own.store.backend).of_layer(Layer.DATA):
            LettingGo.begin(own, force=False).execute()
            self._collect()

    def _collect(self) -> None:
        """Delete what has waited, and condemn what is old enough."""
        session, wait = self.session, WAIT_DAYS * DAY_SECONDS
        grace = GRACE_DAYS * DAY_SECONDS
        report = collect_garbage(session.place, grace, wait=wait, execute=True, author=session.author)
        self.waiting = sum(item.bytes for item in (*report.condemned, *report.waiting))
