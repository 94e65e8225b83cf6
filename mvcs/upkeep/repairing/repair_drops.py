"""Drop records that are damaged: what they said of exact packs and data that are not there is said anew."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.history import Revision
from mvcs.memory import NOTHING
from mvcs.refs import now_microseconds
from mvcs.reports import Mended
from mvcs.restore import has_chunks
from mvcs.retention import DataDrop, DataDrops, Drop, DropLog, DropRecord, RecordRow, drops_row
from mvcs.store import (
    DROPPED_DATA,
    UNREADABLE_ERRORS,
    ObjectStore,
    has_upgrade,
    odd_is_damage,
    pack_path,
    read_footer,
)
from mvcs.upkeep.repairing.set_aside import SetAside
from mvcs.upkeep.repairing.turned_records import TurnedRecords
from mvcs.upkeep.repairing.wanted_packs import WantedPacks


@dataclass
class DropRepair:
    """Mends drop records.

    Attributes:
        wanted: tells of commits and their exact layers.
        aside: keeps what others take the place of; None in a rehearsal.
        note: is told what is taken for granted.
        mended: what was mended.
    """

    wanted: WantedPacks
    aside: SetAside | None
    note: Callable[[str], None]
    mended: list[Mended] = field(default_factory=list)

    def run(self) -> None:
        """Mend each record that is damaged; one that a newer version wrote is left alone."""
        row = drops_row(self.wanted.store.backend)
        try:
            with odd_is_damage():
                numbers = row.numbers()
        except CorruptionError as error:
            self.note(f"{error.message}; it was left alone")
            return
        for number in reversed(numbers):
            try:
                row.load(number)
            except NotFoundError:
                continue  # it was folded
            except (CorruptionError, UnsupportedFormatError) as error:
                self._mend(row, number, error)

    def _mend(self, row: RecordRow[DropRecord], number: int, error: MvcsError) -> None:
        path = row.path(number)
        records = TurnedRecords(row.backend, self.aside, self.mended)
        if records.turn_back(path, _bytes_of(row, path), partial(row.is_good, number)):
            return
        if isinstance(error, UnsupportedFormatError):
            return
        layers, data_of = self._absent(), tuple(self._without_data())
        record = DropRecord(number, (*layers, *data_of))
        packs = sum(len(drop.packs) for drop in layers)
        self.note(
            f"'{path}' was damaged: {packs} exact packs that are not there count as dropped on purpose, "
            f"and so do the data of {len(data_of)} commits of which only the history is there"
        )
        how = "it names what is not there, as the one before may have"
        records.put(path, record.encode(), how, whole=False)

    def _absent(self) -> tuple[Drop, ...]:
        """Return drops of all exact packs that commits name, that are not there, and that no record names."""
        backend, time = self.wanted.store.backend, now_microseconds()
        known = {name for drop in DropLog(backend).survey()[0] for name in drop.packs}
        found = []
        for revision in self.wanted.revisions():
            names = (name for name in revision.written.exact_packs if name not in known)
            gone = tuple(name for name in names if backend.size(pack_path(name, exact=True)) is None)
            if gone:
                found.append(Drop(revision.id, gone, time))
        return tuple(found)

    def _without_data(self) -> Iterator[Drop]:
        """Yield drops of the data of commits that no record names and that were stored without these.

        Where data are lost a pack is missing or damaged; where they were given up, every pack is there.
        """
        backend, time = self.wanted.store.backend, now_microseconds()
        if not has_upgrade(backend, DROPPED_DATA):
            return
        known, store = DataDrops.of(backend).found, ObjectStore(backend, NOTHING)
        for revision in self.wanted.revisions():
            if revision.id not in known and _is_history_alone(store, revision):
                yield DataDrop(revision.id, time, why="a record that was damaged may have said so").drop


def _is_history_alone(store: ObjectStore, revision: Revision) -> bool:
    """Tell whether all packs of a commit are there and whole at their ends, and not all of its data."""
    pack, tree = revision.written.pack, revision.commit.tree
    try:
        for name in read_footer(store.backend, pack).needed:
            read_footer(store.backend, name)
        store.begin_anew(())
        store.catalog.attach_commit(pack)
        return not all(has_chunks(store, leaf) for leaf in store.tree(tree).leaves)
    except UNREADABLE_ERRORS:
        return False


def _bytes_of(row: RecordRow[DropRecord], path: str) -> bytes:
    """Return the bytes of a damaged record; of what is larger than one nothing can be turned back."""
    try:
        return row.backend.read_small(path, row.limit)
    except CorruptionError:
        return b""
