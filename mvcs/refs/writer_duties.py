"""What a writer owes to collectors: it objects to what it needs, and relies on nothing that is being deleted.

`docs/format/condemned.md` is the specification.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from mvcs.errors import ConflictError, CorruptionError, NotFoundError, StorageError, UnsupportedFormatError
from mvcs.objects import ObjectId
from mvcs.refs.record import RefChange, RefRecord
from mvcs.store import (
    CONDEMNED_PACKS,
    Backend,
    CondemnedLog,
    Manifest,
    Manifests,
    Placement,
    Standing,
    manifest_path,
    pack_path,
    refuse_changes,
)

ATTEMPTS = 4
TAKEN_BACK = "taken back: packs of it were deleted meanwhile"
"""The action of a record that takes the one before it back, which then counts no more."""


class GoingError(ConflictError):
    """A collector is deleting what a writer was to need, or has deleted it; nothing points there.

    Attributes:
        packs: names of these packs, and ids of commits, in hexadecimal.
        now: the record by which a ref was taken back; None where it had not moved, or moved on.
    """

    now: RefRecord | None = None

    def __init__(self, packs: Iterable[str]) -> None:
        """Say how many they are."""
        self.packs = frozenset(packs)
        super().__init__(
            f"packs that this needs are being deleted, as nothing needed them before ({len(self.packs)})",
            hint="run it again; if that fails, 'mvcs gc --execute' on that store ends what was begun there",
        )


@dataclass(frozen=True)
class Marked:
    """Records whose targets a collector has marked, or will.

    Attributes:
        before: what the ref said before; None where that does not count.
        others: gives what all refs say now, which takes many requests.
    """

    before: RefRecord | None = None
    others: Callable[[], Collection[RefRecord]] = tuple


class Needs(Protocol):
    """Tells what a commit and its history need."""

    def __call__(self, target: ObjectId, marked: Marked, *, exact: bool) -> set[str]:
        """Return names of packs and ids of commits, in hexadecimal, but for what is behind marked records.

        Args:
            target: the commit.
            marked: what a collector has marked.
            exact: whether packs of exact layers count as well.

        Raises:
            MvcsError: something on the way cannot be read.
        """


@dataclass(frozen=True)
class Moved:
    """That the data of a commit are to lie elsewhere.

    Attributes:
        commit: the commit.
        now: where they lie then.
        read: what its newest record said when that was decided.
    """

    commit: ObjectId
    now: Placement
    read: Placement


class WriterDuties:
    """What a writer does before something comes to need packs, and behind it."""

    def __init__(self, backend: Backend, needs: Needs | None, clock: Callable[[], int]) -> None:
        """Look at the log of `backend`; without `needs` a target counts as needing every pack."""
        self._backend = backend
        self._needs = needs
        self._log = CondemnedLog(backend, clock)

    def look(self, upgrades: Collection[str]) -> set[str]:
        """Return what nobody should rely on; who is about to write much looks before.

        Raises:
            StorageError: the log cannot be read.
        """
        if CONDEMNED_PACKS not in upgrades:
            return set()
        self._read()
        return self._log.of(Standing.CONDEMNED, Standing.GOING)

    def before(self, upgrades: Collection[str], change: RefChange, marked: Marked) -> int:
        """Release what a target needs.

        Args:
            upgrades: those of the store.
            change: what the record will say.
            marked: what refs lead to now.

        Returns:
            How far the log was read.

        Raises:
            GoingError: it needs what is going, or gone.
            NotFoundError: what it needs is missing, where something is going or gone.
            StorageError: the log cannot be read or written.
        """
        if CONDEMNED_PACKS not in upgrades:
            return -1
        read = -2
        self._read()
        while read != self._log.newest:  # what was said meanwhile is looked at as well
            read = self._log.newest
            self._object(change, marked)
        return read

    def _object(self, change: RefChange, marked: Marked) -> None:
        condemned, going = self._log.of(Standing.CONDEMNED), self._log.of(Standing.GOING)
        gone = self._log.said(Standing.GOING) - going
        if not (condemned or going or gone):
            return
        # A collector may have marked before the refs of now came, once it has said what goes.
        told = Marked() if going else marked
        needed = self._needed(change, told, missing_is_gone=bool(going or gone))
        self._refuse(needed, going - self._missing(change, needed, told, going | gone))
        self._release(needed, condemned, change.author)
        self._read()

    def _missing(self, change: RefChange, needed: set[str] | None, told: Marked, went: set[str]) -> set[str]:
        """Return exact packs that are needed of those that went, and are not there: they hold nothing back.

        Raises:
            GoingError: of what is not there some is of a value layer, or the writer counts on it.
        """
        lost = {name for name in (needed or set()) & went if not self._is_there(name)}
        if lost:
            values = self._needed(change, told, exact=False)
            self._refuse(None if values is None else values | change.exact, lost)
        return lost

    def behind(self, upgrades: Collection[str], change: RefChange, read: int) -> None:
        """Look whether the log went on, behind a ref record; `read` is how far it was read before.

        Raises:
            GoingError: what the target needs is going since, so that the record has to be taken back.
        """
        if CONDEMNED_PACKS not in upgrades:
            return
        # The ref has moved: a disk that fails now must not look as if it had not.
        with suppress(StorageError):
            self._read()
            # What was condemned since is released by the collector, whose marking is yet to come.
            going = self._log.said(Standing.GOING, after=read)
            if going:
                self._refuse(self._needed(change, Marked()), going)

    def record(
        self, manifests: Manifests, made: Iterable[Manifest], author: str, moves: Iterable[Moved] = ()
    ) -> None:
        """Write the first records of commits, and `moves`; those that have one get a later number.

        Data that lie here stay, whatever became of them in the store that a commit comes from. Raises as
        `move` does.
        """
        due = [*moves]
        for manifest in made:
            wanted, now = manifest.placement, manifests.write(manifest)
            if now != wanted and (wanted.dropped is None or now.dropped is not None):
                due.append(Moved(manifest.written.id, wanted, now))
        if due:
            self.move(manifests, due, author)

    def move(self, manifests: Manifests, moves: Sequence[Moved], author: str) -> list[Moved]:
        """Write where the data of commits lie from now on; where another writer was first, his word stays.

        Returns:
            Those that were written, each with its number.

        Raises:
            GoingError: packs of them are being deleted; where that was seen late, the record before stands
                again.
            StorageError: the store could not be read or written; what was written stays.
        """
        packs = {name for move in moves for name in move.now.packs}
        upgrades, read = refuse_changes(self._backend), -1
        if CONDEMNED_PACKS in upgrades:
            self._read()
            read = self._log.newest
            self._refuse(packs, self._log.of(Standing.GOING))
            went = packs & self._log.said(Standing.GOING)
            self._refuse(packs, {name for name in went if not self._is_there(name)})
            self._release(packs, self._log.of(Standing.CONDEMNED), author)
        written = list[Moved]()
        for move in moves:
            with suppress(ConflictError):
                now = manifests.append(move.commit, move.now, move.read)
                written.append(Moved(move.commit, now, move.read))
        if CONDEMNED_PACKS in refuse_changes(self._backend):
            self._read()
            going = packs & self._log.said(Standing.GOING, after=read)
            for move in written if going else ():
                with suppress(ConflictError):
                    manifests.append(move.commit, move.read, move.now)
            self._refuse(packs, going)
        return written

    def _read(self, attempts: int = ATTEMPTS) -> None:
        try:
            self._log.look()
        except StorageError:
            if attempts == 1:
                raise
            self._read(attempts - 1)

    def _needed(
        self, change: RefChange, marked: Marked, *, missing_is_gone: bool = False, exact: bool = True
    ) -> set[str] | None:
        """Return what a target needs; None where nobody can tell."""
        if self._needs is None or change.target is None:
            return None
        try:
            return self._needs(change.target, marked, exact=exact)
        except NotFoundError:
            if missing_is_gone:
                raise
            return None
        except (CorruptionError, UnsupportedFormatError):
            return None

    @staticmethod
    def _refuse(needed: set[str] | None, going: set[str]) -> None:
        lost = going if needed is None else needed & going
        if lost:
            raise GoingError(lost)

    def _is_there(self, name: str) -> bool:
        paths = (
            pack_path(name),
            pack_path(name, exact=True),
            manifest_path(ObjectId(bytes.fromhex(name)), 0),
        )
        return any(self._backend.size(path) is not None for path in paths)

    def _release(self, needed: set[str] | None, condemned: set[str], author: str) -> None:
        wanted = condemned if needed is None else needed & condemned

        def standing() -> set[str]:
            self._refuse(wanted, self._log.of(Standing.GOING, Standing.GONE))
            return wanted & self._log.of(Standing.CONDEMNED)

        if wanted:
            self._log.say_of(Standing.RELEASED, standing, author)
