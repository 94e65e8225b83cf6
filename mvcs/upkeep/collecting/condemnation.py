"""The collector: it says which packs nothing needs, waits, marks once more, and only then deletes.

`docs/format/condemned.md` is the specification; what writers do is in `mvcs.refs`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.errors import MvcsError
from mvcs.objects import ObjectId
from mvcs.refs import now_microseconds
from mvcs.store import (
    CONDEMNED_PACKS,
    MANIFEST_FOLDER,
    Backend,
    CondemnedLog,
    CondemnedRecord,
    Standing,
    manifest_path,
    pack_path,
    refuse_changes,
    upgrade,
)

LIVE = (Standing.CONDEMNED, Standing.GOING)
Mark = Callable[[Iterable[str]], set[str]]
"""Reads all refs, and returns those of some packs that nothing needs."""


@dataclass
class Collector:
    """One pass of a collector over a store; what an earlier pass began, it goes on with.

    Attributes:
        backend: the store.
        wait: seconds from a record that condemns to the deletion, by the clock of the store.
        clock: gives the time by that clock.
        author: who collects.
        mark: does the markings.
        log: what was said so far.
    """

    backend: Backend
    wait: float
    clock: Callable[[], float]
    author: str
    mark: Mark
    _ages: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the log to its end; it is empty where nobody ever condemned."""
        self.log = CondemnedLog(self.backend, now_microseconds)
        if CONDEMNED_PACKS in refuse_changes(self.backend):
            self.log.look()

    @property
    def live(self) -> set[str]:
        """The packs that are condemned, or going."""
        return self.log.of(*LIVE)

    @property
    def going(self) -> set[str]:
        """The packs that a collector said it deletes, and may have died over."""
        return self.log.of(Standing.GOING)

    def left(self, pack: str) -> float | None:
        """Return how many seconds a condemned pack still has; None for one that is not condemned.

        What a record said counts for nothing once one behind it cannot be read.
        """
        record = self.log.standing(pack)
        if record is None or record.standing not in LIVE:
            return None
        if record.number < max(self.log.unread, default=-1):
            return None
        return max(0.0, self.wait - self._age(record))

    def _age(self, record: CondemnedRecord) -> float:
        if record.path not in self._ages:
            written = self.backend.modified(record.path)
            self._ages[record.path] = -1.0 if written is None else max(0.0, self.clock() - written)
        return self._ages[record.path]

    def condemn(self, packs: Collection[str]) -> set[str]:
        """Say of packs that they will go, unless they are condemned already; return those that now are.

        Raises:
            MvcsError: nobody can tell whether they are needed, or it cannot be said.
        """
        if not packs:
            return set()
        if CONDEMNED_PACKS not in refuse_changes(self.backend):
            upgrade(self.backend, CONDEMNED_PACKS, now_microseconds(), self.author)
            packs = self.mark(packs)  # older writers may have published until now
        self.log.say_of(Standing.CONDEMNED, lambda: self._uncondemned(packs), self.author)
        return self.live & set(packs)

    def _uncondemned(self, packs: Collection[str]) -> set[str]:
        return {pack for pack in packs if self.left(pack) is None and not self._is_at_work(pack)}

    def _is_at_work(self, pack: str) -> bool:
        """Tell whether a collector may be deleting a pack that a damaged record hides the end of."""
        record = self.log.standing(pack)
        return record is not None and record.standing is Standing.GOING and self._age(record) < self.wait

    def release(self, packs: Collection[str]) -> None:
        """Say of condemned packs that they stay.

        Raises:
            StorageError: it cannot be said.
        """
        if packs:
            self.log.say_of(
                Standing.RELEASED, lambda: self.log.of(Standing.CONDEMNED).intersection(packs), self.author
            )

    def delete(self, packs: Mapping[str, Sequence[str] | None]) -> set[str]:
        """Delete packs whose wait is over, if a second marking agrees, and return them.

        Args:
            packs: condemned ones, each with where its files lie; None where a listing did not show any.

        Raises:
            MvcsError: nobody can tell any more what is needed: nothing is deleted, and all of it is released.
        """
        if not packs:
            return set()
        said = self.log.say_of(Standing.GOING, lambda: self._due(packs), self.author)
        if said is None:
            return set()
        try:
            unneeded = self.mark(said.packs)
        except MvcsError:
            self.log.say_of(Standing.RELEASED, lambda: self._ours(said), self.author)
            raise
        needed = set(said.packs) - unneeded
        self.log.say_of(Standing.RELEASED, lambda: self._ours(said) & needed, self.author)
        gone = self._ours(said) & unneeded
        paths = [path for name in gone for path in packs[name] or _paths(name)]
        # Manifests first: none is to name what is gone.
        for path in sorted(paths, key=lambda path: (not path.startswith(MANIFEST_FOLDER), path)):
            self.backend.delete(path)
        self.log.say_of(Standing.GONE, lambda: self._ours(said) & gone, self.author)
        return gone

    def _due(self, packs: Collection[str]) -> set[str]:
        """Return those of condemned packs whose wait is over; also what another collector died over."""
        return {pack for pack in packs if self.left(pack) == 0.0}

    def _ours(self, said: CondemnedRecord) -> set[str]:
        """Return the packs of which nothing was said since; another collector goes on with the others."""
        return {pack for pack in said.packs if self.log.standing(pack) == said}

    def trim(self) -> None:
        """Delete records that everybody has read long ago.

        Raises:
            MvcsError: one of them cannot be read or deleted.
        """
        if CONDEMNED_PACKS in refuse_changes(self.backend):
            self.log.trim(self._is_old)

    def _is_old(self, path: str) -> bool:
        written = self.backend.modified(path)
        return written is not None and self.clock() - written >= GRACE_DAYS * DAY_SECONDS


def _paths(name: str) -> tuple[str, ...]:
    """Return where what has a name in the log may lie: a pack of either layer, or a commit's first record."""
    return pack_path(name), pack_path(name, exact=True), manifest_path(ObjectId(bytes.fromhex(name)), 0)
